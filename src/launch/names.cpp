// SPDX-License-Identifier: BSD-3-Clause
#include "launch/names.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/local_socket.hpp"
#include "launch/job_id.hpp"

namespace weft::launch {
namespace {

constexpr timeval kAnswerTimeout{10, 0};  // an mpiexec that is stopped does not answer
constexpr int kRetryMs = 10;

struct Socket {
  explicit Socket(int descriptor) : fd(descriptor) {}
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  const int fd;
};

Error not_answered(std::string_view name, int error) {
  return Error(Errc::service, "the mpiexec that has published '" + std::string(name) + "' does not answer (" +
                                  std::strerror(error) + "): is it stopped?");
}

/// Receives the value of a name; closes the connection.
Result<std::string> ask(int connection, std::string_view name) {
  const Socket socket(connection);
  ::fcntl(socket.fd, F_SETFL, 0);  // wait
  ::setsockopt(socket.fd, SOL_SOCKET, SO_RCVTIMEO, &kAnswerTimeout, sizeof kAnswerTimeout);
  std::string port;
  char bytes[2048];
  for (;;) {
    const ssize_t got =
        local_socket::retry_on_eintr([&] { return ::recv(socket.fd, bytes, sizeof bytes, 0); });
    if (got < 0) return not_answered(name, errno);
    if (got == 0) break;
    port.append(bytes, static_cast<size_t>(got));
  }
  if (port.empty()) return Error(Errc::name, "the name '" + std::string(name) + "' is no longer published");
  return port;
}

}  // namespace

std::string name_socket(std::string_view name, int number) {
  return "weft-name-" + std::to_string(::geteuid()) + "-" + JobId::of(name).text() + "-" +
         std::to_string(number);
}

Result<NameSocket> connect_name(std::string_view name, int number) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Error(Errc::service, std::string("cannot open a socket (") + std::strerror(errno) + ")");
  const local_socket::AbstractName address(name_socket(name, number));
  const int connected =
      local_socket::retry_on_eintr([&] { return ::connect(fd, address.address(), address.size()); });
  const int error = errno;
  const auto peer = connected == 0 ? local_socket::peer(fd) : std::nullopt;
  if (peer && peer->uid == ::geteuid()) return NameSocket{NameSocket::of_this_user, 0, fd};
  ::close(fd);
  if (peer) return NameSocket{NameSocket::of_other_user, peer->uid, -1};
  return NameSocket{error == EAGAIN ? NameSocket::busy : NameSocket::unused, 0, -1};
}

Result<std::string> lookup_on_host(std::string_view name) {
  for (int waited_ms = 0;; waited_ms += kRetryMs) {
    bool busy = false;
    for (int number = 0; number < kNameSockets; ++number) {
      auto found = connect_name(name, number);
      if (!found) return std::move(found).error();
      if (found->state == NameSocket::of_this_user) return ask(found->connection, name);
      busy = busy || found->state == NameSocket::busy;
    }
    if (!busy)
      return Error(Errc::name,
                   "no job of this user on this host publishes the name '" + std::string(name) + "'");
    if (waited_ms >= kAnswerTimeout.tv_sec * 1000) return not_answered(name, EAGAIN);
    ::usleep(kRetryMs * 1000);
  }
}

}  // namespace weft::launch
