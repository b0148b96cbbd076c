// SPDX-License-Identifier: BSD-3-Clause
#include "transport/cuda_ipc/mailbox.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "base/local_socket.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::transport::cuda_ipc {
namespace {

using device::ShareableHandle;

/// Connections that may wait for receive_pending(), which accepts as many: a flood cannot keep it busy.
constexpr int kMaxPending = 512;

/// Message format; `sizes` has `count` entries, one per descriptor.
struct DescriptorMessage {
  uint64_t epoch, buffer_id, count;
  uint64_t sizes[device::kMaxShareableHandles];
  [[nodiscard]] size_t bytes() const { return offsetof(DescriptorMessage, sizes) + count * sizeof sizes[0]; }
};
static_assert(device::kMaxShareableHandles <= local_socket::kMaxDescriptors);

local_socket::AbstractName name_of(uint64_t mailbox) {
  char name[32];
  std::snprintf(name, sizeof name, "weft-mail-%016llx", static_cast<unsigned long long>(mailbox));
  return local_socket::AbstractName(name);
}

/// Validates a message and moves its descriptors to the output; false: malformed, descriptors not moved.
bool parse(const DescriptorMessage& message, const local_socket::Received& received,
           std::vector<ShareableHandle>& descriptors) {
  if (received.bytes < offsetof(DescriptorMessage, sizes) || message.count > device::kMaxShareableHandles ||
      received.bytes != message.bytes() || received.descriptors.size() != message.count)
    return false;
  for (size_t i = 0; i < message.count; ++i)
    descriptors.push_back({received.descriptors[i], message.sizes[i]});
  return true;
}

}  // namespace

uint64_t Mailbox::address() {
  if (address_ != 0) return address_;
  uint64_t address = 0;
  if (::getrandom(&address, sizeof address, 0) != sizeof address || address == 0) return 0;
  socket_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const local_socket::AbstractName name = name_of(address);
  if (socket_ < 0 || ::bind(socket_, name.address(), name.size()) != 0 ||
      ::listen(socket_, kMaxPending) != 0) {
    close();
    return 0;
  }
  return address_ = address;
}

/// Receives the message of every pending connection; connections of other users are closed.
void Mailbox::receive_pending() {
  for (int i = 0; socket_ >= 0 && i <= kMaxPending; ++i) {
    const int connection = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (connection < 0) return;
    DescriptorMessage message{};
    std::optional<local_socket::Received> received;
    if (local_socket::same_user(connection))
      received = local_socket::receive(connection, std::as_writable_bytes(std::span(&message, 1)));
    ::close(connection);
    if (!received) continue;
    std::vector<ShareableHandle> descriptors;
    if (!parse(message, *received, descriptors) || count_ + descriptors.size() > max_open_descriptors()) {
      for (const int descriptor : received->descriptors) ::close(descriptor);
      continue;
    }
    const std::pair key{message.epoch, message.buffer_id};
    if (const auto before = messages_.find(key); before != messages_.end()) discard(before);
    count_ += descriptors.size();
    messages_.emplace(key, std::move(descriptors));
  }
}

Result<std::vector<ShareableHandle>> Mailbox::duplicate(uint64_t epoch, uint64_t buffer_id) {
  receive_pending();
  const auto at = messages_.find({epoch, buffer_id});
  if (at == messages_.end())
    return Error(Errc::unsupported,
                 "a peer has not sent the descriptors of its cuMemMap memory (see its own log): "
                 "its transfers are packed or staged");
  std::vector<ShareableHandle> copies;
  for (const ShareableHandle& descriptor : at->second) {
    const int copy = ::fcntl(descriptor.fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
      const int reason = errno;
      close_all(copies);
      return Error(Errc::unsupported,
                   std::string("a descriptor of a peer's cuMemMap memory cannot be duplicated (") +
                       std::strerror(reason) + "): its transfers are packed or staged");
    }
    copies.push_back({copy, descriptor.size});
  }
  return copies;
}

Mailbox::Messages::iterator Mailbox::discard(Messages::iterator at) {
  count_ -= at->second.size();
  close_all(at->second);
  return messages_.erase(at);
}

void Mailbox::drop(uint64_t epoch, uint64_t buffer_id) {
  receive_pending();
  if (const auto at = messages_.find({epoch, buffer_id}); at != messages_.end()) discard(at);
}

void Mailbox::drop_all(uint64_t epoch) {
  receive_pending();
  for (auto at = messages_.lower_bound({epoch, 0}); at != messages_.end() && at->first.first == epoch;)
    at = discard(at);
}

void Mailbox::close() {
  for (auto at = messages_.begin(); at != messages_.end();) at = discard(at);
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  address_ = 0;
}

Status send_descriptors(uint64_t mailbox, uint64_t epoch, uint64_t buffer_id,
                        std::span<const ShareableHandle> descriptors) {
  DescriptorMessage message{epoch, buffer_id, descriptors.size(), {}};
  std::vector<int> fds;
  for (size_t i = 0; i < descriptors.size(); ++i) {
    message.sizes[i] = descriptors[i].size;
    fds.push_back(descriptors[i].fd);
  }
  const auto failed = [](int reason) {
    return Error(Errc::unsupported,
                 std::string("the descriptors of cuMemMap memory cannot be sent to a peer (") +
                     std::strerror(reason) + ")");
  };
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return failed(errno);
  const local_socket::AbstractName name = name_of(mailbox);
  const auto bytes = std::as_bytes(std::span(&message, 1)).first(message.bytes());
  const bool sent = ::connect(socket, name.address(), name.size()) == 0 && local_socket::same_user(socket) &&
                    local_socket::send(socket, bytes, fds);
  const int reason = errno;
  ::close(socket);
  if (!sent) return failed(reason);
  return {};
}

}  // namespace weft::transport::cuda_ipc
