// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/name_server.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/local_socket.hpp"
#include "launch/names.hpp"
#include "mpiexec/report.hpp"

namespace weft::mpiexec {

NameServer::~NameServer() {
  for (const auto& [name, entry] : names_) ::close(entry.listener);
  if (epoll_ >= 0) ::close(epoll_);
}

Status NameServer::publish(const std::string& name, const std::string& port) {
  if (epoll_ < 0) epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return system_call_error("open an epoll descriptor", errno);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return system_call_error("open a socket for a published name", errno);
  const local_socket::AbstractName address(launch::name_socket(name));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = listener;
  if (::bind(listener, address.address(), address.size()) == 0 && ::listen(listener, SOMAXCONN) == 0 &&
      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, listener, &event) == 0) {
    names_[name] = {listener, port};
    return {};
  }
  const int error = errno;
  ::close(listener);
  if (error == EADDRINUSE) return Error(Errc::name, "the name is published already");
  return system_call_error("listen for a published name", error);
}

bool NameServer::unpublish(const std::string& name) {
  const auto entry = names_.find(name);
  if (entry == names_.end()) return false;
  ::close(entry->second.listener);
  names_.erase(entry);
  return true;
}

const std::string* NameServer::find(const std::string& name) const {
  const auto entry = names_.find(name);
  return entry == names_.end() ? nullptr : &entry->second.port;
}

void NameServer::serve() {
  for (const auto& [name, entry] : names_)
    for (int client; (client = ::accept4(entry.listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
      // A port name is much shorter than the socket's buffer, so this does not block.
      if (local_socket::same_user(client))
        (void)!::send(client, entry.port.data(), entry.port.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      ::close(client);
    }
}

}  // namespace weft::mpiexec
