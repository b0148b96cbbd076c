// SPDX-License-Identifier: BSD-3-Clause
// TcpProbe: tests whether a process still listens on a TCP address. Socket providers retry connections to a
// dead process for ever with -EAGAIN, as for a busy one; the kernel reports the difference.
#pragma once
#include <memory>
#include <string>

namespace weft::transport::ofi {

class TcpProbe {
 public:
  enum class Outcome { pending, reachable, unreachable };
  /// Starts a connection that carries no data; null if `address` is no IP address.
  [[nodiscard]] static std::unique_ptr<TcpProbe> start(const std::string& address);
  ~TcpProbe();
  TcpProbe(const TcpProbe&) = delete;
  /// Does not block. `unreachable`: connection refused or no route; `why` is set.
  [[nodiscard]] Outcome poll(std::string& why) const;

 private:
  TcpProbe(int descriptor, int failure) : descriptor_(descriptor), failure_(failure) {}
  int descriptor_, failure_;
};

}  // namespace weft::transport::ofi
