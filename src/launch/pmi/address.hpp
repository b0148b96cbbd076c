// SPDX-License-Identifier: BSD-3-Clause
// Address: where a process of Weft's mpiexec finds its connection to the launcher: a descriptor, and, if that
// is lost, a Unix socket of mpiexec. Shared with the server in src/mpiexec/.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "launch/pmi/wire.hpp"

namespace weft::launch::pmi {

/// The variable that holds Address::text().
inline constexpr const char* kAddressVariable = "WEFT_JOB_SOCKET";

/// The descriptor of the connection in a process that may have `limit` descriptors. High, because scripts use
/// the numbers from 3 on; below the limit and the descriptors that valgrind reserves for itself.
[[nodiscard]] int descriptor_below(unsigned long limit);

/// Returns the number of a socket, which no other open socket of the system has; 0: it is no socket.
[[nodiscard]] ino_t socket_number(int fd);

struct Address {
  int process = 0;      ///< number of the process among those of its mpiexec
  int descriptor = 0;   ///< that the process inherits
  ino_t inherited = 0;  ///< socket_number() of it
  std::string name;     ///< abstract name of mpiexec's socket
  std::string secret;   ///< known to the processes of mpiexec, and to others of the user who can read their
                        ///< environment
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static std::optional<Address> parse(std::string_view text);
};

// Messages over mpiexec's socket, before those of PMI-1. "join" asks for the rank of a process and is
// answered by "joined", with rank and size.

/// Value of the key msg of a reply that refuses a process because another one, whose id is the value of the
/// key pid, has the rank. Also in a reply to "init".
inline constexpr const char* kRankInUse = "rank_in_use";

}  // namespace weft::launch::pmi
