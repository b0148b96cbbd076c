// SPDX-License-Identifier: BSD-3-Clause
#include "launch/names.hpp"

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

}  // namespace

std::string name_socket(std::string_view name) {
  return "weft-name-" + std::to_string(::geteuid()) + "-" + JobId::of(name).text();
}

Result<std::string> lookup_on_host(std::string_view name) {
  const Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.fd < 0)
    return Error(Errc::service, std::string("cannot open a socket (") + std::strerror(errno) + ")");
  ::setsockopt(socket.fd, SOL_SOCKET, SO_RCVTIMEO, &kAnswerTimeout, sizeof kAnswerTimeout);
  ::setsockopt(socket.fd, SOL_SOCKET, SO_SNDTIMEO, &kAnswerTimeout, sizeof kAnswerTimeout);
  const local_socket::AbstractName address(name_socket(name));
  const int connected =
      local_socket::retry_on_eintr([&] { return ::connect(socket.fd, address.address(), address.size()); });
  if (connected != 0 && errno != ECONNREFUSED) return not_answered(name, errno);
  if (connected != 0 || !local_socket::same_user(socket.fd))
    return Error(Errc::name,
                 "no job of this user on this host publishes the name '" + std::string(name) + "'");
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

}  // namespace weft::launch
