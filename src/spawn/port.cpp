// SPDX-License-Identifier: BSD-3-Clause
#include "spawn/port.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/config.hpp"
#include "base/log.hpp"
#include "core/instance.hpp"

namespace weft::spawn {
namespace {

config::Choice reach_setting{"jobs.reach",
                             0,
                             {"auto", "host", "anywhere"},
                             "Processes that may connect to a port of MPI_Open_port without the info key "
                             "weft_reach. host: of this host; "
                             "anywhere: also of other hosts, which opens the network, and fails if there is "
                             "none. auto: of other hosts, too, if the job spans hosts, or if an external "
                             "launcher runs it and a network can be opened; else host."};

constexpr uint32_t kMaxName = 1 << 16;  // of a port, in bytes

/// Transfers bytes over a socket, which may be in blocking mode, while MPI makes progress.
class Socket {
 public:
  Socket(core::Instance& instance, int fd) : instance_(instance), fd_(fd) {}

  Status send(const void* data, size_t size) {
    return transfer(size, [&](size_t done) {
      return ::send(fd_, static_cast<const char*>(data) + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    });
  }
  Status receive(void* data, size_t size) {
    return transfer(size, [&](size_t done) {
      return ::recv(fd_, static_cast<char*>(data) + done, size - done, MSG_DONTWAIT);
    });
  }

 private:
  template <class Call>
  Status transfer(size_t size, Call&& call) {
    size_t done = 0;
    int error = 0;
    core::wait_until(instance_, [&] {
      while (done < size) {
        const ssize_t n = call(done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
        if (n <= 0) {
          error = n < 0 ? errno : ECONNRESET;
          return true;
        }
        done += static_cast<size_t>(n);
      }
      return true;
    });
    if (error == 0) return {};
    return Error(Errc::arg, "fd = " + std::to_string(fd_) +
                                " is no socket that is connected to a process in MPI_Comm_join (" +
                                std::strerror(error) + ")");
  }
  core::Instance& instance_;
  int fd_;
};

/// The name of the other process's port, in exchange for that of this one.
Result<std::string> exchange_names(core::Instance& instance, int fd, const std::string& own) {
  Socket socket(instance, fd);
  const auto size = static_cast<uint32_t>(own.size());
  WEFT_TRY(socket.send(&size, sizeof size));
  WEFT_TRY(socket.send(own.data(), size));
  uint32_t length = 0;
  WEFT_TRY(socket.receive(&length, sizeof length));
  if (length == 0 || length > kMaxName)
    return Error(Errc::other, "the process at the other end of the socket does not use Weft");
  std::string other(length, '\0');
  WEFT_TRY(socket.receive(other.data(), length));
  return other;
}

}  // namespace

p2p::Reach default_reach(const core::Instance& instance) {
  if (reach_setting.is("host")) return p2p::Reach::host;
  if (reach_setting.is("anywhere")) return p2p::Reach::anywhere;
  const launch::Job& job = instance.exchange->job();
  const bool one_host = job.local_size == job.size && job.machine_size == 0;
  const bool own_launcher = job.singleton || job.launcher.starts_with("weft");
  // Jobs of one host need no network, whichever launcher runs them.
  if (one_host) return own_launcher ? p2p::Reach::host : p2p::Reach::available;
  return p2p::Reach::anywhere;
}

std::optional<p2p::Reach> parse_reach(std::string_view text) {
  if (text == "host") return p2p::Reach::host;
  if (text == "anywhere") return p2p::Reach::anywhere;
  return std::nullopt;
}

coll::NewCommunicator join(core::Communicator& self, int socket) {
  core::Instance& instance = self.instance;
  auto port = p2p::open_port(instance, default_reach(instance));
  if (!port) return std::move(port).error();
  const auto connect = [&]() -> coll::NewCommunicator {
    auto other = exchange_names(instance, socket, port->name);
    if (!other) return std::move(other).error();
    if (*other == port->name)
      return Error(Errc::arg, "both ends of the socket belong to this process, which cannot join itself");
    // Both processes come to the same order.
    auto made =
        port->name < *other ? coll::accept_job(self, 0, port->number) : coll::connect_job(self, 0, *other);
    if (made) return made;
    log::write(log::Level::warn, "MPI_Comm_join: %s", made.error().message().c_str());
    return nullptr;
  };
  coll::NewCommunicator made = connect();
  p2p::close_port(instance, port->number);
  return made;
}

}  // namespace weft::spawn
