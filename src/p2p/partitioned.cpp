// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/partitioned.hpp"

#include <algorithm>
#include <new>
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

Result<Partitioned::Parts> Partitioned::create_parts(uint64_t partitions) {
  Parts parts(new (std::nothrow) PartTransfer[partitions]);
  if (parts == nullptr)
    return Error(Errc::no_mem, "no memory for " + std::to_string(partitions) + " partitions of the sender (" +
                                   std::to_string(sizeof(PartTransfer)) +
                                   " bytes each): use fewer partitions");
  return parts;
}

Result<Partitioned*> Partitioned::create(bool sends, const Buffer& buffer, int partitions, int rank, int tag,
                                         core::Communicator& comm) {
  Partitioned* made = slab().create(sends, buffer, partitions, rank, tag, comm);
  if (made == nullptr) return Error(Errc::no_mem, "no more partitioned requests are available: free some");
  if (sends) {
    if (Status split = made->split_buffer(); !split) {
      slab().destroy(made);
      return std::move(split).error();
    }
    made->prepared_ = true;
  }
  made->post_handshake();
  return made;
}

core::Operands Partitioned::operands() const {
  return {wait_table::What::partitioned, rank_, tag_, buffer_.count, total_bytes()};
}

Partitioned::Partitioned(bool sending, const Buffer& buffer, int count, int rank, int tag,
                         core::Communicator& communicator)
    : Request(Kind::partitioned),
      sends(sending),
      partitions(count),
      buffer_{buffer.address, buffer.count * count, buffer.type},
      part_bytes_(static_cast<uint64_t>(buffer.count * buffer.type->size())),
      rank_(rank),
      tag_(tag),
      handshake_(sending ? Kind::send : Kind::receive) {
  persistent = true;
  active = false;
  communicator.retain();
  comm = &communicator;
  const_cast<datatype::Datatype*>(buffer.type)->retain();
  if (sends) setup_ = {comm->instance.new_contexts(), static_cast<uint64_t>(partitions), part_bytes_};
}

Partitioned::~Partitioned() {
  release_slices();
  const_cast<datatype::Datatype*>(buffer_.type)->release();
  comm->release();
}

void Partitioned::release_slices() {
  for (datatype::Datatype* slice : slices_) slice->close_handle();
  slices_.clear();
}

void Partitioned::post_handshake() {
  const Buffer setup = host_bytes(&setup_, sizeof setup_);
  if (sends)
    post_send(handshake_, setup, rank_, tag_, *comm, SendMode::standard, core::Channel::partitioned);
  else
    post_receive(handshake_, setup, rank_, tag_, *comm, core::Channel::partitioned);
}

Status Partitioned::set_items(int64_t count, datatype::Datatype& type) {
  WEFT_ASSERT(!active && static_cast<uint64_t>(count * type.size()) >= total_bytes());
  type.retain();
  const_cast<datatype::Datatype*>(buffer_.type)->release();
  buffer_.count = count;
  buffer_.type = &type;
  return sends ? split_buffer() : Status();
}

void Partitioned::prepare(size_t part, const Buffer& buffer) {
  Transfer& t = parts_[part].transfer;
  t.kind = handshake_.kind;
  p2p::prepare(t, buffer, rank_, static_cast<int>(part), *comm, SendMode::standard);
  t.context = setup_.context;
}

Result<void*> Partitioned::device_handle() {
  if (flags_ == nullptr) {
    auto made = PartitionFlags::create(partitions);
    if (!made) return std::move(made).error();
    flags_ = std::move(*made);
    if (active) flags_->begin();
    if (active && !sends) exchange_flags();
  }
  return flags_->table();
}

/// Starts the partitions that kernels have marked ready, or marks arrived ones for kernels.
void Partitioned::exchange_flags() {
  for (int i = 0; i < partitions; ++i) {
    if (sends) {
      if (!parts_[static_cast<size_t>(i)].transfer.active && flags_->marked(i))
        (void)ready(i);  // fails for active transfers only
    } else if (!flags_->marked(i) && arrived(i)) {
      flags_->mark(i);
    }
  }
}

Status Partitioned::start() {
  rearm();
  if (flags_ != nullptr) flags_->begin();
  if (rank_ == kProcNull && !sends) {
    completion.source = kProcNull;
    finish();
    if (flags_ != nullptr) exchange_flags();
    return {};
  }
  if (prepared_) start_transfers();
  comm->instance.add(*this);
  poll();
  return {};
}

// A request freed during the handshake is kept until the handshake completes, to keep its position in
// matching order.
void Partitioned::destroy() {
  if (handshake_.complete()) return slab().destroy(this);
  detached = true;
  comm->instance.add(*this);
}

