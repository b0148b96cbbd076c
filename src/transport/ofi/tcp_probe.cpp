// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/tcp_probe.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::transport::ofi {

std::unique_ptr<TcpProbe> TcpProbe::start(const std::string& address) {
  sockaddr_storage to{};
  std::memcpy(&to, address.data(), std::min(address.size(), sizeof to));
  socklen_t size = 0;
  if (to.ss_family == AF_INET && address.size() >= sizeof(sockaddr_in)) size = sizeof(sockaddr_in);
  if (to.ss_family == AF_INET6 && address.size() >= sizeof(sockaddr_in6)) size = sizeof(sockaddr_in6);
  if (size == 0) return nullptr;
  const int descriptor = ::socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return nullptr;
  const bool failed = ::connect(descriptor, reinterpret_cast<const sockaddr*>(&to), size) != 0;
  return std::unique_ptr<TcpProbe>(new TcpProbe(descriptor, failed && errno != EINPROGRESS ? errno : 0));
}

TcpProbe::~TcpProbe() { ::close(descriptor_); }

TcpProbe::Outcome TcpProbe::poll(std::string& why) const {
  int failure = failure_;
  if (failure == 0) {
    pollfd wait{descriptor_, POLLOUT, 0};
    if (::poll(&wait, 1, 0) <= 0) return Outcome::pending;
    socklen_t size = sizeof failure;
    ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &failure, &size);
  }
  if (failure != ECONNREFUSED && failure != EHOSTUNREACH && failure != ENETUNREACH) return Outcome::reachable;
  why = std::strerror(failure);
  return Outcome::unreachable;
}

}  // namespace weft::transport::ofi
