// SPDX-License-Identifier: BSD-3-Clause
// ProcessWatch: a pidfd, which becomes readable when a process of this machine ends. Threading: any thread.
#pragma once
#include <sys/types.h>

#include <utility>

#include "base/result.hpp"

namespace weft {

class ProcessWatch {
 public:
  /// Watches a process, which may have ended already. Errc::unsupported if the kernel (before Linux 5.3) or
  /// the container has no pidfd for it.
  [[nodiscard]] static Result<ProcessWatch> open(pid_t process);
  ProcessWatch(ProcessWatch&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ProcessWatch& operator=(ProcessWatch&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~ProcessWatch();

  /// Returns whether the process has ended. Does not block.
  [[nodiscard]] bool ended() const;
  /// For poll() and epoll; -1: the process had ended before open().
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  explicit ProcessWatch(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace weft
