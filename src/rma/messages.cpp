// SPDX-License-Identifier: BSD-3-Clause
#include "rma/messages.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/counters.hpp"
#include "core/remote_memory.hpp"

namespace weft::rma {
namespace {

using datatype::Basic;

counters::Counter stale("window.stale_messages", counters::Unit::events,
                        "Messages about windows that do not exist (any more), or malformed ones");

template <class T>
std::vector<std::byte> bytes_of(const T& message, size_t more = 0) {
  std::vector<std::byte> bytes(sizeof message + more);
  std::memcpy(bytes.data(), &message, sizeof message);
  return bytes;
}

}  // namespace

void Messages::count_stale() { stale.add(); }

Messages& Messages::of(core::Instance& instance) {
  if (instance.window_messages == nullptr) instance.window_messages.reset(new Messages(instance));
  return static_cast<Messages&>(*instance.window_messages);
}

Messages::Messages(core::Instance& instance) : instance_(instance), retired_(instance) {
  (void)instance.remote_memory();
  auto& handlers = instance.handlers;
  const auto id = [](WindowHandler handler) { return static_cast<transport::am::HandlerId>(handler); };
  handlers.add<SyncMessage>(id(WindowHandler::sync), *this,
                            [](Messages& self, core::ProcessId source, const SyncMessage& message, size_t) {
                              self.on_sync(source, message);
                            });
  handlers.add<QueryMessage>(id(WindowHandler::query), *this,
                             [](Messages& self, core::ProcessId source, const QueryMessage& message, size_t) {
                               self.on_query(source, message);
                             });
  handlers.add<KeyMessage>(id(WindowHandler::key), *this,
                           [](Messages& self, core::ProcessId source, const KeyMessage& message, size_t) {
                             self.on_key(source, message);
                           });
  handlers.add<AccumulateMessage>(id(WindowHandler::accumulate), *this,
                                  [](Messages& self, core::ProcessId source, const AccumulateMessage& message,
                                     size_t size) { self.on_accumulate(source, message, size); });
  handlers.add<ReplyMessage>(id(WindowHandler::reply), *this,
                             [](Messages& self, core::ProcessId source, const ReplyMessage& message,
                                size_t size) { self.on_reply(source, message, size); });
  add_kernel_handlers();
  instance.add(*this);
  instance.failures.add([this](core::ProcessId process, const Error& why) { lost(process, why); });
  instance.failures.on_revoked([this](core::Communicator& comm) {
    const auto found = windows_.find(comm.id);
    if (found == windows_.end()) return;
    found->second->end_access();
    std::erase(leaving_, found->second);
    leaving_.push_back(found->second);
  });
}

void Messages::remove(Window& window) {
  await_updates(window);
  windows_.erase(window.comm->id);
  slots_.remove(window);
  std::erase(leaving_, &window);
  if (std::exchange(window.reached_by_messages, false)) --served_;
  std::erase_if(locks_, [&](const LockRequest& request) { return request.window == window.comm->id; });
  std::erase_if(held_, [&](const HeldLock& lock) { return lock.window == window.comm->id; });
}

void Messages::serve(Window& window) {
  if (!std::exchange(window.reached_by_messages, true)) ++served_;
}

bool Messages::send_now(const Queued& message) {
  if (instance_.failures.failed(message.to)) return true;  // dropped
  std::byte* const to = instance_.sender->reserve(message.to, message.bytes.size());
  if (to == nullptr) return false;
  std::memcpy(to, message.bytes.data(), message.bytes.size());
  instance_.sender->commit(message.to, message.bytes.size());
  return true;
}

void Messages::send(core::ProcessId to, std::vector<std::byte> message) {
  Queued queued{to, std::move(message)};
  // Messages to one peer stay in order.
  const bool waits = std::any_of(queue_.begin(), queue_.end(), [&](const Queued& q) { return q.to == to; });
  if (waits || !send_now(queued)) queue_.push_back(std::move(queued));
}

template <class T>
void Messages::send(core::ProcessId to, const T& message) {
  send(to, bytes_of(message));
}

bool Messages::poll() {
  bool progressed = slots_.poll();
  if (!leaving_.empty()) [[unlikely]]
    progressed |= std::erase_if(leaving_, [](Window* window) { return window->leave(); }) != 0;
  while (!queue_.empty() && send_now(queue_.front())) {
    queue_.pop_front();
    progressed = true;
  }
  if (!updates_.empty()) progressed |= poll_updates();
  if (!locks_.empty())
    progressed |= std::erase_if(locks_, [&](LockRequest& request) { return grant(request); }) != 0;
  return progressed;
}

Window* Messages::find(core::ContextId id, core::ProcessId source, int& rank) const {
  const auto found = windows_.find(id);
  rank = found == windows_.end() ? -1 : found->second->rank_of(source);
  if (rank >= 0) return found->second;
  stale.add();
  return nullptr;
}

void Messages::send_sync(const Window& window, const Peer& to, Sync what) {
  send(to.process, SyncMessage{WindowHandler::sync, what, 0, -1, window.comm->id});
}

bool Messages::grant(LockRequest& request) {
  const auto found = windows_.find(request.window);
  if (found == windows_.end() || instance_.failures.failed(request.source)) return true;
  Window& window = *found->second;
  if (!window.control->try_lock(request.exclusive, window.rank_of(request.source))) {
    report_holder(request, *window.control, static_cast<int>(window.peers.size()));
    return false;
  }
  send(request.source, SyncMessage{WindowHandler::sync, Sync::granted, 0, -1, request.window});
  return true;
}

/// For readers of the source's wait: who holds the lock that it waits for.
void Messages::report_holder(LockRequest& request, Control& control, int ranks) {
  const LockHolder holder = holder_of(control, request.reported, ranks);
  if (holder.rank < 0 || holder.rank == request.reported) return;
  request.reported = holder.rank;
  const auto sharers = static_cast<uint16_t>(std::min<uint32_t>(holder.sharers, UINT16_MAX));
  send(request.source, SyncMessage{WindowHandler::sync, Sync::held, sharers, holder.rank, request.window});
}

void Messages::on_sync(core::ProcessId source, const SyncMessage& message) {
  int rank = -1;
  Window* const window = find(message.window, source, rank);
  if (window == nullptr) {
    if (message.what == Sync::detached_query)  // this process has had the window, and has left it
      send(source, SyncMessage{WindowHandler::sync, Sync::detached, 0, -1, message.window});
    return;
  }
  Control& control = *window->control;
  switch (message.what) {
    case Sync::lock_shared:
    case Sync::lock_exclusive: {
      LockRequest request{message.window, source, message.what == Sync::lock_exclusive};
      if (!grant(request)) locks_.push_back(request);
      break;
    }
    case Sync::unlock_shared:
      control.unlock(false, rank);
      break;
    case Sync::unlock_exclusive:
      control.unlock(true, rank);
      break;
    case Sync::granted:
      note_holder(message.window, rank, {});
      window->peers[static_cast<size_t>(rank)].granted = true;
      break;
    case Sync::held:
      if (message.holder < 0 || message.holder >= static_cast<int>(window->peers.size())) return stale.add();
      note_holder(message.window, rank, {message.holder, message.sharers});
      break;
    case Sync::post:
      control.of(rank).posts.fetch_add(1);
      break;
    case Sync::complete:
      control.of(rank).completes.fetch_add(1);
      break;
    case Sync::detached:
      window->peers[static_cast<size_t>(rank)].detached = true;
      break;
    case Sync::detached_query:
      break;  // answered when the window is gone
    default:
      stale.add();
  }
}

void Messages::send_query(const Window& window, Peer& to, uint64_t address, uint64_t length) {
  send(to.process, QueryMessage{WindowHandler::query, {}, window.comm->id, address, length});
}

void Messages::on_query(core::ProcessId source, const QueryMessage& message) {
  int rank = -1;
  Window* const window = find(message.window, source, rank);
  if (window == nullptr) return;
  KeyMessage answer{};
  answer.handler = WindowHandler::key;
  answer.window = message.window;
  std::byte* address = nullptr;
  if (const OwnMemory* memory = window->own_memory(message.address, message.length, address)) {
    if (auto key = window->rma().key(memory->region, source); key.ok()) {
      answer.key = *key;
      answer.found = 1;
      answer.gpu_atomics = device::can_accumulate(memory->memory) ? 1 : 0;
    }
  }
  send(source, answer);
}

void Messages::on_key(core::ProcessId source, const KeyMessage& message) {
  int rank = -1;
  Window* const window = find(message.window, source, rank);
  if (window == nullptr) return;
  Peer& peer = window->peers[static_cast<size_t>(rank)];
  if (message.found != 0) peer.answer = std::make_unique<transport::rma::Key>(message.key);
  peer.answer_gpu_atomics = message.gpu_atomics != 0;
  peer.queried = true;
}

void Messages::send_accumulate(Operation& operation, const Area& area, const Place& place,
                               const std::byte* in, const std::byte* compare, uint8_t op, Basic basic,
                               bool fetch) {
  operation.id = operations_.insert(operation);
  const core::ProcessId to = place.peer->process;
  const auto element = static_cast<uint64_t>(datatype::traits_of(basic).size);
  const size_t limit = std::min(instance_.sender->max_message(to), AccumulateMessage::kMaxBytes);
  const uint64_t streams = (in == nullptr ? 0 : 1) + (compare != nullptr ? 1 : 0);
  // An element may need a run for each of its bytes at worst; two are the most of any predefined type.
  const uint64_t per_element = 2 * sizeof(Run) + std::max<uint64_t>(streams, 1) * element;
  const uint64_t elements = std::max<uint64_t>((limit - sizeof(AccumulateMessage)) / per_element, 1);
  const uint64_t dense =
      (limit - sizeof(AccumulateMessage) - sizeof(Run)) / (std::max<uint64_t>(streams, 1) * element);
  const uint64_t part = (area.type.contiguous() ? std::max<uint64_t>(dense, 1) : elements) * element;
  for (uint64_t at = 0; at < place.bytes; at += part) {
    const uint64_t n = std::min(part, place.bytes - at);
    std::vector<Run> runs;
    datatype::for_each_run(area.type, area.count, static_cast<int64_t>(at), static_cast<int64_t>(n),
                           [&](int64_t displacement, int64_t length) {
                             runs.push_back({place.window_offset + static_cast<uint64_t>(displacement),
                                             static_cast<uint64_t>(length)});
                           });
    const AccumulateMessage head{WindowHandler::accumulate,
                                 op,
                                 static_cast<uint8_t>(basic),
                                 static_cast<uint8_t>(fetch ? 1 : 0),
                                 static_cast<uint32_t>(runs.size()),
                                 operation.window.comm->id,
                                 operation.id,
                                 at,
                                 n};
    const size_t run_bytes = runs.size() * sizeof(Run);
    std::vector<std::byte> message = bytes_of(head, run_bytes + streams * n);
    std::byte* out = message.data() + sizeof head;
    std::memcpy(out, runs.data(), run_bytes);
    out += run_bytes;
    if (in != nullptr) std::memcpy(out, in + at, n);
    if (compare != nullptr) std::memcpy(out + n, compare + at, n);
    operation.add_part();
    send(to, std::move(message));
  }
}

void Messages::on_reply(core::ProcessId source, const ReplyMessage& message, size_t size) {
  Operation* const operation = operations_.find(message.operation);
  if (operation == nullptr || operation->peer.process != source || size - sizeof message < message.length)
    return stale.add();
  Status outcome;
  if (message.outcome == ReplyMessage::out_of_range)
    outcome = error(ErrorClass::range, "an accumulate operation exceeds the target's memory");
  else if (message.outcome != ReplyMessage::done)
    outcome = Error(Errc::other, "the target could not execute an accumulate operation");
  std::vector<std::byte>& data = operation->data;
  if (message.length != 0) {
    if (message.position > data.size() || message.length > data.size() - message.position) return stale.add();
    std::memcpy(data.data() + message.position, reinterpret_cast<const std::byte*>(&message) + sizeof message,
                message.length);
  }
  if (operation->last_part()) operations_.erase(operation->id);
  operation->finish_part(std::move(outcome));
}

template <class Which>
void Messages::fail(Which&& which, const Error& why) {
  std::vector<Operation*> failed;
  operations_.for_each([&](Operation& operation) {
    if (which(operation)) failed.push_back(&operation);
  });
  for (Operation* operation : failed) {
    operations_.erase(operation->id);
    for (bool last = false; !last;) {
      last = operation->last_part();
      operation->finish_part(why.copy());
    }
  }
}

void Messages::abandon(const Window& window, const Error& why) {
  fail([&](const Operation& operation) { return &operation.window == &window; }, why);
}

void Messages::lost(core::ProcessId process, const Error& why) {
  fail([&](const Operation& operation) { return operation.peer.process == process; }, why);
  for (auto& [id, updates] : updates_)
    std::erase_if(updates.waiting, [&](const Queued& message) {
      if (message.to == process) updates.waiting_bytes -= message.bytes.size();
      return message.to == process;
    });
  for (const auto& [id, window] : windows_) window->lose(process);
}

}  // namespace weft::rma
