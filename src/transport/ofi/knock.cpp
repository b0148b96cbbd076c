// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/knock.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft::transport::ofi {

std::unique_ptr<Knock> Knock::at(const std::string& address) {
  sockaddr_storage to{};
  std::memcpy(&to, address.data(), std::min(address.size(), sizeof to));
  socklen_t size = 0;
  if (to.ss_family == AF_INET && address.size() >= sizeof(sockaddr_in)) size = sizeof(sockaddr_in);
  if (to.ss_family == AF_INET6 && address.size() >= sizeof(sockaddr_in6)) size = sizeof(sockaddr_in6);
  if (size == 0) return nullptr;
  const int descriptor = ::socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return nullptr;
  const bool failed = ::connect(descriptor, reinterpret_cast<const sockaddr*>(&to), size) != 0;
  return std::unique_ptr<Knock>(new Knock(descriptor, failed && errno != EINPROGRESS ? errno : 0));
}

Knock::~Knock() { ::close(descriptor_); }

Knock::Answer Knock::answer(std::string& why) const {
  int failure = failure_;
  if (failure == 0) {
    pollfd wait{descriptor_, POLLOUT, 0};
    if (::poll(&wait, 1, 0) <= 0) return Answer::waiting;
    socklen_t size = sizeof failure;
    ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &failure, &size);
  }
  if (failure != ECONNREFUSED && failure != EHOSTUNREACH && failure != ENETUNREACH) return Answer::somebody;
  why = std::strerror(failure);
  return Answer::nobody;
}

}  // namespace weft::transport::ofi
