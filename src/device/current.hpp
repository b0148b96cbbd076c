// SPDX-License-Identifier: BSD-3-Clause
// For libraries that call the driver themselves: the context of a buffer made current for a scope. Threading:
// any.
#pragma once
#include "device/memory.hpp"

namespace weft::device {

class Current {
 public:
  /// Nothing for host memory, and where there is no usable context.
  explicit Current(const Memory& memory) {
    if (memory.known_to_driver()) [[unlikely]]
      push(memory);
  }
  ~Current() {
    if (pushed_) [[unlikely]]
      pop();
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  void push(const Memory& memory);
  static void pop();
  bool pushed_ = false;
};

}  // namespace weft::device
