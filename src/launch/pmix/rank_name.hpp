// SPDX-License-Identifier: BSD-3-Clause
// RankName: a name of this host that the process of a rank holds, since PMIx takes several processes at once
// for one rank.
#pragma once
#include <sys/types.h>

#include <string_view>

#include "base/result.hpp"

namespace weft::launch::pmix {

class RankName {
 public:
  RankName() = default;
  ~RankName() { release(); }
  RankName(const RankName&) = delete;
  RankName& operator=(const RankName&) = delete;

  /// Takes the name of a rank of a namespace. Errc::again if another running process of this user has it; no
  /// error if that can't be found out. Processes in different PID namespaces have different names.
  [[nodiscard]] Status take(std::string_view space, std::string_view rank);
  /// Gives the name back, although children of this process may still have the descriptor. In a child it only
  /// closes the child's.
  void release();

 private:
  int socket_ = -1;   // bound to the name
  pid_t holder_ = 0;  // the process that has taken it
};

}  // namespace weft::launch::pmix
