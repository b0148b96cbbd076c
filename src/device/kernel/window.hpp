// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, window.cu and the emulated driver: synchronisation of windows in streams, by
// the functions of weft_device.cuh. C++17.
#pragma once
#include <cstdint>

namespace weft::device::kernel {

/// Parameter of `weft_window_sync(WindowSync)`: one block.
struct WindowSync {
  static constexpr uint32_t kThreads = 256, kFewThreads = 32;
  static constexpr uint64_t kCopyBytes = 64
                                         << 10;  ///< a copy engine and a second node take longer up to here
  enum Kind : uint32_t {
    barrier,  ///< of all ranks of the window
    notify,   ///< copies `bytes`, then adds 1 to counter `notification` of `rank`
    wait      ///< for counter `notification` of this rank to reach `value`, which it subtracts
  };
  uint64_t table;  ///< weft::device::abi::WindowTable
  Kind kind;
  int32_t rank;
  uint32_t notification;
  uint32_t unused;
  uint64_t value;
  uint64_t to, from, bytes;
  /// Number of threads for the copy.
  [[nodiscard]] uint32_t threads() const { return bytes <= 16 * kFewThreads ? kFewThreads : kThreads; }
};

}  // namespace weft::device::kernel
