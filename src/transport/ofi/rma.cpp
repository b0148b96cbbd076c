// SPDX-License-Identifier: BSD-3-Clause
// Bulk data: registered buffers, gets by RMA reads and puts by RMA writes. Only the initiator sees the
// completion, so it notifies the owner in its own message.
#include <algorithm>
#include <cstring>

#include "base/config.hpp"
#include "base/counters.hpp"
#include "transport/ofi/ofi.hpp"

namespace weft::transport::ofi {
namespace {

config::Size reads{"net.ofi_max_reads", 64, 1, 128, "Largest number of outstanding RMA reads."};

counters::Counter retries("net.ofi_rma_retries", counters::Unit::events,
                          "Attempts to read or write remote memory that libfabric's full queue has refused");

constexpr size_t kMaxRefused = 4;  // gets that return -EAGAIN before start_reads() gives up

struct Rkey {
  uint64_t remote;  ///< of the first byte: address or offset, see Endpoint::remote_address()
  uint64_t key;
  uint64_t length;
};
static_assert(sizeof(Rkey) <= kMaxRkey);

}  // namespace

size_t max_reads() { return reads; }

bool Ofi::supports(const device::Memory& memory) const {
  switch (memory.kind) {
    case device::MemoryKind::host:
    case device::MemoryKind::host_pinned:
      return true;
    case device::MemoryKind::cuda_device:
      return endpoint_->choice().hmem;
    case device::MemoryKind::cuda_managed:
      return false;
  }
  return false;
}

// The id is the address of the region; its lowest bit marks writable regions.
Result<Registered> Ofi::register_buffer(Peer, const Buffer& buffer, std::byte* rkey, Access access) {
  const bool writable = access == Access::read_write;
  Registrations& registrations = writable ? writable_registrations_ : remote_registrations_;
  auto region = registrations.acquire(buffer.address, buffer.length, buffer.memory);
  if (!region) return std::move(region).error();
  const void* start = reinterpret_cast<const void*>((*region)->start);
  const Rkey content{endpoint_->remote_address(start, buffer.address), (*region)->mr->key, buffer.length};
  std::memcpy(rkey, &content, sizeof content);
  return Registered{reinterpret_cast<uint64_t>(*region) | (writable ? 1 : 0), sizeof content};
}

void Ofi::deregister(uint64_t id) {
  if (endpoint_ == nullptr) return;
  Registrations& registrations = (id & 1) != 0 ? writable_registrations_ : remote_registrations_;
  registrations.release(reinterpret_cast<Region*>(id & ~uint64_t{1}));
}

void Ofi::get(Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
              Completion& done) {
  start(false, peer, local, rkey, offset, done);
}

void Ofi::put(Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
              Completion& done) {
  start(true, peer, local, rkey, offset, done);
}

void Ofi::start(bool writes, Peer peer, const Buffer& local, std::span<const std::byte> rkey, uint64_t offset,
                Completion& done) {
  Rkey content{};
  std::memcpy(&content, rkey.data(), std::min(rkey.size(), sizeof content));
  const auto fail = [&](Error error) { finished_.push_back({&done, std::move(error)}); };
  if (rkey.size() != sizeof content || offset > content.length || local.length > content.length - offset)
    return fail(Error(Errc::intern, "an access of " + std::to_string(local.length) +
                                        " bytes exceeds the peer's registered buffer"));
  Connection& from = connection(peer);
  if (!connect(from))
    return fail(
        Error(Errc::proc_aborted, "process " + std::to_string(peer) + " has ended or cannot be reached"));
  if (local.length == 0) return finished_.push_back({&done, {}});
  Region* region = nullptr;
  if (endpoint_->registers_local(local.memory)) {
    auto registered = local_registrations_.acquire(local.address, local.length, local.memory);
    if (!registered) return fail(std::move(registered).error());
    region = *registered;
  }
  auto* get = get_slab_.create(Get{&done,
                                   peer,
                                   writes,
                                   region,
                                   local.address,
                                   content.remote + offset,
                                   content.key,
                                   local.length,
                                   0,
                                   0,
                                   false,
                                   {}});
  if (get == nullptr) {
    if (region != nullptr) local_registrations_.release(region);
    return fail(Error(Errc::no_mem, "too many reads by libfabric at once"));
  }
  gets_.push_back(get);
  waiting_.push_back(get);
  start_reads();
}

void Ofi::start_reads() {
  size_t refused = 0;
  while (!waiting_.empty() && !free_reads_.empty()) {
    Get* get = waiting_.front();
    if (!start_read(*get)) {  // may be due to this peer: try the others
      if (++refused >= std::min(kMaxRefused, waiting_.size())) return;  // gets may leave the list meanwhile
      std::rotate(waiting_.begin(), waiting_.begin() + 1, waiting_.end());
      continue;
    }
    if (get->issued < get->length) continue;
    waiting_.pop_front();
    if (get->outstanding_reads == 0) finish_get(get);  // no read was issued: its peer is lost
  }
}

/// Issues the next read of a get; returns false on -EAGAIN.
bool Ofi::start_read(Get& get) {
  const size_t at = get.issued, size = std::min(max_read_bytes_, get.length - at);
  void* desc = get.region != nullptr ? get.region->mr->mem_desc : nullptr;
  Connection& from = connection(get.peer);
  ssize_t code = -ECONNRESET;
  if (from.state != Connection::State::lost && get.outcome.ok()) {
    Read* read = free_reads_.back();
    read->get = &get;
    code = get.writes ? endpoint_->write(get.to + at, size, desc, from.address, get.from + at, get.key, read)
                      : endpoint_->read(get.to + at, size, desc, from.address, get.from + at, get.key, read);
    if (code == -EAGAIN) {
      retries.add();
      return false;
    }
    if (code == 0) {
      free_reads_.pop_back();
      ++get.outstanding_reads;
      get.issued += size;
      return true;
    }
  }
  if (get.outcome.ok())
    get.outcome =
        endpoint_->library().error(get.writes ? "libfabric cannot write" : "libfabric cannot read", code);
  get.issued = get.length;
  return true;
}

void Ofi::finish_read(Read* read, Status outcome) {
  Get* get = read->get;
  free_reads_.push_back(read);
  if (!outcome.ok() && get->outcome.ok()) get->outcome = std::move(outcome);
  if (--get->outstanding_reads == 0 && get->issued == get->length) finish_get(get);
}

/// A failed read does not prove that the peer is dead: a heartbeat decides before the get completes.
void Ofi::finish_get(Get* get) {
  if (!get->outcome.ok() && get->done != nullptr && verify_peer(connection(get->peer))) {
    get->deferred = true;
    return;
  }
  complete_get(get);
}

void Ofi::complete_get(Get* get) {
  std::erase(gets_, get);
  if (get->region != nullptr) local_registrations_.release(get->region);
  if (get->done != nullptr) finished_.push_back({get->done, std::move(get->outcome)});
  get_slab_.destroy(get);
}

/// Completes failed gets after a heartbeat, or once the peer is disconnected or lost.
void Ofi::complete_deferred_gets(Connection& of) {
  if (!std::exchange(of.verifying, false)) return;
  std::vector<Get*> deferred;
  for (Get* get : gets_)
    if (get->peer == of.peer && std::exchange(get->deferred, false)) deferred.push_back(get);
  for (Get* get : deferred) complete_get(get);
}

/// Reads from a dead process through shared memory never complete: adds replacements for them.
void Ofi::replenish_reads(const Connection& of) {
  for (const Get* get : gets_) {
    if (get->peer != of.peer) continue;
    for (uint32_t i = 0; i < get->outstanding_reads; ++i) {
      reads_.emplace_back().kind = Operation::Kind::read;
      free_reads_.push_back(&reads_.back());
    }
  }
}

/// Completes the gets at once; libfabric may hold their reads for longer.
void Ofi::abort_gets(const Connection& of, const Error& why) {
  for (Get* get : gets_)
    if (get->peer == of.peer && get->done != nullptr)
      finished_.push_back({std::exchange(get->done, nullptr), Error(Errc::proc_aborted, why.message())});
}

}  // namespace weft::transport::ofi
