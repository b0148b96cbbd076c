// SPDX-License-Identifier: BSD-3-Clause
#include "stream/order/words.hpp"

#include "base/assert.hpp"

namespace weft::stream::order {

Result<std::unique_ptr<Words>> Words::create(const device::UserStream& stream) {
  std::unique_ptr<Words> words(new Words(stream));
  WEFT_TRY(words->allocate());
  return words;
}

Words::~Words() {
  for (void* block : blocks_) device::free_pinned(stream_, block);
}

/// Start words are adjacent, since the host polls several; the GPU polls one completion word at a time.
Status Words::allocate() {
  auto block = device::allocate_pinned(stream_, 2 * kSlots * sizeof(uint32_t));
  if (!block) return std::move(block).error();
  blocks_.push_back(*block);
  auto* const words = static_cast<uint32_t*>(*block);
  for (size_t i = kSlots; i-- != 0;) unused_.push_back({words + i, words + kSlots + i});
  return {};
}

Result<std::optional<Slot>> Words::take(bool grow) {
  const std::lock_guard lock(mutex_);
  for (;;) {
    Slot slot;
    if (!unused_.empty()) {
      slot = unused_.back();
      unused_.pop_back();
    } else if (!given_.empty() && given_.front().passed()) {
      slot = given_.front();
      given_.pop_front();
    } else if (grow) {
      WEFT_TRY(allocate());
      continue;
    } else {
      return std::optional<Slot>();
    }
    WEFT_ASSERT(*slot.start == 0 && *slot.completion == 0);  // T2
    return std::optional<Slot>(slot);
  }
}

void Words::give(const Slot& slot) {
  const std::lock_guard lock(mutex_);
  given_.push_back(slot);
}

}  // namespace weft::stream::order
