// SPDX-License-Identifier: BSD-3-Clause
// Bulk data: registered buffers, gets by RMA reads and puts by RMA writes, large ones in one stripe for each
// pair of adapters. Only the initiator sees the
// completion, so it notifies the owner in its own message.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "base/assert.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/trace.hpp"
#include "transport/ofi/ofi.hpp"

namespace weft::transport::ofi {
namespace {

config::Size reads{"net.ofi_max_reads", 64, 1, 128,
                   "Largest number of outstanding RMA reads; up to 8 from each process do not count."};

counters::Counter striped("net.ofi_striped_bytes", counters::Unit::bytes,
                          "Bytes of remote memory read or written in stripes by several network adapters");
counters::Counter retries("net.ofi_rma_retries", counters::Unit::events,
                          "Attempts to read or write remote memory that libfabric's full queue has refused");

constexpr size_t kMaxRefused = 4;  // processes whose reads return -EAGAIN before start_reads() gives up
/// So many reads of a process never wait for those of others, which may last while these compute.
constexpr size_t kOwnReads = 8;

constexpr const char* kStripedRanges[] = {"net.striped_by_2", "net.striped_by_3", "net.striped_by_4"};
static_assert(std::size(kStripedRanges) == kMaxAdapters - 1);
constexpr size_t kStripeAlignment = 4096;  // stripes begin at multiples of it in the transfer

/// A buffer as an rkey describes it; an rkey ends after the last key.
struct Rkey {
  uint64_t length = 0;
  struct Key {
    uint64_t remote;  ///< of the first byte: address or offset, see Endpoint::remote_address()
    uint64_t key;
  };
  std::array<Key, kMaxAdapters> keys = {};  ///< of the owner's adapters, in their order
};
static_assert(sizeof(Rkey) <= kMaxRkey);
constexpr size_t rkey_size(size_t keys) { return offsetof(Rkey, keys) + keys * sizeof(Rkey::Key); }

/// Returns the number of keys; 0: not an rkey.
size_t parse(std::span<const std::byte> rkey, Rkey& content) {
  for (size_t keys = 1; keys <= kMaxAdapters; ++keys)
    if (rkey.size() == rkey_size(keys)) {
      std::memcpy(&content, rkey.data(), rkey.size());
      return keys;
    }
  return 0;
}

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
  Rkey content{buffer.length};
  const size_t count = (*region)->mr_count;
  for (size_t i = 0; i < count; ++i)
    content.keys[i] = {adapters_.endpoint(i).remote_address(start, buffer.address), (*region)->mrs[i]->key};
  std::memcpy(rkey, &content, rkey_size(count));
  return Registered{reinterpret_cast<uint64_t>(*region) | (writable ? 1 : 0), rkey_size(count)};
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
  Rkey content;
  const size_t keys = parse(rkey, content);
  const auto fail = [&](Error error) { finished_.push_back({&done, std::move(error)}); };
  if (keys == 0 || offset > content.length || local.length > content.length - offset)
    return fail(Error(Errc::intern, "an access of " + std::to_string(local.length) +
                                        " bytes exceeds the peer's registered buffer"));
  Connection& from = connection(peer);
  if (!connect(from))
    return fail(
        Error(Errc::proc_aborted, "process " + std::to_string(peer) + " has ended or cannot be reached"));
  if (local.length == 0) return finished_.push_back({&done, {}});
  Region* region = nullptr;
  if (adapters_.registers_local(local.memory)) {
    auto registered = local_registrations_.acquire(local.address, local.length, local.memory);
    if (!registered) return fail(std::move(registered).error());
    region = *registered;
  }
  auto* get = get_slab_.create(Get{.done = &done, .peer = peer, .writes = writes, .region = region});
  if (get == nullptr) {
    if (region != nullptr) local_registrations_.release(region);
    return fail(Error(Errc::no_mem, "too many reads by libfabric at once"));
  }
  std::array<AdapterPair*, kMaxAdapters> pairs{};
  size_t pair_count = 0;
  const size_t own_adapters = adapters_.used_by(local.length);
  for (AdapterPair& pair : from.pairs)
    if (pair.own < own_adapters && pair.remote < keys) pairs[pair_count++] = &pair;
  WEFT_ASSERT(pair_count != 0);
  const size_t part = (local.length + pair_count - 1) / pair_count;
  const size_t bytes =
      pair_count == 1 ? part : (part + kStripeAlignment - 1) / kStripeAlignment * kStripeAlignment;
  for (size_t at = 0; at < local.length; at += bytes) {
    AdapterPair& pair = *pairs[get->stripe_count];
    const Rkey::Key& key = content.keys[pair.remote];
    pair.used = true;
    get->stripes[get->stripe_count++] = {&pair, local.address + at, key.remote + offset + at, key.key,
                                         std::min(bytes, local.length - at)};
  }
  get->unissued = local.length;
  gets_.push_back(get);
  if (from.waiting.empty()) waiting_.push_back(&from);
  from.waiting.push_back(get);
  if (get->stripe_count == 1) return start_reads();
  striped.add(local.length);
  const trace::Range range(kStripedRanges[get->stripe_count - 2]);
  trace::annotate({.bytes = local.length});
  start_reads();
}

/// Issues the reads that wait, of each process in order.
void Ofi::start_reads() {
  size_t refused = 0;
  for (size_t turns = waiting_.size(); turns != 0 && refused < kMaxRefused; --turns) {
    Connection& from = *waiting_.front();
    waiting_.pop_front();
    if (!start_reads(from)) ++refused;
    if (!from.waiting.empty()) waiting_.push_back(&from);
  }
}

/// Returns false if the adapters return -EAGAIN, maybe due to this peer.
bool Ofi::start_reads(Connection& from) {
  const size_t own = std::min<size_t>(kOwnReads, reads);
  while (!from.waiting.empty() && (from.reads < own || outstanding_reads_ < reads)) {
    Get* get = from.waiting.front();
    if (!start_read(*get)) return false;
    if (get->unissued != 0) continue;
    from.waiting.pop_front();
    if (get->outstanding_reads == 0) finish_get(get);  // no read was issued: its peer is lost
  }
  return true;
}

/// Issues the next read of a get, of the stripe with the fewest issued bytes; returns false if the adapters
/// of all stripes return -EAGAIN.
bool Ofi::start_read(Get& get) {
  Connection& from = connection(get.peer);
  const bool stopped = from.state == Connection::State::lost || !get.outcome.ok();
  for (size_t refused = 0; !stopped;) {  // a bit for each stripe
    Stripe* next = nullptr;
    for (size_t i = 0; i < get.stripe_count; ++i) {
      Stripe& stripe = get.stripes[i];
      if (stripe.issued < stripe.length && (refused >> i & 1) == 0 &&
          (next == nullptr || stripe.issued < next->issued))
        next = &stripe;
    }
    if (next == nullptr) return false;
    const size_t at = next->issued, size = std::min(max_read_bytes_, next->length - at);
    AdapterPair& pair = *next->pair;
    Endpoint& endpoint = adapters_.endpoint(pair.own);
    void* desc = get.region != nullptr ? get.region->mrs[pair.own]->mem_desc : nullptr;
    if (free_reads_.empty()) free_reads_.push_back(&reads_.emplace_back());
    Read& read = *free_reads_.back();
    read.get = &get;
    read.pair = &pair;
    const ssize_t code =
        get.writes
            ? endpoint.write(next->to + at, size, desc, pair.address, next->from + at, next->key, &read)
            : endpoint.read(next->to + at, size, desc, pair.address, next->from + at, next->key, &read);
    if (code == -EAGAIN) {
      retries.add();
      refused |= size_t{1} << (next - get.stripes.data());
      continue;
    }
    if (code == 0) {
      free_reads_.pop_back();
      ++from.reads, ++outstanding_reads_;
      ++get.outstanding_reads;
      if (pair.own != 0) ++reads_by_others_;
      next->issued += size;
      get.unissued -= size;
      return true;
    }
    get.failed = &pair;
    get.outcome =
        endpoint.library().error(get.writes ? "libfabric cannot write" : "libfabric cannot read", code);
    break;
  }
  if (get.outcome.ok())
    get.outcome = endpoint_->library().error("libfabric cannot reach the process", -ECONNRESET);
  get.unissued = 0;
  return true;
}

void Ofi::finish_read(Read* read, Status outcome) {
  Get* get = read->get;
  free_reads_.push_back(read);
  if (size_t& counted = read->pair->connection.reads; counted != 0) --counted, --outstanding_reads_;
  if (read->pair->own != 0) --reads_by_others_;
  if (!outcome.ok() && get->outcome.ok()) {
    get->outcome = std::move(outcome);
    get->failed = read->pair;
  }
  if (--get->outstanding_reads == 0 && get->unissued == 0) finish_get(get);
}

/// A failed read does not prove that the peer is dead: a heartbeat decides before the get completes.
void Ofi::finish_get(Get* get) {
  if (get->failed != nullptr && get->done != nullptr && verify_peer(*get->failed)) {
    get->deferred = true;
    return;
  }
  complete_get(get);
}

void Ofi::complete_get(Get* get) {
  std::erase(gets_, get);
  if (get->region != nullptr) local_registrations_.release(get->region);
  if (!get->outcome.ok() && connection(get->peer).state == Connection::State::lost)
    get->outcome = Error(Errc::proc_aborted, get->outcome.error().message());
  if (get->done != nullptr) finished_.push_back({get->done, std::move(get->outcome)});
  get_slab_.destroy(get);
}

/// Completes failed gets after a heartbeat, or once the peer is disconnected or lost.
void Ofi::complete_deferred_gets(Connection& of) {
  if (std::exchange(of.verifying, nullptr) == nullptr) return;
  std::vector<Get*> deferred;
  for (Get* get : gets_)
    if (get->peer == of.peer && std::exchange(get->deferred, false)) deferred.push_back(get);
  for (Get* get : deferred) complete_get(get);
}

/// Reads from a dead process through shared memory never complete: they count no more.
void Ofi::write_off_reads(Connection& of) { outstanding_reads_ -= std::exchange(of.reads, 0); }

/// Completes the gets at once; libfabric may hold their reads for longer.
void Ofi::abort_gets(const Connection& of, const Error& why) {
  for (Get* get : gets_)
    if (get->peer == of.peer && get->done != nullptr)
      finished_.push_back({std::exchange(get->done, nullptr), Error(Errc::proc_aborted, why.message())});
}

}  // namespace weft::transport::ofi
