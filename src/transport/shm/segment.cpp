// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/segment.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/local_socket.hpp"

namespace weft::transport::shm {
namespace {

constexpr int kCheckIntervalMs = 1000;  // between two questions to the launcher

Error system_error(const char* what) {
  return Error(Errc::other, std::string("shared memory: ") + what + " failed (" + std::strerror(errno) + ")");
}

/// A file that grows beyond ulimit -f kills the process with SIGXFSZ.
Status check_file_limit(size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes) return {};
  return Error(Errc::other, "shared memory: the ranks of this host need " + std::to_string(bytes >> 10) +
                                " KiB, but the file size limit (ulimit -f) is " +
                                std::to_string(limit.rlim_cur >> 10) + " KiB: raise it");
}

/// Returns the descriptor of the segment, -1 if none was received.
int receive_memory(int socket) {
  std::byte byte{};
  const auto received = local_socket::receive(socket, {&byte, 1});
  return received && received->descriptors.size() == 1 ? received->descriptors[0] : -1;
}

/// Listens under a name that nobody can guess. `flags`: for socket().
Status open_listener(int flags, int backlog, int& listener, std::string& listener_name) {
  listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (listener < 0) return system_error("socket");
  uint64_t nonce[2] = {};
  if (::getrandom(nonce, sizeof nonce, 0) != sizeof nonce) return system_error("getrandom");
  char name[64];
  std::snprintf(name, sizeof name, "weft-%d-%016llx%016llx", ::getpid(),
                static_cast<unsigned long long>(nonce[0]), static_cast<unsigned long long>(nonce[1]));
  listener_name = name;
  const local_socket::AbstractName address(listener_name);
  if (::bind(listener, address.address(), address.size()) != 0) return system_error("bind");
  if (::listen(listener, backlog) != 0) return system_error("listen");
  return {};
}

}  // namespace

Server::Server(Server&& other) noexcept { *this = std::move(other); }
Server& Server::operator=(Server&& other) noexcept {
  std::swap(listener_, other.listener_);
  std::swap(memory_, other.memory_);
  std::swap(ranks_, other.ranks_);
  std::swap(name_, other.name_);
  return *this;
}
Server::~Server() {
  if (listener_ >= 0) ::close(listener_);
  if (memory_ >= 0) ::close(memory_);
}

Result<Server> Server::create(uint32_t ranks) {
  Server server;
  server.ranks_ = ranks;
  server.memory_ = ::memfd_create("weft", MFD_CLOEXEC);
  if (server.memory_ < 0) return system_error("memfd_create");
  WEFT_TRY(check_file_limit(Segment::bytes(ranks)));
  if (::ftruncate(server.memory_, static_cast<off_t>(Segment::bytes(ranks))) != 0)
    return system_error("sizing the segment");
  WEFT_TRY(open_listener(0, static_cast<int>(ranks), server.listener_, server.name_));
  return server;
}

Status Server::serve(int timeout_ms, const std::function<Status()>& check) {
  int waited_ms = 0;  // since the last process connected
  for (uint32_t served = 1; served < ranks_;) {
    pollfd waiting{listener_, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, std::min(kCheckIntervalMs, timeout_ms - waited_ms));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && (waited_ms += kCheckIntervalMs) < timeout_ms) {
      WEFT_TRY(check());
      continue;
    }
    if (ready <= 0)
      return Error(Errc::other, "shared memory: a rank of this host did not connect within " +
                                    std::to_string(timeout_ms / 1000) +
                                    " s (WEFT_SHM_CONNECT_TIMEOUT_S): look for its own last messages");
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return system_error("accept");  // out of descriptors or memory: a retry would fail too
    }
    const std::byte byte{1};
    if (local_socket::same_user(client) && local_socket::send(client, {&byte, 1}, {&memory_, 1})) ++served;
    ::close(client);
    waited_ms = 0;
  }
  ::close(std::exchange(listener_, -1));
  return {};
}

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }
Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(size_, other.size_);
  std::swap(memory_, other.memory_);
  return *this;
}
Segment::~Segment() {
  if (memory_ >= 0) ::close(memory_);
  if (base_ != nullptr) ::munmap(base_, size_);
}

