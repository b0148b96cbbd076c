// SPDX-License-Identifier: BSD-3-Clause
// Kernels on weft_device.cuh for device_api_hosts.cpp: windows of several hosts. Results are in memory of the
// GPU: result[0] counts wrong values and errors, result[1] the threads or blocks that have ended, result[2]
// is ns.
#include "device_kernels.cuh"

namespace {

using weft::device::Block;
using weft::device::Error;
using weft::device::Target;
using weft::device::Thread;
using weft::device::Warp;
using weft::device::Window;

__device__ void count(long long* result, bool wrong) {
  if (wrong) atomicAdd(reinterpret_cast<unsigned long long*>(result), 1ull);
}
__device__ void end(long long* result, uint64_t begin) {
  if (Block().index() != 0) return;
  result[2] = static_cast<long long>(weft::device::detail::now_ns() - begin);
  atomicAdd(reinterpret_cast<unsigned long long*>(result + 1), 1ull);
}

}  // namespace

extern "C" __global__ void hosts_ring_thread(const void* handle, long long bytes, int rounds, void*,
                                             long long* result) {
  const uint64_t begin = weft::device::detail::now_ns();
  count(result, programs::ring(Window(handle), Thread(), static_cast<int>(bytes / 8), rounds) != 0);
  end(result, begin);
}
extern "C" __global__ void hosts_ring_warp(const void* handle, long long bytes, int rounds, void*,
                                           long long* result) {
  const uint64_t begin = weft::device::detail::now_ns();
  count(result, programs::ring(Window(handle), Warp(), static_cast<int>(bytes / 8), rounds) != 0);
  end(result, begin);
}
extern "C" __global__ void hosts_ring_block(const void* handle, long long bytes, int rounds, void*,
                                            long long* result) {
  const uint64_t begin = weft::device::detail::now_ns();
  count(result, programs::ring(Window(handle), Block(), static_cast<int>(bytes / 8), rounds) != 0);
  end(result, begin);
}
extern "C" __global__ void hosts_atomics(const void* handle, long long, int rounds, void*,
                                         long long* result) {
  const uint64_t begin = weft::device::detail::now_ns();
  count(result, !programs::atomics(Window(handle), rounds));
  end(result, begin);
}
/// Ping-pong of put_notify and wait_notify of ranks 0 and 1.
extern "C" __global__ void hosts_ping_pong(const void* handle, long long bytes, int rounds, void* buffer,
                                           long long* result) {
  const Window window(handle);
  const Target peer = window.target(1 - window.rank());
  const uint64_t begin = weft::device::detail::now_ns();
  bool wrong = false;
  for (int i = 0; i < rounds; ++i) {
    if (window.rank() == 0)
      wrong |= peer.put_notify(Block(), 0, buffer, static_cast<size_t>(bytes), 0) != Error::none;
    wrong |= window.wait_notify(Block(), 0) != Error::none;
    if (window.rank() == 1)
      wrong |= peer.put_notify(Block(), 0, buffer, static_cast<size_t>(bytes), 0) != Error::none;
  }
  count(result, wrong);
  end(result, begin);
}
/// Each block of rank 0 puts its part `rounds` times.
extern "C" __global__ void hosts_put_blocks(const void* handle, long long bytes, int rounds, void* buffer,
                                            long long* result) {
  const Window window(handle);
  const uint64_t begin = weft::device::detail::now_ns();
  const Target peer = window.target(1 - window.rank());
  const uint64_t at = static_cast<uint64_t>(blockIdx.x) * static_cast<uint64_t>(bytes);
  bool wrong = false;
  if (window.rank() == 0)
    for (int i = 0; i < rounds; ++i)
      wrong |= peer.put(Block(), at / 8, static_cast<const char*>(buffer) + at, static_cast<size_t>(bytes)) !=
               Error::none;
  wrong |= peer.flush(Block()) != Error::none;
  count(result, wrong);
  end(result, begin);
}
/// All threads of all blocks put a word each to the next rank, which sums: more records than the ring has.
extern "C" __global__ void hosts_many_threads(const void* handle, long long, int rounds, void*,
                                              long long* result) {
  const Window window(handle);
  const uint64_t begin = weft::device::detail::now_ns();
  const Target next = window.target((window.rank() + 1) % window.size());
  const uint64_t own = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  bool wrong = false;
  for (int i = 0; i < rounds; ++i) {
    const long long value = programs::value(window.rank(), i, static_cast<int>(own));
    wrong |= next.put(Thread(), own, &value, sizeof value) != Error::none;
  }
  wrong |= next.notify(Thread(), 1) != Error::none;
  wrong |= next.flush(Thread()) != Error::none;
  long long value = 0;  // local memory
  wrong |= next.get(Thread(), own, &value, sizeof value) != Error::none;
  wrong |= value != programs::value(window.rank(), rounds - 1, static_cast<int>(own));
  count(result, wrong);
  end(result, begin);
}
