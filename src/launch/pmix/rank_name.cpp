// SPDX-License-Identifier: BSD-3-Clause
#include "launch/pmix/rank_name.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
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
constexpr int kAttempts = 100;
constexpr useconds_t kPauseUs = 1000;

/// Returns whether a process that this one can see runs. A child of a process that has ended may still have
/// its descriptor.
bool runs(pid_t process) { return process > 0 && (::kill(process, 0) == 0 || errno == EPERM); }

/// Abstract names belong to a network namespace. Jobs in different PID namespaces of it may have the same
/// namespace of PMIx, which is often made of a process id.
ino_t pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

}  // namespace

Status RankName::take(std::string_view space, std::string_view rank) {
  const local_socket::AbstractName name("weft-rank-" + std::to_string(::geteuid()) + "-" +
                                        std::to_string(pid_namespace()) + "-" + JobId::of(space).text() +
                                        "-" + std::string(rank));
  holder_ = ::getpid();
  socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ < 0) return {};
  // Between the other's bind and its listen, and if it has just ended, a connection is refused: try again.
  int connected = -1;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt > 0) ::usleep(kPauseUs);
    if (::bind(socket_, name.address(), name.size()) == 0) {
      static_cast<void>(::listen(socket_, kBacklog));
      return {};
    }
    if (errno != EADDRINUSE) break;
    connected = local_socket::retry_on_eintr([&] { return ::connect(socket_, name.address(), name.size()); });
    if (connected == 0 || errno != ECONNREFUSED) break;
  }
  const bool full = connected != 0 && errno == EAGAIN;  // the backlog: so many others have asked
  const auto holder = connected == 0 ? local_socket::peer(socket_) : std::nullopt;
  release();
  if (full) return pmi::rank_in_use(0);
  if (holder && holder->uid == ::geteuid() && runs(holder->pid)) return pmi::rank_in_use(holder->pid);
  return {};
}

void RankName::release() {
  const int fd = std::exchange(socket_, -1);
  if (fd < 0) return;
  if (holder_ == ::getpid()) ::shutdown(fd, SHUT_RDWR);  // further connections are refused
  ::close(fd);
}

}  // namespace weft::launch::pmix
