// SPDX-License-Identifier: BSD-3-Clause
// Device code of enqueued collectives: credits between ranks, and the end of a launch.
#pragma once
#include <cstddef>

#include "device/kernel/simple_device.cuh"

namespace weft::device::kernel {

/// One thread for each rank: waits until its peer has finished call `needed`. `control`: address of the own
/// StreamControl; `cancel` as Collective::timeout_ns.
__device__ __forceinline__ void await_peers(uint64_t control, uint32_t rank, uint32_t size, uint64_t needed,
                                            uint64_t cancel) {
  const uint32_t peer = threadIdx.x;
  if (peer >= size || peer == rank) return;
  const uint64_t word = control + offsetof(StreamControl, finished) + peer * 8ull;
  Timeout timeout(cancel);
  while (load_acquire(word) < needed && !timeout.expired()) continue;
}

/// All threads: whether this is the last block of a launch to end.
__device__ __forceinline__ bool last_of_stream_call(StreamControl& control) {
  __syncthreads();
  __shared__ bool last;
  if (threadIdx.x == 0) {
    last = true;
    if (gridDim.x > 1) {
      __threadfence();
      last = atomicAdd(&control.ticket, 1u) == gridDim.x - 1;
      __threadfence();
    }
  }
  __syncthreads();
  return last;
}

/// Tells the rank with the StreamControl at `control` that rank `own` has finished call `number`. Relaxed
/// suffices for LL: the word says that this rank has read its packets. Waiting for its own stores takes a
/// microsecond.
__device__ __forceinline__ void acknowledge(uint64_t control, uint32_t own, uint64_t number, bool releases) {
  const uint64_t word = control + offsetof(StreamControl, finished) + own * 8ull;
  if (releases)
    store_release(word, number);
  else
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(number) : "memory");
}

}  // namespace weft::device::kernel
