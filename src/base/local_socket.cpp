// SPDX-License-Identifier: BSD-3-Clause
#include "base/local_socket.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace weft::local_socket {
namespace {

/// A message with room for its descriptors and its sender's credentials.
struct Parcel {
  Parcel(const void* bytes, size_t size) : data{const_cast<void*>(bytes), size} {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;
  iovec data;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
  msghdr message{};
};

void take(cmsghdr& header, Received& received) {
  if (header.cmsg_level != SOL_SOCKET) return;
  const size_t bytes = header.cmsg_len - CMSG_LEN(0);
  if (header.cmsg_type == SCM_RIGHTS) {
    received.descriptors.resize(bytes / sizeof(int));
    std::memcpy(received.descriptors.data(), CMSG_DATA(&header), bytes);
  } else if (header.cmsg_type == SCM_CREDENTIALS) {
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(&header), sizeof sender);
    received.same_user = sender.uid == ::geteuid();
  }
}

}  // namespace

Name::Name(std::string_view name) {
  const size_t length = std::min(name.size(), sizeof address_.sun_path - 1);
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path + 1, name.data(), length);
  size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

bool same_user(int connection) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
         credentials.uid == ::geteuid();
}

bool send(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors, const Name* to) {
  if (descriptors.size() > kMostDescriptors) return errno = EINVAL, false;
  Parcel parcel(bytes.data(), bytes.size());
  parcel.message.msg_controllen = descriptors.empty() ? 0 : CMSG_SPACE(descriptors.size_bytes());
  if (cmsghdr* header = CMSG_FIRSTHDR(&parcel.message); header != nullptr) {
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  if (to != nullptr) {
    parcel.message.msg_name = const_cast<sockaddr*>(to->address());
    parcel.message.msg_namelen = to->size();
  }
  const ssize_t sent = uninterrupted([&] { return ::sendmsg(socket, &parcel.message, MSG_NOSIGNAL); });
  return sent == static_cast<ssize_t>(bytes.size());
}

std::optional<Received> receive(int socket, std::span<std::byte> room) {
  Parcel parcel(room.data(), room.size());
  const ssize_t got = uninterrupted([&] { return ::recvmsg(socket, &parcel.message, MSG_CMSG_CLOEXEC); });
  if (got < 0) return std::nullopt;
  Received received;
  received.bytes = static_cast<size_t>(got);
  for (cmsghdr* at = CMSG_FIRSTHDR(&parcel.message); at != nullptr; at = CMSG_NXTHDR(&parcel.message, at))
    take(*at, received);
  if ((parcel.message.msg_flags & MSG_CTRUNC) != 0) {
    for (const int descriptor : received.descriptors) ::close(descriptor);
    received.descriptors.clear();
  }
  return received;
}

}  // namespace weft::local_socket
