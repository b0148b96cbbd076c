// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/partitioned.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "datatype/predefined.hpp"

namespace weft::p2p {
namespace {

void* shifted(void* address, int64_t bytes) {  // as integers: the address may be MPI_BOTTOM
  return reinterpret_cast<void*>(reinterpret_cast<intptr_t>(address) + bytes);
}

}  // namespace

Slab<Partitioned>& Partitioned::slab() {
  static auto& slab = *new Slab<Partitioned>(size_t{1} << 20);
  return slab;
}

Partitioned::Partitioned(bool sending, const Buffer& buffer, int count, int rank, int tag,
                         core::Communicator& communicator)
    : Request(Kind::partitioned),
      sends(sending),
      partitions(count),
      buffer_(buffer),
      rank_(rank),
      tag_(tag),
      handshake_(sending ? Kind::send : Kind::receive) {
  persistent = true;
  active = false;
  communicator.retain();
  comm = &communicator;
  const_cast<datatype::Datatype*>(buffer.type)->retain();
  const Buffer offer = host_bytes(&offer_, sizeof offer_);
  if (!sends) {
    post_receive(handshake_, offer, rank, tag, *comm, core::Channel::partitioned);
    return;
  }
  offer_ = {comm->instance.new_contexts(), static_cast<uint64_t>(partitions),
            static_cast<uint64_t>(buffer.count * buffer.type->size())};
  pieces_ = std::make_unique<Piece[]>(offer_.pieces);
  for (size_t i = 0; i < offer_.pieces; ++i) {
    const int64_t at = static_cast<int64_t>(i) * buffer.count * buffer.type->extent();
    prepare(i, {shifted(buffer.address, at), buffer.count, buffer.type});
  }
  joined_ = true;
  post_send(handshake_, offer, rank, tag, *comm, SendMode::standard, core::Channel::partitioned);
}

Partitioned::~Partitioned() {
  for (datatype::Datatype* slice : slices_) slice->close_handle();
  const_cast<datatype::Datatype*>(buffer_.type)->release();
  comm->release();
}

void Partitioned::prepare(size_t piece, const Buffer& buffer) {
  Transfer& t = pieces_[piece].transfer;
  t.kind = handshake_.kind;
  p2p::prepare(t, buffer, rank_, static_cast<int>(piece), *comm, SendMode::standard);
  t.context = offer_.context;
}

Status Partitioned::start() {
  rearm();
  if (rank_ == kProcNull && !sends) {
    completion.source = kProcNull;
    finish();
    return {};
  }
  if (joined_) start_pieces();
  comm->instance.add(*this);
  poll();
  return {};
}

// The offer is answered or sent however long that takes: until then the request stays, and keeps its place in
// the order of matching.
void Partitioned::destroy() {
  if (handshake_.complete()) return slab().destroy(this);
  detached = true;
  comm->instance.add(*this);
}

Status Partitioned::ready(int partition) {
  Transfer& t = pieces_[static_cast<size_t>(partition)].transfer;
  if (t.active)
    return Error(Errc::arg, "partition " + std::to_string(partition) +
                                " was marked ready already: mark each once after MPI_Start");
  return t.start();
}

// Partitions of both sides begin at multiples of their sizes, so the pieces that one has a share in follow
// from the sizes; from the numbers when there are no bytes.
bool Partitioned::arrived(int partition) const {
  if (complete()) return true;
  if (!joined_) return false;
  const uint64_t ours = static_cast<uint64_t>(buffer_.count * buffer_.type->size());
  const bool alike = room() == offer_.pieces * offer_.bytes;
  const uint64_t unit = alike ? offer_.pieces : ours,
                 piece = alike ? static_cast<uint64_t>(partitions) : offer_.bytes;
  if (piece == 0) return false;
  const auto at = static_cast<uint64_t>(partition);
  const uint64_t first = at * unit / piece, end = ((at + 1) * unit + piece - 1) / piece;
  if (end > offer_.pieces) return false;  // beyond what is sent: complete with all
  for (uint64_t i = std::max(first, finished_); i < end; ++i)
    if (!pieces_[i].transfer.complete()) return false;
  return true;
}

uint64_t Partitioned::room() const {
  return static_cast<uint64_t>(partitions) * static_cast<uint64_t>(buffer_.count * buffer_.type->size());
}

/// Where the receiver wants one piece; shorter than the piece when there is no room for all of it.
Result<Buffer> Partitioned::share(uint64_t piece) {
  const auto& type = *buffer_.type;
  const auto first = static_cast<int64_t>(std::min(piece * offer_.bytes, room()));
  const auto end = static_cast<int64_t>(std::min((piece + 1) * offer_.bytes, room()));
  if (first == end) return host_bytes(nullptr, 0);
  if (type.contiguous())
    return Buffer{shifted(buffer_.address, first), end - first, datatype::predefined(datatype::kByte)};
  if (first % type.size() == 0 && end % type.size() == 0)
    return Buffer{shifted(buffer_.address, first / type.size() * type.extent()), (end - first) / type.size(),
                  &type};
  auto slice =
      datatype::slice(const_cast<datatype::Datatype&>(type), partitions * buffer_.count, first, end - first);
  if (!slice) return std::move(slice).error();
  slices_.push_back(*slice);
  return Buffer{buffer_.address, 1, *slice};
}

Status Partitioned::cut() {
  pieces_ = std::make_unique<Piece[]>(offer_.pieces);
  for (uint64_t i = 0; i < offer_.pieces; ++i) {
    auto buffer = share(i);
    if (!buffer) return std::move(buffer).error();
    prepare(i, *buffer);
  }
  return {};
}

void Partitioned::start_pieces() {
  finished_ = 0;
  for (uint64_t i = 0; i < offer_.pieces; ++i) {
    pieces_[i].transfer.active = false;
    if (!sends) (void)pieces_[i].transfer.start();
  }
}

bool Partitioned::poll() {
  if (detached) {
    if (!handshake_.complete()) return false;
    comm->instance.remove(*this);
    destroy();
    return true;
  }
  if (!joined_) {
    if (!handshake_.complete()) return false;
    if (Status joined = cut(); !joined) {  // the next MPI_Start tries again
      comm->instance.remove(*this);
      finish(std::move(joined).error());
      return true;
    }
    joined_ = true;
    start_pieces();
  }
  const auto over = [](const Transfer& t) { return t.active && t.complete(); };
  while (finished_ < offer_.pieces && over(pieces_[finished_].transfer)) ++finished_;
  if (finished_ < offer_.pieces) return false;
  end();
  return true;
}

void Partitioned::end() {
  comm->instance.remove(*this);
  if (!sends) completion.source = rank_, completion.tag = tag_;
  for (uint64_t i = 0; i < offer_.pieces; ++i) {
    Transfer& t = pieces_[i].transfer;
    if (!sends) completion.bytes += t.completion.bytes;
    if (outcome && !t.outcome) outcome = std::move(t.outcome);
  }
  finish();
}

}  // namespace weft::p2p
