// SPDX-License-Identifier: BSD-3-Clause
// Whether somebody still listens at a TCP address. Providers over sockets try for ever to connect to a
// process that has died and say "try again" meanwhile, as they do for one that computes: the kernel knows the
// difference.
#pragma once
#include <memory>
#include <string>

namespace weft::transport::ofi {

class Knock {
 public:
  enum class Answer { waiting, somebody, nobody };
  /// Begins a connection that will carry nothing; null for addresses that are not of the IP stack.
  [[nodiscard]] static std::unique_ptr<Knock> at(const std::string& address);
  ~Knock();
  Knock(const Knock&) = delete;
  /// Does not wait. `nobody`: refused, or no way to the host; `why` says which.
  [[nodiscard]] Answer answer(std::string& why) const;

 private:
  Knock(int descriptor, int failure) : descriptor_(descriptor), failure_(failure) {}
  int descriptor_, failure_;
};

}  // namespace weft::transport::ofi
