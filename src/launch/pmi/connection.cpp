// SPDX-License-Identifier: BSD-3-Clause
#include "launch/pmi/connection.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/local_socket.hpp"
#include "launch/pmi/address.hpp"
#include "launch/pmi/wire.hpp"

namespace weft::launch::pmi {
namespace {

constexpr int kMaxDescriptor = 1 << 20;

/// Closes a descriptor unless it is released.
class Owned {
 public:
  explicit Owned(int fd) : fd_(fd) {}
  ~Owned() {
    if (fd_ >= 0) ::close(fd_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// Reserves an inherited descriptor for this process until it closes it or ends, by a record lock, which
/// belongs to the process and not to the open file that it shares with others of its rank. Returns the
/// process that has the lock; 0: unknown; nothing: this process has it, or the kernel locks no sockets.
std::optional<int> lock(int fd) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd, F_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES)) return std::nullopt;
  return ::fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK && whole.l_pid > 0 ? whole.l_pid : 0;
}

/// Returns whether a launcher has started this process that runs inside of the job of Weft's mpiexec: mpiexec
/// removes these variables.
bool in_inner_job(const Lookup& lookup) {
  return lookup("PMI_PORT") != nullptr || lookup("PMIX_NAMESPACE") != nullptr ||
         lookup("SLURM_STEP_NUM_TASKS") != nullptr;
}

/// Returns whether Weft's mpiexec has given this descriptor to its rank.
bool is_of_mpiexec(const char* fd, const char* address) {
  const auto parsed = Address::parse(address);
  return parsed && parse_int(fd, 0, kMaxDescriptor) == parsed->descriptor;
}

Error lost(int descriptor, const std::string& rest) {
  return Error(Errc::other, "descriptor " + std::to_string(descriptor) +
                                " (PMI_FD), the connection to the launcher, was closed or replaced before "
                                "MPI_Init, by a shell or a wrapper" +
                                rest);
}

Error unreachable_mpiexec(const Address& address, const std::string& why) {
  return lost(address.descriptor,
              ", and mpiexec cannot be reached at its socket (" + why +
                  "). Has it ended? A container must share the network of the host (--network=host) and run "
                  "as the same user, or leave the descriptor open.");
}

/// Asks mpiexec for the rank of this process.
Result<Connection> join(const Address& address) {
  Owned socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const local_socket::AbstractName name(address.name);
  if (socket.get() < 0 ||
      local_socket::retry_on_eintr([&] { return ::connect(socket.get(), name.address(), name.size()); }) != 0)
    return unreachable_mpiexec(address, std::strerror(errno));
  if (!local_socket::same_user(socket.get()))
    return unreachable_mpiexec(address, "another user has the socket");
  const std::string request =
      Message("join").add("process", address.process).add("secret", address.secret).line();
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    return unreachable_mpiexec(address, std::strerror(errno));
  LineBuffer lines;
  std::optional<std::string> line;
  while (!(line = lines.next())) {
    char bytes[1024];
    const ssize_t n =
        local_socket::retry_on_eintr([&] { return ::recv(socket.get(), bytes, sizeof bytes, 0); });
    if (n <= 0 || lines.overfull())
      return unreachable_mpiexec(address, n < 0 ? std::strerror(errno) : "it refuses this process");
    lines.append({bytes, static_cast<size_t>(n)});
  }
  const auto reply = Message::parse(*line);
  const int rank = reply ? reply->find_int("rank").value_or(-1) : -1;
  const int size = reply ? reply->find_int("size").value_or(0) : 0;
  if (rank >= 0 && rank < size) return Connection{socket.release(), true, std::pair(rank, size)};
  const std::string* const why = reply ? reply->find("msg") : nullptr;
  if (why != nullptr && *why == kRankInUse) return rank_in_use(reply->find_int("pid").value_or(0));
  return unreachable_mpiexec(address, why != nullptr ? unescape(*why).value_or(*why) : "'" + *line + "'");
}

}  // namespace

Error rank_in_use(int pid) {
  return Error(
      Errc::again,
      "another process " + (pid > 0 ? "(pid " + std::to_string(pid) + ") " : std::string()) +
          "of this rank is in MPI already, and a rank is one process at a time: start the programs of "
          "a rank one after the other, or each by an mpiexec of its own; with "
          "WEFT_LAUNCH_SINGLETON=second every further one runs alone, as rank 0 of 1");
}

bool has_connection(const Lookup& lookup) {
  const char *const fd = lookup("PMI_FD"), *const text = lookup(kAddressVariable);
  if (text == nullptr) return fd != nullptr;
  if (in_inner_job(lookup)) return fd != nullptr && !is_of_mpiexec(fd, text);
  return fd != nullptr || lookup("PMI_SIZE") != nullptr;
}

Result<Connection> open_connection(const Lookup& lookup) {
  auto fd = read_int(lookup, "PMI_FD", 0, kMaxDescriptor);
  if (!fd) return std::move(fd).error();
  const char* const text = lookup(kAddressVariable);
  auto address = text != nullptr ? Address::parse(text) : std::nullopt;
  if (text != nullptr && !address)
    return Error(Errc::other, std::string(kAddressVariable) + "=" + text +
                                  " is not what mpiexec has set: pass the variable on as it is");
  // Hydra in a script of mpiexec passes the address on, and has another descriptor.
  if (address && *fd && **fd != address->descriptor) address.reset();
  const ino_t number = *fd ? socket_number(**fd) : 0;
  if (address ? number == address->inherited : number != 0) {
    if (const auto holder = lock(**fd)) return rank_in_use(*holder);
    ::fcntl(**fd, F_SETFD, FD_CLOEXEC);
    return Connection{**fd, address || (text == nullptr && lookup("WEFT_JOB_ID") != nullptr)};
  }
  if (address) return join(*address);
  if (text == nullptr && lookup("WEFT_JOB_ID") != nullptr)
    return lost(**fd, std::string(", and ") + kAddressVariable +
                          ", by which mpiexec can be reached all the same, is not set: pass it on");
  return lost(**fd,
              ": let the script use other numbers, and let the wrapper keep the descriptor open (Python's "
              "subprocess: close_fds=False)");
}

Status check_variables_kept(const Lookup& lookup) {
  rlimit limit{};
  if (lookup("WEFT_JOB_ID") != nullptr || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const int fd = descriptor_below(limit.rlim_cur);
  const auto peer = socket_number(fd) != 0 ? local_socket::peer(fd) : std::nullopt;
  if (!peer || peer->uid != ::geteuid()) return {};
  const std::string link = "/proc/" + std::to_string(peer->pid) + "/exe";
  char path[PATH_MAX];
  const ssize_t length = ::readlink(link.c_str(), path, sizeof path);
  if (length <= 0) return {};
  const std::string_view program(path, static_cast<size_t>(length));
  if (program.substr(program.rfind('/') + 1) != "mpiexec") return {};
  return Error(
      Errc::other,
      "mpiexec has started this process, but its variables are gone (a wrapper has removed them: env "
      "-i, sudo, a container without the environment of the host): pass PMI_* and WEFT_* on. "
      "WEFT_LAUNCH_SINGLETON=on runs the program alone, as rank 0 of 1.");
}

}  // namespace weft::launch::pmi
