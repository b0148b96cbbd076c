// SPDX-License-Identifier: BSD-3-Clause
// BootstrapGroup: broadcast and allgather of small records.
#include "coll/bootstrap/group.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/instance.hpp"
#include "p2p/p2p.hpp"

namespace weft::coll {
namespace {

constexpr uintptr_t kByteHandle = 0x247;  // MPI_BYTE in the MPI 5.0 ABI

p2p::Buffer host_bytes(const void* data, size_t bytes) {
  static const datatype::Datatype* const byte = datatype::find(kByteHandle);
  static const device::Memory host;
  return {const_cast<void*>(data), static_cast<int64_t>(bytes), byte, &host};
}

Status finish(core::Instance& instance, p2p::Transfer& transfer) {
  core::wait(instance, transfer);
  return std::move(transfer.outcome);
}

}  // namespace

Status send_bytes(core::Communicator& comm, const void* data, size_t bytes, int peer, int tag) {
  p2p::Transfer transfer(core::Request::Kind::send);
  p2p::post_send(transfer, host_bytes(data, bytes), peer, tag, comm, p2p::SendMode::standard,
                 core::Channel::collective);
  return finish(comm.instance, transfer);
}

Status receive_bytes(core::Communicator& comm, void* data, size_t bytes, int peer, int tag) {
  p2p::Transfer transfer(core::Request::Kind::receive);
  p2p::post_receive(transfer, host_bytes(data, bytes), peer, tag, comm, core::Channel::collective);
  return finish(comm.instance, transfer);
}

Status sendrecv_bytes(core::Communicator& comm, const void* out, size_t out_bytes, int to, void* in,
                      size_t in_bytes, int from, int tag) {
  p2p::Transfer incoming(core::Request::Kind::receive), outgoing(core::Request::Kind::send);
  p2p::post_receive(incoming, host_bytes(in, in_bytes), from, tag, comm, core::Channel::collective);
  p2p::post_send(outgoing, host_bytes(out, out_bytes), to, tag, comm, p2p::SendMode::standard,
                 core::Channel::collective);
  Status sent = finish(comm.instance, outgoing);  // both must complete before the stack frame ends
  Status received = finish(comm.instance, incoming);
  return sent.ok() ? std::move(received) : std::move(sent);
}

BootstrapGroup::BootstrapGroup(core::Communicator& comm, int tag)
    : comm_(comm), members_(nullptr), tag_(tag), rank_(comm.rank()), size_(comm.size()) {}

BootstrapGroup::BootstrapGroup(core::Communicator& comm, const core::Group& members, int tag)
    : comm_(comm), members_(&members), tag_(tag), rank_(members.rank()), size_(members.size()) {}

int BootstrapGroup::peer(int member) const {
  return members_ == nullptr ? member : comm_.group->rank_of(members_->process(member));
}

Status BootstrapGroup::broadcast(void* data, size_t bytes, int root) const {
  const int relative = (rank_ - root + size_) % size_;  // 0: the root of the tree
  int distance = 1;
  for (; distance < size_ && (relative & distance) == 0; distance <<= 1) {
  }
  if (relative != 0) {
    const int parent = (relative - distance + root) % size_;
    WEFT_TRY(receive_bytes(comm_, data, bytes, peer(parent), tag_));
  }
  for (distance >>= 1; distance > 0; distance >>= 1)
    if (relative + distance < size_)
      WEFT_TRY(send_bytes(comm_, data, bytes, peer((relative + distance + root) % size_), tag_));
  return {};
}

Status BootstrapGroup::share(Status mine, void* data, size_t bytes, int root) const {
  constexpr size_t kTextBytes = 240;
  struct Outcome {
    bool ok;
    Errc code;
    char text[kTextBytes];
  };
  std::vector<char> message(sizeof(Outcome) + bytes);
  Outcome outcome{};
  if (rank_ == root) {
    outcome.ok = mine.ok();
    if (!mine.ok()) {
      outcome.code = mine.error().code();
      mine.error().message().copy(outcome.text, kTextBytes - 1);
    }
    std::memcpy(message.data(), &outcome, sizeof outcome);
    if (bytes != 0) std::memcpy(message.data() + sizeof outcome, data, bytes);
  }
  Status sent = broadcast(message.data(), message.size(), root);
  if (rank_ == root) return mine.ok() ? std::move(sent) : std::move(mine);
  WEFT_TRY(std::move(sent));
  std::memcpy(&outcome, message.data(), sizeof outcome);
  if (!outcome.ok) return Error(outcome.code, "on rank " + std::to_string(root) + ": " + outcome.text);
  if (bytes != 0) std::memcpy(data, message.data() + sizeof outcome, bytes);
  return {};
}

Status BootstrapGroup::allgather(void* records, size_t bytes) const {
  auto* all = static_cast<char*>(records);
  std::vector<char> rotated(static_cast<size_t>(size_) *
                            bytes);  // record n belongs to member (rank + n) % size
  std::memcpy(rotated.data(), all + static_cast<size_t>(rank_) * bytes, bytes);
  for (int have = 1; have < size_; have <<= 1) {
    const size_t block = static_cast<size_t>(std::min(have, size_ - have)) * bytes;
    char* end = rotated.data() + static_cast<size_t>(have) * bytes;
    WEFT_TRY(sendrecv_bytes(comm_, rotated.data(), block, peer((rank_ - have + size_) % size_), end, block,
                            peer((rank_ + have) % size_), tag_));
  }
  for (int n = 0; n < size_; ++n)
    std::memcpy(all + static_cast<size_t>((rank_ + n) % size_) * bytes,
                rotated.data() + static_cast<size_t>(n) * bytes, bytes);
  return {};
}

}  // namespace weft::coll
