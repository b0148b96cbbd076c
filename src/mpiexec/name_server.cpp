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

namespace {

/// Whether a job of this user publishes the name, at any of its sockets below `end`.
Result<bool> is_published(const std::string& name, int end = launch::kNameSockets) {
  for (int number = 0; number < end; ++number) {
    auto found = launch::connect_name(name, number);
    if (!found) return std::move(found).error();
    if (found->state != launch::NameSocket::of_this_user) continue;
    ::close(found->connection);
    return true;
  }
  return false;
}

/// Returns who has the first socket for a name, which this user can't use.
std::string occupant(const std::string& name) {
  auto found = launch::connect_name(name, 0);
  const bool known = found && found->state == launch::NameSocket::of_other_user;
  return known ? "user " + std::to_string(found->user) : "another user";
}

/// A listening socket, and its number among those for the name.
struct Listener {
  int fd;
  int number;
};
Result<Listener> listen_for(const std::string& name) {
  for (int number = 0; number < launch::kNameSockets; ++number) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return system_call_error("open a socket for a published name", errno);
    const local_socket::AbstractName address(launch::name_socket(name, number));
    if (::bind(fd, address.address(), address.size()) == 0 && ::listen(fd, SOMAXCONN) == 0)
      return Listener{fd, number};
    const int error = errno;
    ::close(fd);
    if (error != EADDRINUSE) return system_call_error("listen for a published name", error);
  }
  return Error(Errc::name, occupant(name) +
                               " occupies all sockets for this name: publish another name, and tell the "
                               "administrator of this host");
}

}  // namespace

NameServer::~NameServer() {
  for (const auto& [name, entry] : names_) ::close(entry.listener);
  if (epoll_ >= 0) ::close(epoll_);
}

Status NameServer::publish(const std::string& name, const std::string& port) {
  if (epoll_ < 0) epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return system_call_error("open an epoll descriptor", errno);
  const Error published(Errc::name, "the name is published already");
  auto taken = is_published(name);
  if (!taken) return std::move(taken).error();
  if (*taken) return published.copy();
  auto listener = listen_for(name);
  if (!listener) return std::move(listener).error();
  // A process that publishes it at the same time may have got an earlier socket.
  taken = is_published(name, listener->number);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = listener->fd;
  if (taken && !*taken && ::epoll_ctl(epoll_, EPOLL_CTL_ADD, listener->fd, &event) == 0) {
    names_[name] = {listener->fd, port};
    return {};
  }
  const int error = errno;
  ::close(listener->fd);
  if (!taken) return std::move(taken).error();
  return *taken ? published.copy() : system_call_error("listen for a published name", error);
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
