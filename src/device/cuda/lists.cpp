// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/lists.hpp"

#include <algorithm>

#include "base/config.hpp"
#include "base/log.hpp"
#include "device/cuda/context.hpp"

namespace weft::device::cuda {
namespace {

config::Size setting_max(
    "gpu.list_max", size_t{512} << 10, 0, size_t{1} << 30,
    "Several GPU copies of at most this size each go out as one kernel: quicker than copy "
    "engines below 1m. 0: never");
config::Size setting_min("gpu.list_min", 4, 2, kernel::List::kMax,
                         "So many copies and more go out as one kernel");
config::Size setting_blocks("gpu.list_blocks", 64, 1, 1024,
                            "Blocks of 512 threads that such a kernel uses, at most");
config::Size setting_patience(
    "gpu.list_patience", 40'000, 1'000, 10'000'000'000,
    "Nanoseconds that such a kernel may wait for a place on the GPU before the copy "
    "engines get its copies");

log::SlowPath no_lists{"gpu.no_lists", "windows of small GPU messages are up to 3 times slower"};
log::SlowPath starved{"gpu.list_starved", "copy engines did what a kernel would have done quicker"};

constexpr uint64_t kLaunchTime = 5'000;  // ns; nobody looks after the copier meanwhile
constexpr size_t kLeastChunk = size_t{8} << 10, kMostChunk = size_t{32} << 10;  // bytes

config::Size setting_beside("gpu.list_beside", size_t{2} << 20, 0, size_t{1} << 30,
                            "The same while copy engines work on others: both together use NVLink better");

bool fits(size_t bytes) { return bytes <= setting_max; }

/// Chunks that keep all blocks busy, but not smaller than what a block copies at a time.
uint32_t chunk_for(uint64_t bytes) {
  const uint64_t even = bytes / setting_blocks / kLeastChunk * kLeastChunk;
  return static_cast<uint32_t>(std::clamp<uint64_t>(even, kLeastChunk, kMostChunk));
}

}  // namespace

void Lists::open(State& state) {
  if (setting_max == 0 || state.kernels.copy_list == nullptr || !launches_return()) return;
  if (const Code code = launches_.open(state.context, kSlots, {&state.kernels.copy_list, 1},
                                       sizeof(kernel::List), state.cancels);
      code != kSuccess)
    return no_lists.hit("their memory cannot be allocated (" + describe(code) + ")");
  state_ = &state;
}

void Lists::close() {
  const std::lock_guard lock(mutex_);
  launches_.close();
  state_ = nullptr;
}

bool Lists::suits(size_t bytes) { return setting_max != 0 && fits(bytes) && launches_return(); }

bool Lists::takes(std::span<const kernel::Item> items, bool beside) const {
  const uint64_t most = beside ? std::max<uint64_t>(setting_max, setting_beside) : uint64_t{setting_max};
  return state_ != nullptr && items.size() >= setting_min && items.size() <= kernel::List::kMax &&
         std::all_of(items.begin(), items.end(),
                     [=](const kernel::Item& item) { return item.bytes <= most; });
}

uint32_t Lists::launch(std::span<const kernel::Item> items) {
  const std::lock_guard lock(mutex_);
  if (state_ == nullptr || shared(state_->device)) return 0;
  Launches::Slot* slot = launches_.free_slot();
  if (slot == nullptr) return 0;
  kernel::List& list = lists_[launches_.index(*slot)];
  uint64_t bytes = 0, chunks = 0;
  for (const kernel::Item& item : items) bytes += item.bytes;
  list.chunk = chunk_for(bytes);
  for (const kernel::Item& item : items) chunks += kernel::List::chunks_of(item.bytes, list.chunk);
  list.chunks = static_cast<uint32_t>(chunks);
  list.count = static_cast<uint32_t>(items.size());
  std::copy(items.begin(), items.end(), list.items);
  const auto blocks = static_cast<unsigned>(std::min<uint64_t>(chunks, setting_blocks));
  state_->copier.keep(kLaunchTime);
  const Code code = launches_.start(*slot, 0, blocks, kernel::List::kThreads, list);
  if (code != kSuccess) {
    no_lists.hit("the kernel cannot be launched (" + describe(code) + ")");
    return 0;
  }
  ++counters_.launched;
  return static_cast<uint32_t>(slot->number * kSlots + launches_.index(*slot));
}

Outcome Lists::look(uint32_t number) {
  const std::lock_guard lock(mutex_);
  if (state_ == nullptr) return Outcome::pending;
  Launches::Slot& slot = slot_of(number);
  if (slot.number != number / kSlots) return Outcome::done;  // and followed by another
  const Outcome outcome = launches_.look(slot, setting_patience);
  if (outcome == Outcome::untouched) {
    ++counters_.taken_back;
    starved.hit("a kernel of the application fills the GPU");
  }
  return outcome;
}

std::span<const kernel::Item> Lists::items(uint32_t number) const {
  const kernel::List& list = lists_[number % kSlots];
  return {list.items, list.count};
}

Code Lists::fault(uint32_t number) const { return launches_.fault(launches_.slot(number % kSlots)); }

Lists::Counters Lists::counters() {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace weft::device::cuda
