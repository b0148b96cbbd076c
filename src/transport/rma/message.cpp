// SPDX-License-Identifier: BSD-3-Clause
// The path by active messages. Puts and the results of gets are sent in fragments, which arrive in order; the
// target answers the last fragment of a put. All numbers of a message are checked before their use. Copies do
// not use the stream of kernels (StreamRole::local), which may wait for a place on a full GPU.
#include "transport/rma/message.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/counters.hpp"
#include "base/trace.hpp"
#include "device/remote_writes.hpp"
#include "transport/rma/rma.hpp"

namespace weft::transport::rma {
namespace {

counters::Counter stale_ids("rma.stale_ids", counters::Unit::events,
                            "Messages on remote memory dropped because their operation has ended");
counters::Counter malformed("rma.malformed_messages", counters::Unit::events,
                            "Messages on remote memory dropped because of their size or content");

constexpr size_t kMaxFragment = size_t{64} << 10;  // bytes of payload

Error error_of(ReplyMessage::Outcome outcome, Peer peer) {
  const std::string process = "process " + std::to_string(peer);
  switch (outcome) {
    case ReplyMessage::stale_region:
      return Error(Errc::arg, process + " has deregistered the target memory");
    case ReplyMessage::out_of_range:
      return Error(Errc::arg, "the access exceeds the registered memory of " + process);
    default:
      return Error(Errc::other, process + " could not copy its memory: see its log");
  }
}

}  // namespace

void Rma::register_handlers() {
  am::HandlerTable& table = environment_.handlers();
  const auto id = [](Message message) { return static_cast<am::HandlerId>(message); };
  table.add<PutMessage>(id(Message::put), *this, [](Rma& rma, Peer source, const auto& m, size_t size) {
    rma.on_put(source, m, size);
  });
  table.add<GetMessage>(id(Message::get), *this,
                        [](Rma& rma, Peer source, const auto& m, size_t) { rma.on_get(source, m); });
  table.add<AtomicMessage>(id(Message::atomic), *this,
                           [](Rma& rma, Peer source, const auto& m, size_t) { rma.on_atomic(source, m); });
  table.add<DataMessage>(id(Message::data), *this, [](Rma& rma, Peer source, const auto& m, size_t size) {
    rma.on_data(source, m, size);
  });
  table.add<ReplyMessage>(id(Message::reply), *this,
                          [](Rma& rma, Peer source, const auto& m, size_t) { rma.on_reply(source, m); });
}

Result<Issued> Rma::send_request(Operation& operation) {
  const trace::Range range("rma.message");
  const Target& target = *operation.target;
  operation.id = operations_.insert(operation);
  if (operation.kind == Kind::get) {
    const GetMessage message{Message::get,          {}, target.region_, operation.id, operation.offset,
                             operation.local.length};
    environment_.sender().post(target.peer_, &message, sizeof message);
  } else if (operation.local.memory.on_device() || !send_put(operation)) {
    sending_.push_back(&operation);
  }
  return Issued::pending;
}

/// Sends fragments until the transport has no capacity. Returns true if all are sent, or if the operation has
/// failed because its GPU buffer cannot be read.
bool Rma::send_put(Operation& operation) {
  const Target& target = *operation.target;
  am::Sender& sender = environment_.sender();
  for (const size_t total = operation.local.length; operation.moved < total;) {
    const size_t bytes = std::min(
        {total - operation.moved, kMaxFragment, sender.max_message(target.peer_) - sizeof(PutMessage)});
    std::byte* slot = sender.reserve(target.peer_, sizeof(PutMessage) + bytes);
    if (slot == nullptr) return false;
    auto& message = *new (slot) PutMessage{Message::put,
                                           0,
                                           0,
                                           static_cast<uint32_t>(bytes),
                                           target.region_,
                                           operation.id,
                                           operation.offset + operation.moved};
    if (operation.moved + bytes == total) message.flags = PutMessage::kLast;
    const Status copied =
        copy::execute(copy::plain(slot + sizeof message),
                      copy::plain(operation.local.address + operation.moved, operation.local.memory), bytes,
                      device::StreamRole::out);
    if (!copied) {  // an empty fragment changes nothing
      message.flags = 0, message.length = 0;
      sender.commit(target.peer_, sizeof message);
      finish(operation, copied.error().copy());
      return true;
    }
    sender.commit(target.peer_, sizeof message + bytes);
    operation.moved += bytes;
  }
  return true;
}

/// Sends data of a get until the transport has no capacity. Returns true once the get is answered.
bool Rma::serve(Serving& serving) {
  const GetMessage& request = serving.request;
  am::Sender& sender = environment_.sender();
  const Registration* region = registrations_.find(request.region);
  if (region == nullptr) {
    reply(serving.peer, request.operation, ReplyMessage::stale_region);
    return true;
  }
  while (serving.sent < request.length) {
    const size_t bytes = std::min({static_cast<size_t>(request.length - serving.sent), kMaxFragment,
                                   sender.max_message(serving.peer) - sizeof(DataMessage)});
    std::byte* slot = sender.reserve(serving.peer, sizeof(DataMessage) + bytes);
    if (slot == nullptr) return false;
    auto& message = *new (slot) DataMessage{
        Message::data, {}, static_cast<uint32_t>(bytes), request.operation, serving.sent};
    const Status copied =
        copy::execute(copy::plain(slot + sizeof message),
                      copy::plain(region->address + request.offset + serving.sent, region->memory), bytes,
                      device::StreamRole::out);
    if (!copied) message.length = 0;
    sender.commit(serving.peer, sizeof message + (copied ? bytes : 0));
    if (!copied) {
      reply(serving.peer, request.operation, ReplyMessage::copy_failed);
      return true;
    }
    serving.sent += bytes;
  }
  return true;
}

void Rma::reply(Peer to, Id operation, ReplyMessage::Outcome outcome, uint64_t value) {
  const ReplyMessage message{Message::reply, outcome, {}, operation, value};
  environment_.sender().post(to, &message, sizeof message);
}

/// Returns null, and counts the message, if the id names no operation of this kind with the sender.
Rma::Operation* Rma::find(Id id, Peer source) {
  Operation* operation = operations_.find(id);
  if (operation != nullptr && operation->target->peer_ == source) return operation;
  stale_ids.add();
  return nullptr;
}

void Rma::on_put(Peer source, const PutMessage& message, size_t size) {
  if (size - sizeof message < message.length) return malformed.add();
  const Registration* region = registrations_.find(message.region);
  if (region == nullptr) return reply(source, message.operation, ReplyMessage::stale_region);
  if (!region->contains(message.offset, message.length))
    return reply(source, message.operation, ReplyMessage::out_of_range);
  const Status copied = copy::execute(copy::plain(region->address + message.offset, region->memory),
                                      copy::plain(&message + 1), message.length, device::StreamRole::in);
  if (!copied) return reply(source, message.operation, ReplyMessage::copy_failed);
  if ((message.flags & PutMessage::kLast) != 0) reply(source, message.operation, ReplyMessage::done);
}

void Rma::on_get(Peer source, const GetMessage& message) {
  const Registration* region = registrations_.find(message.region);
  if (region == nullptr) return reply(source, message.operation, ReplyMessage::stale_region);
  if (!region->contains(message.offset, message.length))
    return reply(source, message.operation, ReplyMessage::out_of_range);
  Serving serving{source, message, 0};
  if (!serving_.empty() || !serve(serving)) serving_.push_back(serving);
}

void Rma::on_atomic(Peer source, const AtomicMessage& message) {
  const Registration* region = registrations_.find(message.region);
  if (region == nullptr) return reply(source, message.operation, ReplyMessage::stale_region);
  const Atomic atomic{message.op, message.type, message.operand, message.compare};
  if (!valid(atomic)) return malformed.add();
  const size_t bytes = size_of(atomic.type);
  if (!region->contains(message.offset, bytes) ||
      (reinterpret_cast<uint64_t>(region->address) + message.offset) % bytes != 0)
    return reply(source, message.operation, ReplyMessage::out_of_range);
  if (region->announced.on_device() && !device::flush_remote_writes(region->announced).ok())
    return reply(source, message.operation, ReplyMessage::copy_failed);
  auto before = execute_at(*region, message.offset, atomic);
  if (!before) return reply(source, message.operation, ReplyMessage::copy_failed);
  reply(source, message.operation, ReplyMessage::done, *before);
}

void Rma::on_data(Peer source, const DataMessage& message, size_t size) {
  Operation* operation = find(message.operation, source);
  if (operation == nullptr) return;
  const uint64_t missing = operation->local.length - operation->moved;
  if (operation->kind != Kind::get || size - sizeof message < message.length ||
      message.position != operation->moved || message.length > missing)
    return malformed.add();
  Status copied =
      copy::execute(copy::plain(operation->local.address + message.position, operation->local.memory),
                    copy::plain(&message + 1), message.length, device::StreamRole::in);
  operation->moved += message.length;
  if (!copied || message.length == missing) finish(*operation, std::move(copied));
}

void Rma::on_reply(Peer source, const ReplyMessage& message) {
  Operation* operation = find(message.operation, source);
  if (operation == nullptr) return;
  if (message.outcome != ReplyMessage::done) {
    std::erase(sending_, operation);
    return finish(*operation, error_of(message.outcome, source));
  }
  const bool sent = operation->kind != Kind::put || operation->moved == operation->local.length;
  if (operation->kind == Kind::get || !sent) return malformed.add();
  if (operation->kind == Kind::atomic) *operation->before = message.value;
  finish(*operation, {});
}

/// Device memory is read, changed and written back: atomic among the operations that this process executes.
Result<uint64_t> Rma::execute_at(const Registration& registration, uint64_t offset, const Atomic& atomic) {
  std::byte* const address = registration.address + offset;
  if (!registration.memory.on_device()) return execute(atomic, address);
  uint64_t before = 0;
  const size_t bytes = size_of(atomic.type);
  const copy::View there = copy::plain(address, registration.memory);
  WEFT_TRY(copy::execute(copy::plain(&before), there, bytes, device::StreamRole::out));
  const uint64_t after = apply(atomic, before);
  if (after != before) WEFT_TRY(copy::execute(there, copy::plain(&after), bytes, device::StreamRole::in));
  return before;
}

bool Rma::poll() {
  bool progressed = (collected_.count != 0 || !copying_.empty()) && poll_copies();
  for (size_t i = 0; i < sending_.size();) {
    if (!send_put(*sending_[i])) {
      ++i;
      continue;
    }
    sending_.erase(sending_.begin() + static_cast<ptrdiff_t>(i));
    progressed = true;
  }
  while (!serving_.empty() && serve(serving_.front())) {
    serving_.pop_front();
    progressed = true;
  }
  return progressed;
}

template <class Which>
void Rma::fail(Which&& which, const Error& why) {
  std::erase_if(sending_, [&](const Operation* operation) { return which(*operation); });
  operations_.for_each([&](Operation& operation) {
    if (which(operation)) finish(operation, why.copy());
  });
}

void Rma::lost(Peer peer, const Error& why) {
  if (std::find(lost_.begin(), lost_.end(), peer) != lost_.end()) return;
  lost_.push_back(peer);
  std::erase_if(serving_, [&](const Serving& serving) { return serving.peer == peer; });
  fail([&](const Operation& operation) { return operation.target->peer_ == peer; },
       Error(Errc::proc_aborted, why.message()));
}

void Rma::abandon(const Target& target, const Error& why) {
  fail([&](const Operation& operation) { return operation.target == &target; }, why);
}

}  // namespace weft::transport::rma
