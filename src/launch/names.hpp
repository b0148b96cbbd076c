// SPDX-License-Identifier: BSD-3-Clause
// Name service of one host: the mpiexec of the publishing job listens at a socket whose abstract name is
// derived from the published name, so that the jobs of one user find it without configuration. The name
// disappears with that mpiexec. Another user can occupy such a socket, so there are several for each name.
#pragma once
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace weft::launch {

/// Longest published name in bytes.
inline constexpr size_t kMaxServiceName = 1024;

/// Number of sockets for a name: one more than another user must occupy to prevent its use.
inline constexpr int kNameSockets = 16;

/// The abstract name of a socket for a published name of this user.
[[nodiscard]] std::string name_socket(std::string_view name, int number);

/// A socket for a name, as another process sees it.
struct NameSocket {
  enum State { unused, of_this_user, of_other_user, busy };  ///< busy: too many connections wait there
  State state = unused;
  unsigned user = 0;    ///< of_other_user: who
  int connection = -1;  ///< of_this_user: owned by the receiver
};
/// Connects to a socket for a name, without waiting. Errc::service: this process can't open a socket.
[[nodiscard]] Result<NameSocket> connect_name(std::string_view name, int number);

/// The value that any mpiexec of this user on this host has published under `name`. Errc::name: nothing.
[[nodiscard]] Result<std::string> lookup_on_host(std::string_view name);

}  // namespace weft::launch
