// SPDX-License-Identifier: BSD-3-Clause
// Exposed buffers and fetches: pull, and the rendezvous that answers it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "device/copy.hpp"
#include "device/current.hpp"
#include "transport/ucx/state.hpp"

namespace weft::transport::ucx {

using api::Code;
using api::Operation;

Result<Exposed> Ucx::expose(Peer peer, const Buffer& buffer, std::byte* key) {
  const uint64_t id = ++last_exposed_;
  exposures_.emplace(id, Exposure{peer, buffer});
  std::memcpy(key, &id, sizeof id);
  return Exposed{id, sizeof id};
}

void Ucx::fetch(Peer peer, const Buffer& local, std::span<const std::byte> key, uint64_t offset,
                Completion& done) {
  Link& link = link_of(peer);
  uint64_t exposed = 0;
  std::memcpy(&exposed, key.data(), std::min(key.size(), sizeof exposed));
  const uint64_t id = ++last_fetch_;
  Fetch& fetch =
      *fetches_.emplace(id, std::make_unique<Fetch>(Fetch{this, &link, id, local, &done})).first->second;
  ++link.fetches;
  if (takes(local.memory)) {
    ++gpu_operations_;
    gpu_ = local.memory;
  }
  if (!connect(link)) {
    // A failing link ends it by settle().
    if (link.state == Link::State::lost) end(fetch, Error(Errc::proc_aborted, link.reason));
    return;
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
  if (takes(buffer.memory)) {
    slot->gpu = true;
    ++gpu_operations_;
    gpu_ = buffer.memory;
  }
  const device::Current current(buffer.memory);
  send(slot, kDataId, sizeof(DataHead), buffer.address + pull.offset, pull.length, Operation::kRendezvous,
       type_of(buffer.memory));
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
  const device::Memory memory = fetch.local.memory;
  if (!rendezvous) {
    Status copied;
    if (takes(memory))
      copied = device::copy(fetch.local.address, memory, data, {}, size);
    else
      std::memcpy(fetch.local.address, data, size);
    end(fetch, std::move(copied));
    return Code::ok;
  }
  fetch.receiving = true;
  Operation operation{};
  operation.mask = Operation::kCallback | Operation::kUser | Operation::kMemoryType;
  operation.receive = on_received;
  operation.user = &fetch;
  operation.memory_type = type_of(memory);
  const device::Current current(memory);
  void* request = api_.ucp_am_recv_data_nbx(worker_, data, fetch.local.address, size, &operation);
  if (request == nullptr)
    end(fetch, {});
  else if (api::is_error(request))
    end(fetch, failure("receiving a message", api::error_in(request)));
  return Code::ok;
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
