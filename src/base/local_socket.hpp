// SPDX-License-Identifier: BSD-3-Clause
// Unix sockets between processes of one host: names that are no files, and file descriptors through them.
// Threading: none of its own.
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

inline constexpr size_t kMostDescriptors = 64;  ///< of one message

/// Abstract name: bound to no file, gone with its socket.
class Name {
 public:
  explicit Name(std::string_view name);
  [[nodiscard]] const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  [[nodiscard]] socklen_t size() const { return size_; }

 private:
  sockaddr_un address_{};
  socklen_t size_;
};

/// Once more as long as a signal interrupts it: a profiler's timer does, also where system calls restart (a
/// socket with a timeout does not).
template <class Call>
auto uninterrupted(Call&& call) {
  decltype(call()) result;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

/// Whether the other end of a connection is this user's.
[[nodiscard]] bool same_user(int connection);

/// Sends bytes and, with them, descriptors; to a name, or along a connection. False: errno says why.
bool send(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors,
          const Name* to = nullptr);

struct Received {
  size_t bytes = 0;
  std::vector<int> descriptors;  ///< close-on-exec; the caller's to close. Empty where not all had room
  bool same_user = false;        ///< where the socket asks who sends (SO_PASSCRED)
};
/// Nothing: errno says why.
[[nodiscard]] std::optional<Received> receive(int socket, std::span<std::byte> room);

}  // namespace weft::local_socket
