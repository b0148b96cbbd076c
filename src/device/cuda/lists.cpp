// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/lists.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
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

constexpr uint64_t kEndTime = 100'000'000;  // ns that close() waits for launches to end
constexpr size_t kLeastChunk = size_t{8} << 10, kMostChunk = size_t{32} << 10;  // bytes

bool fits(size_t bytes) { return bytes <= setting_max; }

/// Chunks that keep all blocks busy, but not smaller than what a block copies at a time.
uint32_t chunk_for(uint64_t bytes) {
  const uint64_t even = bytes / setting_blocks / kLeastChunk * kLeastChunk;
  return static_cast<uint32_t>(std::clamp<uint64_t>(even, kLeastChunk, kMostChunk));
}

}  // namespace

void Lists::open(State& state) {
  if (setting_max == 0 || state.kernels.copy_list == nullptr || !launches_return()) return;
  if (const Code code = allocate(); code != kSuccess) {
    no_lists.hit("their memory cannot be allocated (" + describe(code) + ")");
    return close();
  }
  for (size_t i = 0; i < kSlots; ++i)
    slots_[i].line = reinterpret_cast<kernel::List::Line*>(lines_ + i * sizeof(kernel::List::Line));
  state_ = &state;
}

/// Everything is zero before the first launch: the pinned page is, and a stream of each slot copies from it.
Code Lists::allocate() {
  using kernel::List;
  static_assert(sizeof(List::Memory) <= sizeof(List::Line));
  void* page = nullptr;
  Address from = 0;
  Code code =
      driver().mem_host_alloc(&page, kSlots * sizeof(List::Line), kHostAllocPortable | kHostAllocDeviceMap);
  if (code == kSuccess) {
    lines_ = static_cast<char*>(page);
    std::memset(lines_, 0, kSlots * sizeof(List::Line));
    code = driver().mem_host_get_device_pointer(&from, page, 0);
  }
  if (code == kSuccess) code = driver().mem_alloc(&memory_, kSlots * sizeof(List::Memory));
  for (size_t i = 0; i < kSlots && code == kSuccess; ++i) {
    Slot& slot = slots_[i];
    slot.list.line = from + i * sizeof(List::Line);
    slot.list.memory = memory_ + i * sizeof(List::Memory);
    code = driver().stream_create_with_priority(&slot.stream, kStreamNonBlocking, kHighestPriority);
    if (code == kSuccess)
      code = driver().memcpy_async(slot.list.memory, slot.list.line, sizeof(List::Memory), slot.stream);
  }
  return code;
}

void Lists::close() {
  const std::lock_guard lock(mutex_);
  if (state_ != nullptr) {
    const auto busy = [](const Slot& slot) { return !over(slot); };
    for (const uint64_t until = monotonic_ns() + kEndTime;
         std::any_of(slots_.begin(), slots_.end(), busy) && monotonic_ns() < until;)
      ::sched_yield();
  }
  state_ = nullptr;
  for (Slot& slot : slots_) {
    if (slot.stream != nullptr) driver().stream_destroy(slot.stream);
    slot.stream = nullptr;
    slot.line = nullptr;
  }
  if (memory_ != 0) driver().mem_free(memory_);
  if (lines_ != nullptr) driver().mem_free_host(lines_);
  memory_ = 0;
  lines_ = nullptr;
}

bool Lists::suits(size_t bytes) { return setting_max != 0 && fits(bytes) && launches_return(); }

bool Lists::takes(std::span<const kernel::Item> items) const {
  return state_ != nullptr && items.size() >= setting_min && items.size() <= kernel::List::kMax &&
         std::all_of(items.begin(), items.end(), [](const kernel::Item& item) { return fits(item.bytes); });
}

/// What the GPU has said about the slot's last launch: a kernel::List::State; 0: nothing yet.
uint32_t Lists::state_of(const Slot& slot) {
  const uint64_t word = __atomic_load_n(&slot.line->state, __ATOMIC_ACQUIRE);
  return word >> 32 == slot.list.number ? static_cast<uint32_t>(word) : 0;
}

/// Nothing more comes from the slot's last launch.
bool Lists::over(const Slot& slot) {
  return __atomic_load_n(&slot.line->done, __ATOMIC_ACQUIRE) == slot.list.number ||
         state_of(slot) == kernel::List::left;
}

