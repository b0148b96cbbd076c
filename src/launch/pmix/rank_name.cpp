// SPDX-License-Identifier: BSD-3-Clause
#include "launch/pmix/rank_name.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/local_socket.hpp"
#include "launch/job_id.hpp"
#include "launch/pmi/connection.hpp"

namespace weft::launch::pmix {

namespace {

constexpr int kBacklog = 128;  // nobody accepts: connections are made to learn the process that listens

/// Returns whether the process runs; 0: a process that this one cannot see. A child of a process that has
/// ended may still have its descriptor.
bool runs(pid_t process) { return process == 0 || ::kill(process, 0) == 0 || errno == EPERM; }

}  // namespace

Status RankName::take(std::string_view space, std::string_view rank) {
  const local_socket::AbstractName name("weft-rank-" + std::to_string(::geteuid()) + "-" +
                                        JobId::of(space).text() + "-" + std::string(rank));
  socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ < 0) return {};
  if (::bind(socket_, name.address(), name.size()) == 0 && ::listen(socket_, kBacklog) == 0) return {};
  const int connected =
      local_socket::retry_on_eintr([&] { return ::connect(socket_, name.address(), name.size()); });
  const auto holder = connected == 0 ? local_socket::peer(socket_) : std::nullopt;
  release();
  if (holder && holder->uid == ::geteuid() && runs(holder->pid)) return pmi::rank_in_use(holder->pid);
  return {};
}

void RankName::release() {
  if (const int fd = std::exchange(socket_, -1); fd >= 0) ::close(fd);
}

}  // namespace weft::launch::pmix
