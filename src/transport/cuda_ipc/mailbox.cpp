// SPDX-License-Identifier: BSD-3-Clause
#include "transport/cuda_ipc/mailbox.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/local_socket.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::transport::cuda_ipc {
namespace {

using device::Descriptor;

/// The sizes of the pieces follow.
struct Letter {
  uint64_t epoch, buffer_id, count;
  uint64_t sizes[device::kMostDescriptors];
  [[nodiscard]] size_t bytes() const { return offsetof(Letter, sizes) + count * sizeof sizes[0]; }
};
static_assert(device::kMostDescriptors <= local_socket::kMostDescriptors);

local_socket::Name name_of(uint64_t mailbox) {
  char name[32];
  std::snprintf(name, sizeof name, "weft-mail-%016llx", static_cast<unsigned long long>(mailbox));
  return local_socket::Name(name);
}

/// What a datagram says, where it is a letter; takes its descriptors then.
bool read(const Letter& letter, const local_socket::Received& received, std::vector<Descriptor>& pieces) {
  if (!received.same_user || received.bytes < offsetof(Letter, sizes) ||
      letter.count > device::kMostDescriptors || received.bytes != letter.bytes() ||
      received.descriptors.size() != letter.count)
    return false;
  for (size_t i = 0; i < letter.count; ++i) pieces.push_back({received.descriptors[i], letter.sizes[i]});
  return true;
}

}  // namespace

uint64_t Mailbox::address() {
  if (address_ != 0) return address_;
  uint64_t address = 0;
  if (::getrandom(&address, sizeof address, 0) != sizeof address || address == 0) return 0;
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  const local_socket::Name name = name_of(address);
  if (socket_ < 0 || ::setsockopt(socket_, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0 ||
      ::bind(socket_, name.address(), name.size()) != 0) {
    close();
    return 0;
  }
  return address_ = address;
}

/// Takes in what has come.
void Mailbox::collect() {
  if (socket_ < 0) return;
  Letter letter{};
  while (const auto received =
             local_socket::receive(socket_, std::as_writable_bytes(std::span(&letter, 1)))) {
    std::vector<Descriptor> pieces;
    if (!read(letter, *received, pieces) || count_ + pieces.size() > most_descriptors()) {
      for (const int descriptor : received->descriptors) ::close(descriptor);
      continue;
    }
    const std::pair key{letter.epoch, letter.buffer_id};
    if (const auto before = letters_.find(key); before != letters_.end()) discard(before);
    count_ += pieces.size();
    letters_.emplace(key, std::move(pieces));
  }
}

Result<std::vector<Descriptor>> Mailbox::copies(uint64_t epoch, uint64_t buffer_id) {
  collect();
  const auto at = letters_.find({epoch, buffer_id});
  if (at == letters_.end())
    return Error(Errc::unsupported,
                 "a peer has not sent the descriptors of its cuMemMap memory (see its own log): "
                 "its transfers are packed or staged");
  std::vector<Descriptor> copies;
  for (const Descriptor& piece : at->second) {
    const int copy = ::fcntl(piece.fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
      const int reason = errno;
      close_all(copies);
      return Error(Errc::unsupported,
                   std::string("a descriptor of a peer's cuMemMap memory cannot be copied (") +
                       std::strerror(reason) + "): its transfers are packed or staged");
    }
    copies.push_back({copy, piece.size});
  }
  return copies;
}

Mailbox::Letters::iterator Mailbox::discard(Letters::iterator at) {
  count_ -= at->second.size();
  close_all(at->second);
  return letters_.erase(at);
}

void Mailbox::drop(uint64_t epoch, uint64_t buffer_id) {
  collect();
  if (const auto at = letters_.find({epoch, buffer_id}); at != letters_.end()) discard(at);
}

void Mailbox::drop_all(uint64_t epoch) {
  collect();
  for (auto at = letters_.lower_bound({epoch, 0}); at != letters_.end() && at->first.first == epoch;)
    at = discard(at);
}

void Mailbox::close() {
  for (auto at = letters_.begin(); at != letters_.end();) at = discard(at);
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  address_ = 0;
}

Status send_descriptors(uint64_t mailbox, uint64_t epoch, uint64_t buffer_id,
                        std::span<const Descriptor> pieces) {
  Letter letter{epoch, buffer_id, pieces.size(), {}};
  std::vector<int> descriptors;
  for (size_t i = 0; i < pieces.size(); ++i) {
    letter.sizes[i] = pieces[i].size;
    descriptors.push_back(pieces[i].fd);
  }
  const auto failed = [](int reason) {
    return Error(Errc::unsupported,
                 std::string("the descriptors of cuMemMap memory cannot be sent to a peer (") +
                     std::strerror(reason) + ")");
  };
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return failed(errno);
  const local_socket::Name name = name_of(mailbox);
  const auto bytes = std::as_bytes(std::span(&letter, 1)).first(letter.bytes());
  const bool sent = local_socket::send(socket, bytes, descriptors, &name);
  const int reason = errno;
  ::close(socket);
  if (!sent) return failed(reason);
  return {};
}

}  // namespace weft::transport::cuda_ipc
