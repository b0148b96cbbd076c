// SPDX-License-Identifier: BSD-3-Clause
// ProcessWatch: watches a process of this machine by a pidfd. The provider shm does not report the death of a
// peer, whose operations would never complete.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>

namespace weft::transport::ofi {

class ProcessWatch {
 public:
  /// Null if the kernel has no pidfd_open (before Linux 5.3).
  [[nodiscard]] static std::unique_ptr<ProcessWatch> open(pid_t process);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  [[nodiscard]] bool dead() const;  ///< does not block

 private:
  explicit ProcessWatch(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;  // -1: dead before open()
};

/// Returns an id of this machine and pid namespace: processes with equal ids can watch each other.
[[nodiscard]] uint64_t own_machine();

}  // namespace weft::transport::ofi
