// SPDX-License-Identifier: BSD-3-Clause
#include "device/queue/cancellable_launches.hpp"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "device/queue/work_queue.hpp"

namespace weft::device::cuda {
namespace {

using kernel::CancellableLaunch;

constexpr size_t kSlotsWithGraphs = 2;             // graphs take GPU memory; these slots usually suffice
constexpr uint64_t kCloseTimeoutNs = 100'000'000;  // ns that close() waits for pending launches

}  // namespace

Code CancellableLaunches::open(Context context, size_t slots, std::span<const Function> kernels, size_t bytes,
                               Stream cancel_stream) {
  if (cancel_stream == nullptr) return kInvalidHandle;
  context_ = context;
  cancel_stream_ = cancel_stream;
  slots_ = std::vector<Slot>(slots);
  const Code code = allocate(kernels, bytes);
  open_ = code == kSuccess;
  if (!open_) close();
  return code;
}

/// Zeroes the pinned page, and the device memory of each slot by a copy in the stream of the slot.
Code CancellableLaunches::allocate(std::span<const Function> kernels, size_t bytes) {
  void* page = nullptr;
  Address from = 0;
  const size_t bytes_total = slots_.size() * sizeof(CancellableLaunch::HostState);
  Code code = driver().mem_host_alloc(&page, bytes_total, kHostAllocPortable | kHostAllocDeviceMap);
  if (code == kSuccess) {
    host_states_ = static_cast<char*>(page);
    std::memset(host_states_, 0, bytes_total);
    code = driver().mem_host_get_device_pointer(&from, page, 0);
  }
  if (code == kSuccess)
    code = driver().mem_alloc(&memory_, slots_.size() * sizeof(CancellableLaunch::Memory));
  for (size_t i = 0; i < slots_.size() && code == kSuccess; ++i) {
    Slot& slot = slots_[i];
    slot.host = reinterpret_cast<CancellableLaunch::HostState*>(host_states_ +
                                                                i * sizeof(CancellableLaunch::HostState));
    slot.host_address = from + i * sizeof(CancellableLaunch::HostState);
    slot.memory = memory_ + i * sizeof(CancellableLaunch::Memory);
    code = driver().stream_create_with_priority(&slot.stream, kStreamNonBlocking, kHighestPriority);
    if (code == kSuccess)
      code = driver().memcpy_async(slot.memory, slot.host_address, sizeof(CancellableLaunch::Memory),
                                   slot.stream);
    for (size_t k = 0; k < kernels.size() && code == kSuccess; ++k)
      slot.launchers[k].open(kernels[k], bytes, i < kSlotsWithGraphs ? 1 : 0, slot.stream);
  }
  return code;
}

void CancellableLaunches::close() {
  if (open_) {
    for (const uint64_t until = monotonic_ns() + kCloseTimeoutNs; !idle() && monotonic_ns() < until;)
      ::sched_yield();
  }
  open_ = false;
  for (Slot& slot : slots_) {
    for (Launcher& launcher : slot.launchers) launcher.close();
    if (slot.stream != nullptr) driver().stream_destroy(slot.stream);
    slot.stream = nullptr;
    slot.host = nullptr;
  }
  if (memory_ != 0) driver().mem_free(memory_);
  if (host_states_ != nullptr) driver().mem_free_host(host_states_);
  memory_ = 0;
  host_states_ = nullptr;
}

/// Whether the last launch of the slot has observed its cancellation.
bool CancellableLaunches::was_cancelled(const Slot& slot) {
  return __atomic_load_n(&slot.host->state, __ATOMIC_ACQUIRE) ==
         (uint64_t{slot.number} << 32 | CancellableLaunch::cancelled);
}

/// Whether the last launch of the slot has finished or observed its cancellation.
bool CancellableLaunches::over(const Slot& slot) {
  return __atomic_load_n(&slot.host->done, __ATOMIC_ACQUIRE) == slot.number || was_cancelled(slot);
}

bool CancellableLaunches::cancelled_pending() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.cancelled && !over(slot); });
}

