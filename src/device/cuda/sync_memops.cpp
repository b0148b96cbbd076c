// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/sync_memops.hpp"

#include <atomic>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "device/cuda/context.hpp"
#include "device/cuda/driver.hpp"

namespace weft::device::cuda {
namespace {

config::Choice setting{
    "gpu.sync_memops",
    0,
    {"on", "off"},
    "on: cudaMemcpy and cudaMemset of GPU memory that was passed to MPI return when they are done, as with "
    "other MPI libraries. off: they may return earlier, by some 5 us, and the application synchronises "
    "before MPI calls."};

config::Size setting_wait{
    "gpu.default_stream_wait_ns", 10'000'000, 0, 10'000'000'000,
    "Longest wait, in ns, for the default stream before memory of a pool or of cuMemMap is used. The last "
    "part of a cudaMemcpy takes up to 40 us, and some ms on a GPU that processes share without MPS."};
log::SlowPath default_stream_busy{
    "gpu.default_stream_busy",
    "the call waited 10 ms for the default stream; data of a copy that is still under way are missed"};

std::atomic<bool> left{false};

const Stream kLegacyStream = reinterpret_cast<Stream>(1);

/// Waits until the default stream of the current context is idle or another stream is being captured, for at
/// most gpu.default_stream_wait_ns. A query of the default stream would end a capture: each is preceded by
/// the question.
void wait_for_default_stream() {
  const auto may_query = [] {
    int capturing = 0;
    return driver().stream_is_capturing(kLegacyStream, &capturing) == kSuccess && capturing == 0;
  };
  const uint64_t end = monotonic_ns() + setting_wait;
  while (may_query() && driver().stream_query(kLegacyStream) == kNotReady) {
    if (monotonic_ns() >= end)
      return default_stream_busy.hit(
          "memory of a pool or of cuMemMap is passed to MPI while a kernel runs in the default stream or a "
          "stream that synchronises with it");
  }
}

}  // namespace

void leave_memops() { left.store(true, std::memory_order_relaxed); }

void finish_memops(const Memory& memory, const void* p) {
  if (setting.is("off") || left.load(std::memory_order_relaxed)) return;
  const auto context = context_of(memory);
  if (!context) return;
  const CurrentContext current(*context);
  if (current.code() != kSuccess) return;
  const RelaxedCapture relaxed;
  const unsigned on = 1;
  const bool covered =
      memory.context != nullptr &&
      driver().pointer_set_attribute(&on, kAttributeSyncMemops, reinterpret_cast<Address>(p)) == kSuccess;
  if (!covered) wait_for_default_stream();
}

}  // namespace weft::device::cuda
