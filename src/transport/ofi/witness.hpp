// SPDX-License-Identifier: BSD-3-Clause
// Watches a process of this machine by the kernel: shared memory does not say when the other end dies, and
// what is under way with it would never end.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <memory>

namespace weft::transport::ofi {

class Witness {
 public:
  /// Null where the kernel cannot tell (before Linux 5.3).
  [[nodiscard]] static std::unique_ptr<Witness> of(pid_t process);
  ~Witness();
  Witness(const Witness&) = delete;
  [[nodiscard]] bool dead() const;  ///< does not wait

 private:
  explicit Witness(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;  // -1: it was gone before
};

/// Names this machine and what its process ids mean: processes with the same one may watch each other.
[[nodiscard]] uint64_t own_machine();

}  // namespace weft::transport::ofi