bool CancellableLaunches::idle() const { return std::all_of(slots_.begin(), slots_.end(), over); }

CancellableLaunches::Slot* CancellableLaunches::free_slot() {
  Slot* found = nullptr;
  for (Slot& slot : slots_) {
    const bool ended = over(slot);
    if (!ended && slot.cancelled) return nullptr;
    if (ended && found == nullptr && !slot.reserved && (slot.cancelled || !was_cancelled(slot)))
      found = &slot;
  }
  return found;
}

Code CancellableLaunches::start(Slot& slot, size_t kernel, unsigned blocks, unsigned threads,
                                CancellableLaunch& parameter) {
  WEFT_ASSERT(over(slot));  // Q5
  // Successive numbers differ in the lowest bit, so the wraparound skips 0 and 1.
  const uint32_t before = slot.number;
  slot.number = before + 1 == (1u << 30) ? 2 : before + 1;
  parameter.host_state = slot.host_address;
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
  slot.cancelled = false;
  return kSuccess;
}

Outcome CancellableLaunches::poll(Slot& slot, uint64_t timeout_ns) {
  if (__atomic_load_n(&slot.host->done, __ATOMIC_ACQUIRE) == slot.number)
    return __atomic_load_n(&slot.host->timed_out, __ATOMIC_RELAXED) == slot.number ? Outcome::timed_out
                                                                                   : Outcome::done;
  if (was_cancelled(slot)) {
    slot.cancelled = true;
    return Outcome::not_started;
  }
  if (slot.cancel == Slot::Cancel::requested) return poll_cancel(slot);
  if (slot.cancel == Slot::Cancel::none && monotonic_ns() - slot.launched >= timeout_ns) request_cancel(slot);
  return Outcome::pending;
}

/// A copy engine writes the cancel word, then reads the progress of the launch. Repeated by the next poll()
/// if the driver rejects a copy, or while copies for an earlier launch of the slot are in flight: that launch
/// may have started, and ended, before them.
void CancellableLaunches::request_cancel(Slot& slot) {
  const CurrentContext current(context_);
  const RelaxedCapture relaxed;
  if (slot.cancelling && driver().stream_query(cancel_stream_) != kSuccess) return;
  const Address words = slot.memory + (slot.number & 1) * sizeof(CancellableLaunch::Words);
  slot.host->cancel = slot.number;
  slot.cancelling = true;
  Code code = driver().memcpy_async(words + offsetof(CancellableLaunch::Words, cancel),
                                    slot.host_address + offsetof(CancellableLaunch::HostState, cancel),
                                    sizeof(uint32_t), cancel_stream_);
  if (code == kSuccess)
    code = driver().memcpy_async(slot.host_address + offsetof(CancellableLaunch::HostState, snapshot), words,
                                 sizeof(CancellableLaunch::Words), cancel_stream_);
  if (code == kSuccess) slot.cancel = Slot::Cancel::requested;
}

Outcome CancellableLaunches::poll_cancel(Slot& slot) {
  const CurrentContext current(context_);
  const RelaxedCapture relaxed;
  if (driver().stream_query(cancel_stream_) != kSuccess)
    return Outcome::pending;  // or an error, which fault() returns
  slot.cancelling = false;
  if (__atomic_load_n(&slot.host->snapshot.next, __ATOMIC_ACQUIRE) != 0) {
    slot.cancel = Slot::Cancel::refused;  // the kernel runs, or will report its cancellation
    return Outcome::pending;
  }
  slot.cancelled = true;
  return Outcome::not_started;
}

Code CancellableLaunches::fault(const Slot& slot) const {
  if (slot.stream == nullptr) return kContextIsDestroyed;  // after close()
  return stream_fault(context_, slot.stream);
}

}  // namespace weft::device::cuda
