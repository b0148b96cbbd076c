// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/pmi_listener.hpp"

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/local_socket.hpp"
#include "mpiexec/report.hpp"

namespace weft::mpiexec {

namespace {

constexpr int kMaxAccepted = 64;  // connections at a time, so that other events are not kept waiting

/// 128 random bits as digits; empty: see errno.
std::string random_digits() {
  unsigned long long words[2];
  if (::getrandom(words, sizeof words, 0) != sizeof words) return {};
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", words[0], words[1]);
  return text;
}

bool watch_readable(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

PmiListener::~PmiListener() { close(); }

void PmiListener::close() {
  for (const auto& [fd, lines] : pending_) ::close(fd);
  for (int* fd : {&epoll_, &listener_}) {
    if (*fd >= 0) ::close(*fd);
    *fd = -1;
  }
  pending_.clear();
}

Status PmiListener::open() {
  const std::string digits = random_digits();
  address_.name = "weft-pmi-" + digits;
  address_.secret = random_digits();
  if (digits.empty() || address_.secret.empty()) return system_call_error("draw random numbers", errno);
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return system_call_error("open an epoll descriptor", errno);
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const local_socket::AbstractName name(address_.name);
  if (listener_ < 0 || ::bind(listener_, name.address(), name.size()) != 0 ||
      ::listen(listener_, SOMAXCONN) != 0 || !watch_readable(epoll_, listener_))
    return system_call_error("open a socket for the ranks", errno);
  return {};
}

void PmiListener::accept() {
  for (int i = 0; i < kMaxAccepted; ++i) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    if (local_socket::same_user(fd) && watch_readable(epoll_, fd))
      pending_[fd];
    else
      ::close(fd);
  }
}

bool PmiListener::read(int fd, std::vector<Request>& complete) {
  char bytes[1024];
  const ssize_t n = local_socket::retry_on_eintr([&] { return ::recv(fd, bytes, sizeof bytes, 0); });
  if (n < 0 && errno == EAGAIN) return true;
  if (n <= 0) return false;
  launch::pmi::LineBuffer& lines = pending_[fd];
  lines.append({bytes, static_cast<size_t>(n)});
  const auto line = lines.next();
  if (!line) return !lines.overfull();
  const auto request = launch::pmi::Message::parse(*line);
  const std::string* const secret = request ? request->find("secret") : nullptr;
  const auto process = request ? request->find_int("process") : std::nullopt;
  if (!request || request->command() != "join" || secret == nullptr || *secret != address_.secret || !process)
    return false;
  const auto peer = local_socket::peer(fd);
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  pending_.erase(fd);
  complete.push_back({*process, fd, peer ? peer->pid : 0});
  return true;
}

std::vector<PmiListener::Request> PmiListener::take() {
  std::vector<Request> complete;
  epoll_event events[64];
  const int count = ::epoll_wait(epoll_, events, 64, 0);
  for (int i = 0; i < count; ++i) {
    const int fd = events[i].data.fd;
    if (fd == listener_) {
      accept();
    } else if (!read(fd, complete)) {
      ::close(fd);
      pending_.erase(fd);
    }
  }
  return complete;
}

}  // namespace weft::mpiexec
