// SPDX-License-Identifier: BSD-3-Clause
// Exposed buffers and fetches: pull, and the rendezvous that answers it.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "device/copy.hpp"
#include "device/current.hpp"
#include "transport/ucx/state.hpp"

namespace weft::transport::ucx {

using api::Code;
using api::Operation;

namespace {

uint64_t name_in(std::span<const std::byte> key) {
  uint64_t exposed = 0;
  std::memcpy(&exposed, key.data(), std::min(key.size(), sizeof exposed));
  return exposed;
}

}  // namespace

/// An operation on such memory begins. True: it is GPU memory, and progress() needs its context until the
/// operation has ended.
bool Ucx::use_gpu(const device::Memory& memory) {
  if (!takes(memory)) return false;
  ++gpu_operations_;
  gpu_ = memory;
  return true;
}

/// Sends `data` by rendezvous, as what follows a header.
void Ucx::send_bulk(Slot* slot, unsigned id, size_t head_size, const Buffer& data) {
  slot->gpu = use_gpu(data.memory);
  const device::Current current(data.memory);
  send(slot, id, head_size, data.address, data.length, Operation::kRendezvous, type_of(data.memory));
}

Result<Exposed> Ucx::expose(Peer peer, const Buffer& buffer, std::byte* key) {
  const uint64_t id = ++last_exposed_;
  exposures_.emplace(id, Exposure{peer, buffer});
  std::memcpy(key, &id, sizeof id);
  return Exposed{id, sizeof id};
}

// The message is the header of a rendezvous of the buffer, so the peer can fetch without asking. It does not
// count among those on their way out: it stays until the peer has fetched. Not the first one: UCX then asks
// the peer for its name of the connection, and where that waits it does not see the peer's end. A pull is
// sent by a peer that answers.
void Ucx::announce(Peer peer, size_t size, uint64_t id) {
  const size_t head_size = sizeof(AnnounceHead) + size;
  Link& link = link_of(peer);
  const auto exposure =
      exposures_.find(id);  // none: the peer went, and came back, while this waited for room
  if (!connect(link) || !link.acquainted || exposure == exposures_.end() ||
      head_size > std::min(max_head_, reserved_->room))
    return commit(peer, size);
  Slot* slot = std::exchange(reserved_, nullptr);
  number(*slot);
  std::memmove(slot->data + sizeof(AnnounceHead), slot->data, size);
  new (slot->data) AnnounceHead{slot->message, id};
  send_bulk(slot, kAnnounceId, head_size, exposure->second.buffer);
}

Code Ucx::on_announcement(const void* header, size_t header_size, void* data, size_t size, bool rendezvous) {
  AnnounceHead head;
  std::memcpy(&head, header, sizeof head);
  if (head.message.source >= links_.size()) return Code::ok;
  Link& link = link_of(head.message.source);
  // Data that came along are ignored: a fetch pulls them then.
  if (rendezvous) link.announced.insert_or_assign(head.exposed, Announced{data, size});
  arriving_ = rendezvous ? data : nullptr;
  take_message(head.message, static_cast<const std::byte*>(header) + sizeof head, header_size - sizeof head);
  arriving_ = nullptr;
  return rendezvous && link.announced.contains(head.exposed) ? Code::in_progress : Code::ok;
}

std::optional<Announced> Ucx::take_announced(Link& link, uint64_t exposed) {
  const auto found = link.announced.find(exposed);
  if (found == link.announced.end()) return {};
  const Announced announced = found->second;
  link.announced.erase(found);
  return announced;
}

/// The sender's rendezvous ends without data.
void Ucx::release(void* descriptor) {
  if (descriptor != arriving_) api_.ucp_am_data_release(worker_, descriptor);
}

void Ucx::release_announced(Link& link) {
  for (const auto& [exposed, announced] : std::exchange(link.announced, {})) release(announced.descriptor);
}

void Ucx::decline(Peer peer, std::span<const std::byte> key) {
  if (const auto announced = take_announced(link_of(peer), name_in(key))) release(announced->descriptor);
}

void Ucx::fetch(Peer peer, const Buffer& local, std::span<const std::byte> key, uint64_t offset,
                Completion& done) {
  Link& link = link_of(peer);
  const uint64_t exposed = name_in(key);
  const uint64_t id = ++last_fetch_;
  Fetch& fetch =
      *fetches_.emplace(id, std::make_unique<Fetch>(Fetch{this, &link, id, local, &done})).first->second;
  ++link.fetches;
  static_cast<void>(use_gpu(local.memory));  // until end()
  if (!connect(link)) {
    // A failing link ends it by settle().
    if (link.state == Link::State::lost) end(fetch, Error(Errc::proc_aborted, link.reason));
    return;
  }
  if (const auto announced = take_announced(link, exposed)) {
    if (offset == 0 && local.length == announced->size) return receive(fetch, announced->descriptor);
    release(announced->descriptor);
  }
  Slot* slot = take_slot(link, 0);
  slot->pull = {self_, 0, id, exposed, offset, local.length};
  send(slot, kPullId, sizeof(PullHead), nullptr, 0, Operation::kEager, api::kHost);
}

Code Ucx::on_pull(const PullHead& pull) {
  if (pull.source >= links_.size()) return Code::ok;
  Link& link = link_of(pull.source);
  if (!connect(link)) return Code::ok;
  const auto found = exposures_.find(pull.exposed);
  Slot* slot = take_slot(link, 0);
  slot->data_head = {pull.fetch, 0};
  if (found == exposures_.end() || found->second.peer != pull.source ||
      pull.offset > found->second.buffer.length || pull.length > found->second.buffer.length - pull.offset) {
    send(slot, kDataId, sizeof(DataHead), nullptr, 0, Operation::kEager, api::kHost);
    return Code::ok;
  }
  const Buffer& buffer = found->second.buffer;
  slot->data_head.good = 1;
  send_bulk(slot, kDataId, sizeof(DataHead), {buffer.address + pull.offset, pull.length, buffer.memory});
  return Code::ok;
}

Code Ucx::on_data(const DataHead& head, void* data, size_t size, bool rendezvous) {
  const auto found = fetches_.find(head.fetch);
  if (found == fetches_.end()) return Code::ok;
  Fetch& fetch = *found->second;
  if (head.good == 0 || size != fetch.local.length) {
    end(fetch, Error(Errc::intern, "process " + std::to_string(fetch.link->peer) +
                                       " does not have the buffer (any more) that it has announced"));
    return Code::ok;
  }
  if (rendezvous) {
    receive(fetch, data);
    return Code::ok;
  }
  const device::Memory memory = fetch.local.memory;
  Status copied;
  if (takes(memory))
    copied = device::copy(fetch.local.address, memory, data, {}, size);
  else
    std::memcpy(fetch.local.address, data, size);
  end(fetch, std::move(copied));
  return Code::ok;
}

/// Lets UCX move the data of a rendezvous into place.
void Ucx::receive(Fetch& fetch, void* descriptor) {
  const device::Memory memory = fetch.local.memory;
  fetch.receiving = true;
  Operation operation{};
  operation.mask = Operation::kCallback | Operation::kUser | Operation::kMemoryType;
  operation.receive = on_received;
  operation.user = &fetch;
  operation.memory_type = type_of(memory);
  const device::Current current(memory);
  void* request =
      api_.ucp_am_recv_data_nbx(worker_, descriptor, fetch.local.address, fetch.local.length, &operation);
  if (request == nullptr)
    end(fetch, {});
  else if (api::is_error(request))
    end(fetch, failure("receiving a message", api::error_in(request)));
}

void Ucx::on_received(void* request, Code status, size_t, void* user) {
  auto& fetch = *static_cast<Fetch*>(user);
  Ucx& ucx = *fetch.owner;
  ucx.api_.ucp_request_free(request);
  if (ucx.fetches_.find(fetch.id) == ucx.fetches_.end()) {  // given up by settle()
    delete &fetch;
    return;
  }
  if (status == Code::ok) return ucx.end(fetch, {});
  Link& link = *fetch.link;
  ucx.end(fetch, Error(Errc::proc_aborted, std::string("receiving a message failed (") +
                                               ucx.api_.ucs_status_string(status) + ")"));
  if (status != Code::canceled) ucx.fail(link, ucx.api_.ucs_status_string(status));
}

void Ucx::end(Fetch& fetch, Status outcome) {
  --fetch.link->fetches;
  if (takes(fetch.local.memory)) --gpu_operations_;
  Completion& done = *fetch.done;
  fetches_.erase(fetch.id);
  if (receiver_ != nullptr) return done.done(done, std::move(outcome));
  ended_.push_back({&done, std::move(outcome)});
}

void Ucx::fire_ended() {
  for (auto ended = std::exchange(ended_, {}); Ended & one : ended)
    one.done->done(*one.done, std::move(one.outcome));
}

}  // namespace weft::transport::ucx
