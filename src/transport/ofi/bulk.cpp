// SPDX-License-Identifier: BSD-3-Clause
// Bulk data: buffers that peers may read, and reads of theirs. A read is complete when the data is in place
// here, so the reader alone knows the end of a transfer and tells the owner.
#include <algorithm>
#include <cstring>

#include "base/config.hpp"
#include "transport/ofi/ofi.hpp"

namespace weft::transport::ofi {
namespace {

config::Size reads{"net.ofi_reads", 64, 1, 128, "Reads of peers' memory that libfabric is given at once."};

constexpr size_t kMostRefused = 4;  // fetches that libfabric has no room for, before we try again later

struct Key {
  uint64_t remote;  ///< of the first byte, as the provider wants it named
  uint64_t key;
  uint64_t length;
};
static_assert(sizeof(Key) <= kMaxKey);

}  // namespace

size_t most_reads() { return reads; }

bool Ofi::takes(const device::Memory& memory) const {
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

Result<Exposed> Ofi::expose(Peer, const Buffer& buffer, std::byte* key) {
  auto region = exposed_.acquire(buffer.address, buffer.length, buffer.memory);
  if (!region) return std::move(region).error();
  const void* start = reinterpret_cast<const void*>((*region)->start);
  const Key content{endpoint_->remote_address(start, buffer.address), (*region)->mr->key, buffer.length};
  std::memcpy(key, &content, sizeof content);
  return Exposed{reinterpret_cast<uint64_t>(*region), sizeof content};
}

void Ofi::conceal(uint64_t id) {
  if (endpoint_ != nullptr) exposed_.release(reinterpret_cast<Region*>(id));
}

void Ofi::fetch(Peer peer, const Buffer& local, std::span<const std::byte> key, uint64_t offset,
                Completion& done) {
  Key content{};
  std::memcpy(&content, key.data(), std::min(key.size(), sizeof content));
  const auto fail = [&](Error error) { ended_.push_back({&done, std::move(error)}); };
  if (key.size() != sizeof content || offset > content.length || local.length > content.length - offset)
    return fail(Error(Errc::intern, "a read of " + std::to_string(local.length) +
                                        " bytes goes beyond what the peer exposed"));
  Contact& from = contact(peer);
  if (!connect(from))
    return fail(
        Error(Errc::proc_aborted, "process " + std::to_string(peer) + " has ended or cannot be reached"));
  if (local.length == 0) return ended_.push_back({&done, {}});
  Region* region = nullptr;
  if (endpoint_->registers_local(local.memory)) {
    auto registered = local_.acquire(local.address, local.length, local.memory);
    if (!registered) return fail(std::move(registered).error());
    region = *registered;
  }
  auto* fetch = fetch_slab_.create(Fetch{&done,
                                         peer,
                                         region,
                                         local.address,
                                         content.remote + offset,
                                         content.key,
                                         local.length,
                                         0,
                                         0,
                                         false,
                                         {}});
  if (fetch == nullptr) {
    if (region != nullptr) local_.release(region);
    return fail(Error(Errc::no_mem, "too many reads by libfabric at once"));
  }
  fetches_.push_back(fetch);
  waiting_.push_back(fetch);
  start_reads();
}

void Ofi::start_reads() {
  size_t refused = 0;
  while (!waiting_.empty() && !free_reads_.empty()) {
    Fetch* fetch = waiting_.front();
    if (!start_read(*fetch)) {  // this peer may be the reason: others get a chance
      if (++refused == std::min(kMostRefused, waiting_.size())) return;
      std::rotate(waiting_.begin(), waiting_.begin() + 1, waiting_.end());
      continue;
    }
    if (fetch->begun < fetch->length) continue;
    waiting_.pop_front();
    if (fetch->reads == 0) finish_fetch(fetch);  // its peer was lost meanwhile
  }
}

/// The next part of a fetch. False: libfabric has no room now.
bool Ofi::start_read(Fetch& fetch) {
  const size_t at = fetch.begun, size = std::min(piece_, fetch.length - at);
  void* desc = fetch.region != nullptr ? fetch.region->mr->mem_desc : nullptr;
  Contact& from = contact(fetch.peer);
  ssize_t code = -ECONNRESET;
  if (from.state != Contact::State::lost && fetch.outcome.ok()) {
    Read* read = free_reads_.back();
    read->fetch = &fetch;
    code = endpoint_->read(fetch.to + at, size, desc, from.address, fetch.from + at, fetch.key, read);
    if (code == -EAGAIN) return false;
    if (code == 0) {
      free_reads_.pop_back();
      ++fetch.reads;
      fetch.begun += size;
      return true;
    }
  }
  if (fetch.outcome.ok()) fetch.outcome = endpoint_->library().error("libfabric cannot read", code);
  fetch.begun = fetch.length;
  return true;
}

void Ofi::finish_read(Read* read, Status outcome) {
  Fetch* fetch = read->fetch;
  free_reads_.push_back(read);
  if (!outcome.ok() && fetch->outcome.ok()) fetch->outcome = std::move(outcome);
  if (--fetch->reads == 0 && fetch->begun == fetch->length) finish_fetch(fetch);
}

/// A read that failed says nothing about its peer's life: the pulse will tell, and then what the failure was.
void Ofi::finish_fetch(Fetch* fetch) {
  if (!fetch->outcome.ok() && fetch->done != nullptr && doubt(contact(fetch->peer))) {
    fetch->doubtful = true;
    return;
  }
  end_fetch(fetch);
}

void Ofi::end_fetch(Fetch* fetch) {
  std::erase(fetches_, fetch);
  if (fetch->region != nullptr) local_.release(fetch->region);
  if (fetch->done != nullptr) ended_.push_back({fetch->done, std::move(fetch->outcome)});
  fetch_slab_.destroy(fetch);
}

/// The peer's pulse was felt, or it has left or is lost: its failed fetches end.
void Ofi::settle_doubt(Contact& of) {
  if (!std::exchange(of.doubted, false)) return;
  std::vector<Fetch*> doubtful;
  for (Fetch* fetch : fetches_)
    if (fetch->peer == of.peer && std::exchange(fetch->doubtful, false)) doubtful.push_back(fetch);
  for (Fetch* fetch : doubtful) end_fetch(fetch);
}

/// Reads from a process that shared memory with us and is dead never end: others take their places.
void Ofi::replace_reads(const Contact& of) {
  for (const Fetch* fetch : fetches_) {
    if (fetch->peer != of.peer) continue;
    for (uint32_t i = 0; i < fetch->reads; ++i) {
      reads_.emplace_back().kind = Operation::Kind::read;
      free_reads_.push_back(&reads_.back());
    }
  }
}

/// The receiver learns at once; libfabric may still hold the reads for a while.
void Ofi::abandon_fetches(const Contact& of, const Error& why) {
  for (Fetch* fetch : fetches_)
    if (fetch->peer == of.peer && fetch->done != nullptr)
      ended_.push_back({std::exchange(fetch->done, nullptr), Error(Errc::proc_aborted, why.message())});
}

}  // namespace weft::transport::ofi