Status Partitioned::ready(int partition) {
  Transfer& t = parts_[static_cast<size_t>(partition)].transfer;
  if (t.active)
    return Error(Errc::arg, "partition " + std::to_string(partition) +
                                " was marked ready already: mark each once after MPI_Start");
  return t.start();
}

// Partitions of both sides begin at multiples of their sizes, so their overlap follows from the sizes, or
// from the numbers of partitions if there are no bytes.
bool Partitioned::arrived(int partition) const {
  if (complete()) return true;
  if (!prepared_) return false;
  const bool same_total = total_bytes() == setup_.partitions * setup_.bytes;
  const uint64_t unit = same_total ? setup_.partitions : part_bytes_,
                 part_size = same_total ? static_cast<uint64_t>(partitions) : setup_.bytes;
  if (part_size == 0) return false;
  const auto at = static_cast<uint64_t>(partition);
  const uint64_t first = at * unit / part_size, end = ((at + 1) * unit + part_size - 1) / part_size;
  if (end > setup_.partitions) return false;  // beyond the end of the message: complete with the whole
  for (uint64_t i = std::max(first, finished_); i < end; ++i)
    if (!parts_[i].transfer.complete()) return false;
  return true;
}

uint64_t Partitioned::total_bytes() const { return static_cast<uint64_t>(partitions) * part_bytes_; }

/// Returns the part of the buffer for one sender partition; shorter than the partition at the end of a
/// receive buffer.
Result<Buffer> Partitioned::buffer_part(uint64_t part) {
  const auto& type = *buffer_.type;
  const auto first = static_cast<int64_t>(std::min(part * setup_.bytes, total_bytes()));
  const auto end = static_cast<int64_t>(std::min((part + 1) * setup_.bytes, total_bytes()));
  if (first == end) return host_bytes(nullptr, 0);
  if (first % type.size() == 0 && end % type.size() == 0)
    return Buffer{shifted(buffer_.address, first / type.size() * type.extent()), (end - first) / type.size(),
                  &type};
  if (type.contiguous())
    return Buffer{shifted(buffer_.address, first), end - first, datatype::predefined(datatype::kByte)};
  auto slice = datatype::slice(const_cast<datatype::Datatype&>(type), buffer_.count, first, end - first);
  if (!slice) return std::move(slice).error();
  slices_.push_back(*slice);
  return Buffer{buffer_.address, 1, *slice};
}

Status Partitioned::split_buffer() {
  auto parts = create_parts(setup_.partitions);
  if (!parts) return std::move(parts).error();
  parts_ = std::move(*parts);
  release_slices();
  for (uint64_t i = 0; i < setup_.partitions; ++i) {
    auto buffer = buffer_part(i);
    if (!buffer) return std::move(buffer).error();
    prepare(i, *buffer);
  }
  return {};
}

void Partitioned::start_transfers() {
  finished_ = 0;
  for (uint64_t i = 0; i < setup_.partitions; ++i) {
    parts_[i].transfer.active = false;
    if (!sends) (void)parts_[i].transfer.start();
  }
}

bool Partitioned::poll() {
  if (detached) {
    if (!handshake_.complete()) return false;
    comm->instance.remove(*this);
    destroy();
    return true;
  }
  if (!prepared_) {
    if (!handshake_.complete()) return false;
    Status split = handshake_.outcome.ok() ? split_buffer() : Status(handshake_.outcome.error().copy());
    if (!split) {  // retried by the next MPI_Start
      comm->instance.remove(*this);
      if (flags_ != nullptr) flags_->cancel();
      finish(std::move(split).error());
      return true;
    }
    prepared_ = true;
    start_transfers();
  }
  if (flags_ != nullptr) exchange_flags();
  const auto is_complete = [](const Transfer& t) { return t.active && t.complete(); };
  while (finished_ < setup_.partitions && is_complete(parts_[finished_].transfer)) ++finished_;
  if (finished_ < setup_.partitions) return false;
  end();
  return true;
}

void Partitioned::end() {
  comm->instance.remove(*this);
  if (!sends) completion.source = rank_, completion.tag = tag_;
  for (uint64_t i = 0; i < setup_.partitions; ++i) {
    Transfer& t = parts_[i].transfer;
    if (!sends) completion.bytes += t.completion.bytes;
    if (outcome && !t.outcome) outcome = std::move(t.outcome);
  }
  if (flags_ != nullptr && !outcome) flags_->cancel();
  finish();
}

}  // namespace weft::p2p