/// Null as long as a launch that was taken back waits for its place: another would wait as well. One that
/// found itself taken back keeps its slot until its ticket has been told.
Lists::Slot* Lists::free_slot() {
  Slot* found = nullptr;
  for (Slot& slot : slots_) {
    const bool ended = over(slot);
    if (!ended && slot.taken_back) return nullptr;
    if (ended && found == nullptr && (slot.taken_back || state_of(slot) != kernel::List::left)) found = &slot;
  }
  return found;
}

uint32_t Lists::launch(std::span<const kernel::Item> items) {
  const std::lock_guard lock(mutex_);
  if (state_ == nullptr || shared(state_->device)) return 0;
  Slot* slot = free_slot();
  if (slot == nullptr) return 0;
  if (const Code code = run(*slot, items); code != kSuccess) {
    no_lists.hit("the kernel cannot be launched (" + describe(code) + ")");
    return 0;
  }
  ++counters_.launched;
  return static_cast<uint32_t>(slot->list.number * kSlots + static_cast<size_t>(slot - slots_.data()));
}

Code Lists::run(Slot& slot, std::span<const kernel::Item> items) {
  kernel::List& list = slot.list;
  uint64_t bytes = 0, chunks = 0;
  for (const kernel::Item& item : items) bytes += item.bytes;
  list.chunk = chunk_for(bytes);
  for (const kernel::Item& item : items) chunks += kernel::List::chunks_of(item.bytes, list.chunk);
  list.chunks = static_cast<uint32_t>(chunks);
  list.count = static_cast<uint32_t>(items.size());
  std::copy(items.begin(), items.end(), list.items);
  // Successive numbers differ in their lowest bit; 0 is left out together with 1, and the number fits a
  // ticket's.
  const uint32_t before = list.number;
  list.number = before + 1 == (1u << 30) ? 2 : before + 1;
  void* parameters[] = {&list};
  const CurrentContext current(state_->context);
  const RelaxedCapture relaxed;
  const auto blocks = static_cast<unsigned>(std::min<uint64_t>(chunks, setting_blocks));
  const Code code = driver().launch_kernel(state_->kernels.copy_list, blocks, 1, 1, kernel::List::kThreads, 1,
                                           1, 0, slot.stream, parameters, nullptr);
  if (code != kSuccess) {
    list.number = before;
    return code;
  }
  slot.launched = monotonic_ns();
  slot.taken_back = false;
  return kSuccess;
}

Outcome Lists::look(uint32_t number) {
  const std::lock_guard lock(mutex_);
  if (state_ == nullptr) return Outcome::pending;
  Slot& slot = slots_[number % kSlots];
  if (slot.list.number != number / kSlots ||  // done, and followed by another
      __atomic_load_n(&slot.line->done, __ATOMIC_ACQUIRE) == slot.list.number)
    return Outcome::done;
  switch (state_of(slot)) {
    case kernel::List::left:
      return untouched(slot);
    case kernel::List::runs:
    case kernel::List::entered:
      return Outcome::pending;
    default:
      return monotonic_ns() - slot.launched < setting_patience ? Outcome::pending : take_back(slot);
  }
}

Outcome Lists::take_back(Slot& slot) {
  __atomic_store_n(&slot.line->cancel, slot.list.number, __ATOMIC_SEQ_CST);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (state_of(slot) != 0) return Outcome::pending;  // it has begun: its next word says what it does
  return untouched(slot);
}

Outcome Lists::untouched(Slot& slot) {
  slot.taken_back = true;
  ++counters_.taken_back;
  starved.hit("a kernel of the application fills the GPU");
  return Outcome::untouched;
}

std::span<const kernel::Item> Lists::items(uint32_t number) const {
  const kernel::List& list = slots_[number % kSlots].list;
  return {list.items, list.count};
}

Code Lists::fault(uint32_t number) const {
  const Stream stream = slots_[number % kSlots].stream;
  if (stream == nullptr) return kContextIsDestroyed;  // after close()
  return stream_fault(state_->context, stream);
}

Lists::Counters Lists::counters() {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace weft::device::cuda