Result<Segment> Segment::map(int memory, uint32_t ranks) {
  Segment segment;
  segment.memory_ = memory;
  segment.size_ = bytes(ranks);
  struct stat status {};
  if (::fstat(memory, &status) != 0) return system_error("fstat");
  if (static_cast<size_t>(status.st_size) != segment.size_)  // access beyond the end would be fatal
    return Error(Errc::other, "shared memory: a segment for " + std::to_string(ranks) + " ranks has " +
                                  std::to_string(status.st_size) + " bytes instead of " +
                                  std::to_string(segment.size_) + ": use one Weft in all processes");
  void* base = ::mmap(nullptr, segment.size_, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (base == MAP_FAILED) return system_error("mmap");
  segment.base_ = base;
  return segment;
}

Result<Segment> Segment::attach(const std::string& name, uint32_t ranks, int timeout_ms) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return system_error("socket");
  const timeval timeout{timeout_ms / 1000, (timeout_ms % 1000) * 1000};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  const local_socket::AbstractName address(name);
  int memory = -1;
  const int connected =
      local_socket::retry_on_eintr([&] { return ::connect(socket, address.address(), address.size()); });
  if (connected == 0 && local_socket::same_user(socket)) memory = receive_memory(socket);
  const int reason = errno;
  ::close(socket);
  errno = reason;
  if (memory < 0) return system_error("receiving the segment from local rank 0");
  return map(memory, ranks);
}

Result<JobListener> JobListener::create(const launch::JobId& job, int memory) {
  JobListener listener;
  listener.job_ = job;
  listener.memory_ = memory;
  WEFT_TRY(open_listener(SOCK_NONBLOCK, SOMAXCONN, listener.listener_, listener.name_));
  return listener;
}

JobListener::JobListener(JobListener&& other) noexcept { *this = std::move(other); }
JobListener& JobListener::operator=(JobListener&& other) noexcept {
  std::swap(listener_, other.listener_);
  std::swap(memory_, other.memory_);
  std::swap(job_, other.job_);
  std::swap(clients_, other.clients_);
  std::swap(name_, other.name_);
  return *this;
}
JobListener::~JobListener() {
  for (const int client : clients_) ::close(client);
  if (listener_ >= 0) ::close(listener_);
}

bool JobListener::poll() {
  for (;;) {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) break;
    if (local_socket::same_user(client))
      clients_.push_back(client);
    else
      ::close(client);
  }
  return std::erase_if(clients_, [&](int client) {
           if (!answer(client)) return false;
           ::close(client);
           return true;
         }) != 0;
}

/// Returns false if the request has not arrived yet. A request for another job gets no answer.
bool JobListener::answer(int client) const {
  launch::JobId wanted;
  const ssize_t got = local_socket::retry_on_eintr([&] { return ::recv(client, &wanted, sizeof wanted, 0); });
  if (got < 0 && errno == EAGAIN) return false;
  const std::byte byte{1};
  if (got == sizeof wanted && wanted == job_) local_socket::send(client, {&byte, 1}, {&memory_, 1});
  return true;
}

SegmentRequest::~SegmentRequest() {
  if (socket_ >= 0) ::close(socket_);
}

// With many requests at once the listener's queue may be full (EAGAIN): a later poll() tries again.
Status SegmentRequest::send() {
  if (socket_ < 0) socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ < 0) return system_error("socket");
  const local_socket::AbstractName address(name_);
  if (::connect(socket_, address.address(), address.size()) != 0) {
    if (errno == EAGAIN || errno == EINTR) return {};
    return system_error("connecting to a process of the other job");
  }
  if (!local_socket::same_user(socket_))
    return Error(Errc::other,
                 "shared memory: the other job belongs to another user: jobs of one user connect");
  if (::send(socket_, &job_, sizeof job_, MSG_NOSIGNAL) != sizeof job_)
    return system_error("a request for the segment of the other job");
  sent_ = true;
  return {};
}

Result<std::optional<Segment>> SegmentRequest::poll() {
  if (!sent_) {
    WEFT_TRY(send());
    return std::optional<Segment>();
  }
  std::byte byte{};
  const auto received = local_socket::receive(socket_, {&byte, 1});
  if (!received && errno == EAGAIN) return std::optional<Segment>();
  if (!received || received->descriptors.size() != 1)
    return Error(Errc::other,
                 "shared memory: the process of the other job has refused the connection or ended");
  auto segment = Segment::map(received->descriptors[0], ranks_);
  if (!segment) return std::move(segment).error();
  return std::optional<Segment>(std::move(*segment));
}

}  // namespace weft::transport::shm
