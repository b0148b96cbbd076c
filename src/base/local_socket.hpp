// SPDX-License-Identifier: BSD-3-Clause
// Local sockets: Unix sockets with abstract names between processes of one host; they also carry file
// descriptors. Threading: calls on one socket are serialised by the caller.
#pragma once
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace weft::local_socket {

inline constexpr size_t kMaxDescriptors = 64;  ///< per message

/// Address in the abstract namespace (unix(7)): no file; it disappears with its socket.
class AbstractName {
 public:
  explicit AbstractName(std::string_view name);
  [[nodiscard]] const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  [[nodiscard]] socklen_t size() const { return size_; }

 private:
  sockaddr_un address_{};
  socklen_t size_;
};

/// Repeats a system call while it fails with EINTR. Needed under profiler timers even with SA_RESTART: calls
/// on a socket with a timeout are not restarted.
template <class Call>
auto retry_on_eintr(Call&& call) {
  decltype(call()) result;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

/// Returns true if the peer of a connection runs as this user.
[[nodiscard]] bool same_user(int connection);

/// Returns user and process of a connection's peer; nothing: see errno. The process is 0 if this process
/// cannot see it (pid_namespaces(7)).
[[nodiscard]] std::optional<ucred> peer(int connection);

/// Receives bytes without waiting, and the process that has sent them if the socket has SO_PASSCRED, else 0.
/// Returns the number of bytes, or -1 with errno. Descriptors that the peer sends are closed.
[[nodiscard]] ssize_t receive_from(int socket, std::span<char> buffer, pid_t& sender);

/// Sends one message with file descriptors over a connected socket. False: see errno.
bool send(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors);

struct Received {
  size_t bytes = 0;
  std::vector<int> descriptors;  ///< close-on-exec, owned by the caller; empty if any was truncated
};
/// Receives one message into `buffer`. No value: see errno.
[[nodiscard]] std::optional<Received> receive(int socket, std::span<std::byte> buffer);

}  // namespace weft::local_socket
