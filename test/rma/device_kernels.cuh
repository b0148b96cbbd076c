// SPDX-License-Identifier: BSD-3-Clause
// Programs on weft_device.cuh, for kernels (device_kernels.cu) and for host threads (device_header_test.cpp).
#pragma once
#include <cstdint>

#include "weft_device.cuh"

namespace programs {

using weft::device::Error;
using weft::device::Window;

/// Words of a rank's window in each program: the received half, then the own half.
constexpr int kHalf = 1 << 14;

WEFT_DEVICE_FUNCTION int64_t value(int from, int round, int i) {
  return int64_t{from} * 1000000007 + int64_t{round} * 65537 + i;
}

/// Sends `words` words around the ring `rounds` times by notified puts, and checks what arrives. Returns the
/// number of wrong words, or -1 after an error.
template <class Scope>
WEFT_DEVICE_FUNCTION int64_t ring(Window window, Scope scope, int words, int rounds) {
  const int right = (window.rank() + 1) % window.size();
  const int left = (window.rank() + window.size() - 1) % window.size();
  auto* const in = static_cast<volatile int64_t*>(window.peer_pointer(window.rank()));
  auto* const out = static_cast<int64_t*>(window.peer_pointer(window.rank(), kHalf));
  int64_t wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    for (int i = static_cast<int>(scope.index()); i < words; i += static_cast<int>(scope.count()))
      out[i] = value(window.rank(), round, i);
    scope.sync();
    if (window.put_notify(scope, right, 0, out, static_cast<size_t>(words) * sizeof(int64_t), 0) !=
        Error::none)
      return -1;
    if (window.wait_notify(scope, 0) != Error::none) return -1;
    for (int i = static_cast<int>(scope.index()); i < words; i += static_cast<int>(scope.count()))
      if (in[i] != value(left, round, i)) ++wrong;
    if (window.barrier(scope) != Error::none) return -1;  // the next round overwrites the words
  }
  return wrong;
}

/// All threads of all ranks add to counters of rank 0 and take a lock there.
WEFT_DEVICE_FUNCTION bool atomics(Window window, int rounds) {
  const weft::device::Target first = window.target(0);
  for (int i = 0; i < rounds; ++i) {
    first.atomic_add<int64_t>(0, 1);
    first.atomic_add<uint32_t>(1, 2u);
    first.atomic_add<double>(2, 0.5);
    while (first.atomic_cas<uint32_t>(3, 0u, 1u) != 0u) {
    }
    if (first.remote()) {
      int64_t guarded = 0;
      if (first.get(weft::device::Thread(), 4, &guarded, sizeof guarded) != Error::none) return false;
      ++guarded;
      if (first.put(weft::device::Thread(), 4, &guarded, sizeof guarded) != Error::none) return false;
      if (first.flush(weft::device::Thread()) != Error::none) return false;
    } else {
      auto* const guarded = static_cast<volatile int64_t*>(first.pointer(4));
      const int64_t before = *guarded;
      *guarded = before + 1;
      (void)first.flush(weft::device::Thread());
    }
    if (first.atomic_exchange<uint32_t>(3, 0u) != 1u) return false;
  }
  return true;
}

}  // namespace programs
