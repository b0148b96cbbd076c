// SPDX-License-Identifier: BSD-3-Clause
// Bulk data: buffers that peers may read, and reads of theirs. A read is complete when the data is in place here,
// so the reader alone knows the end of a transfer and tells the owner.
#include <algorithm>
#include <cstring>

#include "base/config.hpp"
#include "transport/ofi/ofi.hpp"

namespace weft::transport::ofi {
namespace {

config::Size reads{"net.ofi_reads", 64, 1, 128, "Reads of peers' memory that libfabric is given at once."};

struct Key {
  uint64_t remote;  ///< of the first byte, as the provider wants it named
  uint64_t key;
  uint64_t length;
};
static_assert(sizeof(Key) <= kMaxKey);

}  // namespace

bool Ofi::takes(const device::Memory& memory) const {
  switch (memory.kind) {
    case device::MemoryKind::host:
    case device::MemoryKind::host_pinned: return true;
    case device::MemoryKind::cuda_device: return endpoint_->choice().hmem;
    case device::MemoryKind::cuda_managed: return false;
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
    return fail(Error(Errc::proc_aborted, "process " + std::to_string(peer) + " has ended or cannot be reached"));
  if (local.length == 0) return ended_.push_back({&done, {}});
  auto* fetch = new Fetch{&done, peer, nullptr, 0, {}};
  if (endpoint_->registers_local(local.memory)) {
    auto region = local_.acquire(local.address, local.length, local.memory);
    if (!region) {
      delete fetch;
      return fail(std::move(region).error());
    }
    fetch->region = *region;
  }
  fetches_.push_back(fetch);
  fetch->left = static_cast<uint32_t>((local.length + piece_ - 1) / piece_);
  for (size_t at = 0; at < local.length; at += piece_) {
    auto* read = new Read{};
    read->kind = Operation::Kind::read;
    read->fetch = fetch;
    read->to = local.address + at;
    read->size = std::min(piece_, local.length - at);
    read->from = content.remote + offset + at;
    read->key = content.key;
    waiting_reads_.push_back(read);
  }
  start_waiting_reads();
}

void Ofi::start_waiting_reads() {
  while (!waiting_reads_.empty() && reads_under_way_ < reads) {
    Read* read = waiting_reads_.front();
    Contact& from = contact(read->fetch->peer);
    const ssize_t code =
        from.state == Contact::State::lost
            ? -ECONNRESET
            : endpoint_->read(read->to, read->size,
                              read->fetch->region != nullptr ? read->fetch->region->mr->mem_desc : nullptr,
                              from.address, read->from, read->key, read);
    if (code == -EAGAIN) return;
    waiting_reads_.pop_front();
    ++reads_under_way_;
    if (code != 0) finish_read(read, endpoint_->library().error("libfabric cannot read", code));
  }
}

/// A read that failed says nothing about its peer's life: the pulse will tell.
void Ofi::finish_read(Read* read, Status outcome) {
  Fetch* fetch = read->fetch;
  --reads_under_way_;
  delete read;
  if (!outcome.ok() && fetch->outcome.ok()) fetch->outcome = std::move(outcome);
  if (--fetch->left == 0) finish_fetch(fetch);
}

void Ofi::finish_fetch(Fetch* fetch) {
  std::erase(fetches_, fetch);
  if (fetch->region != nullptr) local_.release(fetch->region);
  if (fetch->done != nullptr) {
    if (fetch->outcome.ok())
      fetch->done->done(*fetch->done, {});
    else
      ended_.push_back({fetch->done, std::move(fetch->outcome)});
  }
  delete fetch;
}

/// The receiver learns at once; libfabric may still hold the reads for a while.
void Ofi::abandon_fetches(const Contact& of, const Error& why) {
  for (Fetch* fetch : fetches_)
    if (fetch->peer == of.peer && fetch->done != nullptr)
      ended_.push_back({std::exchange(fetch->done, nullptr), Error(Errc::proc_aborted, why.message())});
}

}  // namespace weft::transport::ofi
