// SPDX-License-Identifier: BSD-3-Clause
// Ping-pongs by kernels for window_sync.c: every block of rank 0 with the same block of rank 1, each on a
// piece of its own. `ns` gets the time of all round trips of block 0.
#include <weft_device.cuh>

namespace {

__device__ unsigned long long now() { return weft::device::detail::now_ns(); }

template <class Scope>
__device__ void ping_pong(const void* handle, size_t bytes, int rounds, unsigned long long* ns) {
  const Scope scope;
  const weft::device::Window window(handle);
  const int peer = 1 - window.rank();
  const weft::device::Target target = window.target(peer);
  const size_t at = blockIdx.x * bytes, half = window.target(peer).bytes() / 2;
  const char* const own = static_cast<const char*>(window.peer_pointer(window.rank())) + half + at;
  auto error = weft::device::Error::none;
  const unsigned long long begin = now();
  for (int i = 0; i < rounds && error == weft::device::Error::none; ++i) {
    if (window.rank() == 0) target.put_notify(scope, at, own, bytes, blockIdx.x);
    error = window.wait_notify(scope, blockIdx.x);
    if (window.rank() == 1) target.put_notify(scope, at, own, bytes, blockIdx.x);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) ns[0] = error == weft::device::Error::none ? now() - begin : 0;
}

}  // namespace

extern "C" __global__ void weft_bench_notify_thread(const void* handle, size_t bytes, int rounds,
                                                    unsigned long long* ns) {
  ping_pong<weft::device::Thread>(handle, bytes, rounds, ns);
}
extern "C" __global__ void __launch_bounds__(1024)
    weft_bench_notify_block(const void* handle, size_t bytes, int rounds, unsigned long long* ns) {
  ping_pong<weft::device::Block>(handle, bytes, rounds, ns);
}

/// The same of 8 bytes by plain accesses: a store, a fence and a flag that the peer polls.
extern "C" __global__ void weft_bench_raw_flag(const void* handle, size_t, int rounds,
                                               unsigned long long* ns) {
  const weft::device::Window window(handle);
  auto* const to = static_cast<volatile long long*>(window.peer_pointer(1 - window.rank()));
  auto* const in = static_cast<volatile long long*>(window.peer_pointer(window.rank()));
  const unsigned long long begin = now();
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
  ns[0] = now() - begin;
}
