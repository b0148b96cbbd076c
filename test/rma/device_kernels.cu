// SPDX-License-Identifier: BSD-3-Clause
// Kernels on weft_device.cuh for device_api.cpp and device_kill.cpp. Results are in memory of the GPU.
#include "device_kernels.cuh"

namespace {

__device__ uint64_t clock_ns() { return weft::device::detail::now_ns(); }

template <class Scope>
__device__ void ring(const void* handle, int words, int rounds, long long* result) {
  const Scope scope;
  const int64_t wrong = programs::ring(weft::device::Window(handle), scope, words, rounds);
  if (wrong != 0) atomicAdd(reinterpret_cast<unsigned long long*>(result), 1ull);
  if (scope.index() == 0) atomicAdd(reinterpret_cast<unsigned long long*>(result + 1), 1ull);
}

}  // namespace

extern "C" __global__ void test_ring_thread(const void* handle, int words, int rounds, long long* result) {
  ring<weft::device::Thread>(handle, words, rounds, result);
}
extern "C" __global__ void test_ring_warp(const void* handle, int words, int rounds, long long* result) {
  ring<weft::device::Warp>(handle, words, rounds, result);
}
extern "C" __global__ void test_ring_block(const void* handle, int words, int rounds, long long* result) {
  ring<weft::device::Block>(handle, words, rounds, result);
}
extern "C" __global__ void test_atomics(const void* handle, int, int rounds, long long* result) {
  if (!programs::atomics(weft::device::Window(handle), rounds))
    atomicAdd(reinterpret_cast<unsigned long long*>(result), 1ull);
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(result + 1), 1ull);
}
/// One wait that nobody ends.
extern "C" __global__ void test_timeout(const void* handle, int, int, long long* result) {
  const weft::device::Window window(handle);
  result[0] = static_cast<long long>(window.wait_notify(weft::device::Block(), 0));
  result[1] = 1;
}
/// Partitions of `words` words are written and marked ready, then awaited and checked; value() of salt 0.
extern "C" __global__ void test_partitioned(const void* send, const void* receive, long long* out,
                                            const long long* in, int words, int rank, int left,
                                            long long* result) {
  const weft::device::PartitionedRequest sent(send), received(receive);
  const weft::device::Block scope;
  for (int p = 0; p < sent.partitions(); ++p) {
    for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x))
      out[p * words + i] = programs::value(rank, p, i);
    if (sent.pready(scope, p) != weft::device::Error::none) atomicAdd((unsigned long long*)result, 1ull);
  }
  for (int p = received.partitions(); p-- > 0;) {
    if (received.wait_arrived(scope, p) != weft::device::Error::none)
      atomicAdd((unsigned long long*)result, 1ull << 20);
    for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x))
      if (static_cast<const volatile long long*>(in)[p * words + i] != programs::value(left, p, i))
        atomicAdd((unsigned long long*)result, 1ull << 40);
  }
  if (threadIdx.x == 0) result[1] = 1;
}
/// Ping-pong of 8 bytes by put_notify and wait_notify; result[0] is the time of all round trips in ns.
extern "C" __global__ void test_ping_pong(const void* handle, int words, int rounds, long long* result) {
  const weft::device::Window window(handle);
  const weft::device::Thread scope;
  const weft::device::Target peer = window.target(1 - window.rank());
  auto* const out = static_cast<int64_t*>(window.peer_pointer(window.rank(), programs::kHalf));
  const uint64_t begin = clock_ns();
  for (int i = 0; i < rounds; ++i) {
    if (window.rank() == 0) peer.put_notify(scope, 0, out, words * sizeof(int64_t), 0);
    window.wait_notify(scope, 0);
    if (window.rank() == 1) peer.put_notify(scope, 0, out, words * sizeof(int64_t), 0);
  }
  result[0] = static_cast<long long>(clock_ns() - begin);
  result[1] = 1;
}
/// The same by plain stores: the data, a fence and a flag, polled by the peer.
extern "C" __global__ void test_raw_ping_pong(const void* handle, int, int rounds, long long* result) {
  const weft::device::Window window(handle);
  const int peer = 1 - window.rank();
  auto* const to = static_cast<volatile int64_t*>(window.peer_pointer(peer));
  auto* const in = static_cast<volatile int64_t*>(window.peer_pointer(window.rank()));
  const uint64_t begin = clock_ns();
  for (int i = 1; i <= rounds; ++i) {
    if (window.rank() == 0) {
      to[0] = i;
      __threadfence_system();
      to[16] = i;
    }
    while (in[16] != i) {
    }
    if (window.rank() == 1) {
      to[0] = i;
      __threadfence_system();
      to[16] = i;
    }
  }
  result[0] = static_cast<long long>(clock_ns() - begin);
  result[1] = 1;
}
