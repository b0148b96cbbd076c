// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/launches.hpp"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/clock.hpp"
#include "device/cuda/context.hpp"

namespace weft::device::cuda {
namespace {

using kernel::Launch;

constexpr size_t kGraphed = 2;              // slots with graphs, which take GPU memory: mostly these are free
constexpr uint64_t kEndTime = 100'000'000;  // ns that close() waits for launches to end

}  // namespace

Code Launches::open(Context context, size_t slots, std::span<const Function> kernels, size_t bytes,
                    Stream cancels) {
  if (cancels == nullptr) return kInvalidHandle;
  context_ = context;
  cancels_ = cancels;
  slots_ = std::vector<Slot>(slots);
  const Code code = allocate(kernels, bytes);
  open_ = code == kSuccess;
  if (!open_) close();
  return code;
}

/// Everything is zero before the first launch: the pinned page is, and a stream of each slot copies from it.
Code Launches::allocate(std::span<const Function> kernels, size_t bytes) {
  void* page = nullptr;
  Address from = 0;
  const size_t room = slots_.size() * sizeof(Launch::Line);
  Code code = driver().mem_host_alloc(&page, room, kHostAllocPortable | kHostAllocDeviceMap);
  if (code == kSuccess) {
    lines_ = static_cast<char*>(page);
    std::memset(lines_, 0, room);
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
    for (size_t k = 0; k < kernels.size() && code == kSuccess; ++k)
      slot.launchers[k].open(kernels[k], bytes, i < kGraphed ? 1 : 0, slot.stream);
  }
  return code;
}

void Launches::close() {
  if (open_) {
    for (const uint64_t until = monotonic_ns() + kEndTime; !idle() && monotonic_ns() < until;)
      ::sched_yield();
  }
  open_ = false;
  for (Slot& slot : slots_) {
    for (Launcher& launcher : slot.launchers) launcher.close();
    if (slot.stream != nullptr) driver().stream_destroy(slot.stream);
    slot.stream = nullptr;
    slot.line = nullptr;
  }
  if (memory_ != 0) driver().mem_free(memory_);
  if (lines_ != nullptr) driver().mem_free_host(lines_);
  memory_ = 0;
  lines_ = nullptr;
}

/// The slot's last launch found itself taken back.
bool Launches::has_left(const Slot& slot) {
  return __atomic_load_n(&slot.line->state, __ATOMIC_ACQUIRE) == (uint64_t{slot.number} << 32 | Launch::left);
}

/// Nothing more comes from the slot's last launch.
bool Launches::over(const Slot& slot) {
  return __atomic_load_n(&slot.line->done, __ATOMIC_ACQUIRE) == slot.number || has_left(slot);
}

bool Launches::stuck() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.taken_back && !over(slot); });
}

bool Launches::idle() const { return std::all_of(slots_.begin(), slots_.end(), over); }

Launches::Slot* Launches::free_slot() {
  Slot* found = nullptr;
  for (Slot& slot : slots_) {
    const bool ended = over(slot);
    if (!ended && slot.taken_back) return nullptr;
    if (ended && found == nullptr && !slot.kept && (slot.taken_back || !has_left(slot))) found = &slot;
  }
  return found;
}

Code Launches::start(Slot& slot, size_t kernel, unsigned blocks, unsigned threads, Launch& parameter) {
  // Successive numbers differ in their lowest bit; 0 is left out together with 1.
  const uint32_t before = slot.number;
  slot.number = before + 1 == (1u << 30) ? 2 : before + 1;
  parameter.line = slot.line_address;
  parameter.memory = slot.memory;
  parameter.number = slot.number;
  const CurrentContext current(context_);
  const RelaxedCapture relaxed;
  const Code code = slot.launchers[kernel].launch(slot.stream, blocks, threads, &parameter);
  if (code != kSuccess) {
    slot.number = before;
    return code;
  }
  slot.launched = monotonic_ns();
  slot.cancel = Slot::Cancel::none;
  slot.taken_back = false;
  return kSuccess;
}

Outcome Launches::look(Slot& slot, uint64_t patience) {
  if (__atomic_load_n(&slot.line->done, __ATOMIC_ACQUIRE) == slot.number)
    return __atomic_load_n(&slot.line->missed, __ATOMIC_RELAXED) == slot.number ? Outcome::missed
                                                                                : Outcome::done;
  if (has_left(slot)) {
    slot.taken_back = true;
    return Outcome::untouched;
  }
  if (slot.cancel == Slot::Cancel::asked) return answer(slot);
  if (slot.cancel == Slot::Cancel::none && monotonic_ns() - slot.launched >= patience) ask(slot);
  return Outcome::pending;
}

/// Copy engines write the cancel and read what the launch had done until then. What the driver refuses is
/// asked again.
void Launches::ask(Slot& slot) {
  const Address words = slot.memory + (slot.number & 1) * sizeof(Launch::Words);
  slot.line->cancel = slot.number;
  const CurrentContext current(context_);
  const RelaxedCapture relaxed;
  Code code =
      driver().memcpy_async(words + offsetof(Launch::Words, cancel),
                            slot.line_address + offsetof(Launch::Line, cancel), sizeof(uint32_t), cancels_);
  if (code == kSuccess)
    code = driver().memcpy_async(slot.line_address + offsetof(Launch::Line, seen), words,
                                 sizeof(Launch::Words), cancels_);
  if (code == kSuccess) slot.cancel = Slot::Cancel::asked;
}

Outcome Launches::answer(Slot& slot) {
  const CurrentContext current(context_);
  const RelaxedCapture relaxed;
  if (driver().stream_query(cancels_) != kSuccess)
    return Outcome::pending;  // or a fault, which fault() tells
  if (__atomic_load_n(&slot.line->seen.next, __ATOMIC_ACQUIRE) != 0) {
    slot.cancel = Slot::Cancel::refused;  // it runs, or will say that it has left
    return Outcome::pending;
  }
  slot.taken_back = true;
  return Outcome::untouched;
}

Code Launches::fault(const Slot& slot) const {
  if (slot.stream == nullptr) return kContextIsDestroyed;  // after close()
  return stream_fault(context_, slot.stream);
}

}  // namespace weft::device::cuda
