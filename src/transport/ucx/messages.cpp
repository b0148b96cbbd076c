// SPDX-License-Identifier: BSD-3-Clause
// Messages out, in slots that UCX gives back, and in, in the order of their numbers.
#include <cstring>
#include <new>
#include <utility>

#include "transport/ucx/state.hpp"

namespace weft::transport::ucx {

using api::Code;
using api::Operation;

namespace {

constexpr size_t kSmall = 512;                // room of a small slot
constexpr size_t kMostOut = size_t{2} << 20;  // bytes of messages on their way to one peer, about
constexpr size_t kSpareSlots = 64;            // of each size

}  // namespace

Slot* Ucx::take_slot(Link& link, size_t room) {
  auto& spare = spare_[room > kSmall ? 1 : 0];
  Slot* slot = nullptr;
  if (!spare.empty()) {
    slot = spare.back();
    spare.pop_back();
  } else {
    const size_t bytes = room > kSmall ? kMessage : kSmall;
    slot = new (::operator new(sizeof(Slot) + bytes)) Slot;
    slot->owner = this;
    slot->room = bytes;
  }
  slot->link = &link;
  slot->gpu = slot->bulk = slot->counted = false;
  return slot;
}

void Ucx::give_slot(Slot* slot) {
  auto& spare = spare_[slot->room > kSmall ? 1 : 0];
  if (spare.size() < kSpareSlots)
    spare.push_back(slot);
  else
    ::operator delete(slot);
}

std::byte* Ucx::reserve(Peer peer, size_t size) {
  Link& link = link_of(peer);
  if (link.out >= kMostOut) return nullptr;
  reserved_ = take_slot(link, size);
  return reserved_->data;
}

/// The next of its link, which is connected.
void Ucx::number(Slot& slot) {
  slot.message = {self_, MessageHead::kPlain, slot.link->sent++};
  slot.link->told_goodbye = false;
}

void Ucx::commit(Peer, size_t size) {
  Slot* slot = std::exchange(reserved_, nullptr);
  if (!connect(*slot->link)) return give_slot(slot);
  number(*slot);
  slot->counted = true;
  out_ += slot->room;
  slot->link->out += slot->room;
  send(slot, kMessageId, sizeof(MessageHead), slot->data, size, Operation::kEager, api::kHost);
}

/// The link is connected. The slot comes back by on_sent(), or at once.
void Ucx::send(Slot* slot, unsigned id, size_t head_size, const void* data, size_t size, uint32_t flags,
               int type) {
  Operation operation{};
  operation.mask = Operation::kCallback | Operation::kUser | Operation::kFlags | Operation::kMemoryType;
  operation.flags = flags;
  slot->bulk = flags == Operation::kRendezvous;
  operation.send = on_sent;
  operation.user = slot;
  operation.memory_type = type;
  const void* head = id == kAnnounceId ? static_cast<const void*>(slot->data) : &slot->message;
  void* request = api_.ucp_am_send_nbx(slot->link->endpoint, id, head, head_size, data, size, &operation);
  if (request != nullptr && !api::is_error(request)) return;
  const Code code = request == nullptr ? Code::ok : api::error_in(request);
  on_sent(nullptr, code, slot);
}

void Ucx::on_sent(void* request, Code status, void* user) {
  auto* slot = static_cast<Slot*>(user);
  Ucx& ucx = *slot->owner;
  if (request != nullptr) ucx.api_.ucp_request_free(request);
  if (status != Code::ok && status != Code::canceled)
    ucx.fail(*slot->link, ucx.api_.ucs_status_string(status));
  if (slot->bulk && status == Code::ok) slot->link->acquainted = true;
  if (slot->gpu) --ucx.gpu_operations_;
  if (slot->counted) {
    ucx.out_ -= slot->room;
    slot->link->out -= slot->room;
  }
  ucx.give_slot(slot);
}

void Ucx::goodbye(Link& link) {
  if (link.endpoint == nullptr || link.state != Link::State::open || std::exchange(link.told_goodbye, true))
    return;
  Slot* slot = take_slot(link, 0);
  slot->message = {self_, MessageHead::kGoodbye, link.sent++};
  send(slot, kMessageId, sizeof(MessageHead), nullptr, 0, Operation::kEager, api::kHost);
}

// Messages in.

Code Ucx::on_message(const void* header, const void* data, size_t size) {
  MessageHead head;
  std::memcpy(&head, header, sizeof head);
  if (head.source < links_.size()) take_message(head, data, size);
  return Code::ok;
}

/// Delivers it, or keeps it until its turn.
void Ucx::take_message(const MessageHead& head, const void* data, size_t size) {
  Link& link = link_of(head.source);
  const auto* bytes = static_cast<const std::byte*>(data);
  if (receiver_ != nullptr && head.sequence == link.delivered && link.early.empty()) [[likely]]
    return deliver(link, head.kind, bytes, size);
  link.early[head.sequence] = {head.kind, {bytes, bytes + size}};
  if (receiver_ != nullptr)
    deliver_early(link);
  else if (head.sequence == link.delivered)
    held_.push_back(&link);
}

void Ucx::deliver(Link& link, uint32_t kind, const std::byte* data, size_t size) {
  ++link.delivered;
  link.left = kind == MessageHead::kGoodbye;
  if (link.left) return;
  if (reinterpret_cast<uintptr_t>(data) % 8 != 0) {
    std::memcpy(aligned_.data(), data, size);
    data = aligned_.data();
  }
  ++delivered_;
  receiver_->deliver(link.peer, data, size);
}

void Ucx::deliver_early(Link& link) {
  while (!link.early.empty() && link.early.begin()->first == link.delivered) {
    const Early kept = std::move(link.early.begin()->second);
    link.early.erase(link.early.begin());
    deliver(link, kept.kind, kept.data.data(), kept.data.size());
  }
}

}  // namespace weft::transport::ucx
