// SPDX-License-Identifier: BSD-3-Clause
#include "base/local_socket.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace weft::local_socket {
namespace {

/// msghdr with control space for descriptors.
struct SocketMessage {
  SocketMessage(const void* bytes, size_t size) : data{const_cast<void*>(bytes), size} {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  SocketMessage(const SocketMessage&) = delete;
  SocketMessage& operator=(const SocketMessage&) = delete;
  iovec data;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  msghdr message{};
};

void read_control(cmsghdr& header, Received& received) {
  if (header.cmsg_level != SOL_SOCKET || header.cmsg_type != SCM_RIGHTS) return;
  const size_t bytes = header.cmsg_len - CMSG_LEN(0);
  received.descriptors.resize(bytes / sizeof(int));
  std::memcpy(received.descriptors.data(), CMSG_DATA(&header), bytes);
}

}  // namespace

AbstractName::AbstractName(std::string_view name) {
  const size_t length = std::min(name.size(), sizeof address_.sun_path - 1);
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path + 1, name.data(), length);
  size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

std::optional<ucred> peer(int connection) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  return credentials;
}

bool same_user(int connection) {
  const auto credentials = peer(connection);
  return credentials && credentials->uid == ::geteuid();
}

ssize_t receive_from(int socket, std::span<char> buffer, pid_t& sender) {
  iovec data{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];  // without space for descriptors
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got =
      retry_on_eintr([&] { return ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC); });
  sender = 0;
  const cmsghdr* const header = got >= 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS)
    return got;
  ucred credentials{};
  std::memcpy(&credentials, CMSG_DATA(header), sizeof credentials);
  sender = credentials.pid;
  return got;
}

bool send(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  if (descriptors.size() > kMaxDescriptors) return errno = EINVAL, false;
  SocketMessage out(bytes.data(), bytes.size());
  out.message.msg_controllen = descriptors.empty() ? 0 : CMSG_SPACE(descriptors.size_bytes());
  if (cmsghdr* header = CMSG_FIRSTHDR(&out.message); header != nullptr) {
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  const ssize_t sent = retry_on_eintr([&] { return ::sendmsg(socket, &out.message, MSG_NOSIGNAL); });
  return sent == static_cast<ssize_t>(bytes.size());
}

std::optional<Received> receive(int socket, std::span<std::byte> buffer) {
  SocketMessage in(buffer.data(), buffer.size());
  const ssize_t got = retry_on_eintr([&] { return ::recvmsg(socket, &in.message, MSG_CMSG_CLOEXEC); });
  if (got < 0) return std::nullopt;
  Received received;
  received.bytes = static_cast<size_t>(got);
  for (cmsghdr* at = CMSG_FIRSTHDR(&in.message); at != nullptr; at = CMSG_NXTHDR(&in.message, at))
    read_control(*at, received);
  if ((in.message.msg_flags & MSG_CTRUNC) != 0) {
    for (const int descriptor : received.descriptors) ::close(descriptor);
    received.descriptors.clear();
  }
  return received;
}

}  // namespace weft::local_socket
