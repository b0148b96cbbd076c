// SPDX-License-Identifier: BSD-3-Clause
// Makes the context of a buffer current for a scope, for libraries that call the driver themselves.
// Threading: any thread.
#pragma once
#include "device/memory.hpp"

namespace weft::device {

class ContextGuard {
 public:
  /// No effect for host memory or without a usable context.
  explicit ContextGuard(const Memory& memory) {
    if (memory.known_to_driver()) [[unlikely]]
      push(memory);
  }
  ~ContextGuard() {
    if (pushed_) [[unlikely]]
      pop();
  }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  void push(const Memory& memory);
  static void pop();
  bool pushed_ = false;
};

}  // namespace weft::device
