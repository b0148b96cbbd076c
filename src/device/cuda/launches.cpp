// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/launches.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "device/cuda/context.hpp"

namespace weft::device::cuda {
namespace {

using kernel::Launch;

constexpr uint64_t kEndTime = 100'000'000;  // ns that close() waits for launches to end

}  // namespace

Code Launches::open(Context context, size_t slots) {
  context_ = context;
  slots_.resize(slots);
  const Code code = allocate();
  open_ = code == kSuccess;
  if (!open_) close();
  return code;
}

/// Everything is zero before the first launch: the pinned page is, and a stream of each slot copies from it.
Code Launches::allocate() {
  void* page = nullptr;
  Address from = 0;
  const size_t bytes = slots_.size() * sizeof(Launch::Line);
  Code code = driver().mem_host_alloc(&page, bytes, kHostAllocPortable | kHostAllocDeviceMap);
  if (code == kSuccess) {
    lines_ = static_cast<char*>(page);
    std::memset(lines_, 0, bytes);
    code = driver().mem_host_get_device_pointer(&from, page, 0);
  }
  if (code == kSuccess) code = driver().mem_alloc(&memory_, slots_.size() * sizeof(Launch::Memory));
  for (size_t i = 0; i < slots_.size() && code == kSuccess; ++i) {
    Slot& slot = slots_[i];
    slot.line = reinterpret_cast<Launch::Line*>(lines_ + i * sizeof(Launch::Line));
    slot.line_address = from + i * sizeof(Launch::Line);
    slot.memory = memory_ + i * sizeof(Launch::Memory);
    code = driver().stream_create_with_priority(&slot.stream, kStreamNonBlocking, kHighestPriority);
    if (code == kSuccess)
      code = driver().memcpy_async(slot.memory, slot.line_address, sizeof(Launch::Memory), slot.stream);
  }
  return code;
}

void Launches::close() {
  if (open_) {
    const auto busy = [](const Slot& slot) { return !over(slot); };
    for (const uint64_t until = monotonic_ns() + kEndTime;
         std::any_of(slots_.begin(), slots_.end(), busy) && monotonic_ns() < until;)
      ::sched_yield();
  }
  open_ = false;
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

/// What the GPU has said about the slot's last launch: a Launch::State; 0: nothing yet.
uint32_t Launches::state_of(const Slot& slot) {
  const uint64_t word = __atomic_load_n(&slot.line->state, __ATOMIC_ACQUIRE);
  return word >> 32 == slot.number ? static_cast<uint32_t>(word) : 0;
}

/// Nothing more comes from the slot's last launch.
bool Launches::over(const Slot& slot) {
  return __atomic_load_n(&slot.line->done, __ATOMIC_ACQUIRE) == slot.number || state_of(slot) == Launch::left;
}

bool Launches::stuck() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.taken_back && !over(slot); });
}

Launches::Slot* Launches::free_slot() {
  Slot* found = nullptr;
  for (Slot& slot : slots_) {
    const bool ended = over(slot);
    if (!ended && slot.taken_back) return nullptr;
    if (ended && found == nullptr && !slot.kept && (slot.taken_back || state_of(slot) != Launch::left))
      found = &slot;
  }
  return found;
}

Code Launches::start(Slot& slot, Function function, unsigned blocks, unsigned threads, Launch& launch) {
  // Successive numbers differ in their lowest bit; 0 is left out together with 1.
  const uint32_t before = slot.number;
  slot.number = before + 1 == (1u << 30) ? 2 : before + 1;
  launch.line = slot.line_address;
  launch.memory = slot.memory;
  launch.number = slot.number;
  void* parameters[] = {&launch};
  const CurrentContext current(context_);
  const RelaxedCapture relaxed;
  const Code code =
      driver().launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, slot.stream, parameters, nullptr);
  if (code != kSuccess) {
    slot.number = before;
    return code;
  }
  slot.launched = monotonic_ns();
  slot.taken_back = false;
  return kSuccess;
}

Outcome Launches::look(Slot& slot, uint64_t patience) {
  if (__atomic_load_n(&slot.line->done, __ATOMIC_ACQUIRE) == slot.number)
    return __atomic_load_n(&slot.line->missed, __ATOMIC_RELAXED) == slot.number ? Outcome::missed
                                                                                : Outcome::done;
  switch (state_of(slot)) {
    case Launch::left:
      slot.taken_back = true;
      return Outcome::untouched;
    case Launch::runs:
    case Launch::entered:
      return Outcome::pending;
    default:
      return monotonic_ns() - slot.launched < patience ? Outcome::pending : take_back(slot);
  }
}

Outcome Launches::take_back(Slot& slot) {
  __atomic_store_n(&slot.line->cancel, slot.number, __ATOMIC_SEQ_CST);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (state_of(slot) != 0) return Outcome::pending;  // it has begun: its next word says what it does
  slot.taken_back = true;
  return Outcome::untouched;
}

Code Launches::fault(const Slot& slot) const {
  if (slot.stream == nullptr) return kContextIsDestroyed;  // after close()
  return stream_fault(context_, slot.stream);
}

}  // namespace weft::device::cuda
