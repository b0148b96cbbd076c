// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/ofi.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"

namespace weft::transport::ofi {
namespace {

constexpr size_t kMinMessageBytes = 4 << 10;

config::Size message_bytes{
    "net.ofi_max_message_bytes", 66 << 10, kMinMessageBytes, 1 << 20,
    "Largest message sent through libfabric in bytes, less where libfabric would move it by a rendezvous of "
    "its own; larger data is transferred by RMA reads."};
config::Size receives{"net.ofi_posted_receives", 64, 4, 4096,
                      "Number of receive buffers posted to libfabric. Larger values absorb longer bursts."};
config::Size sends{"net.ofi_max_sends", 32, 8, 4096, "Largest number of outstanding sends to one process."};
counters::Counter send_retries("net.ofi_send_retries", counters::Unit::events,
                               "Attempts to send that libfabric's full queue has refused");

// Tag: the sender's rank in its job, and kDisconnect; 48 bits, which every provider supports.
constexpr uint64_t kAnyTag = (uint64_t{1} << 48) - 1;

/// How long the gets from a peer that others have found dead wait for libfabric's reads, in nanoseconds. The
/// reads of a broken connection fail at once.
constexpr uint64_t kHeldReadsTimeoutNs = 2'000'000'000;
constexpr size_t kCompletionsPerRead = 16;
constexpr size_t kMaxHeartbeats = 128;
constexpr size_t kBusyPeers = 4;  // that hold all their sends; libfabric refuses what its queue cannot hold
constexpr uint32_t kIdleAdapterInterval = 16;  // calls of progress(); unused adapters have only heartbeats

constexpr size_t kRxmEagerBytes = 16384;  // default of FI_OFI_RXM_BUFFER_SIZE

/// Returns the size of message buffers. A message that libfabric moves by a rendezvous holds buffers of both
/// sides until both have progressed, and for ever if one of them dies; then nobody else gets through.
size_t buffer_bytes(const Endpoint& endpoint) {
  const size_t bytes = (message_bytes + 63) & ~size_t{63};
  if (!has_part(endpoint.info().fabric_attr->prov_name, "ofi_rxm")) return bytes;
  const char* const set = std::getenv("FI_OFI_RXM_BUFFER_SIZE");
  const size_t eager = set != nullptr ? std::strtoull(set, nullptr, 0) : kRxmEagerBytes;
  return std::clamp(eager & ~size_t{63}, kMinMessageBytes, bytes);
}

}  // namespace

Ofi::Ofi(const launch::Job& job, Adapters adapters)
    : self_(static_cast<Peer>(job.rank)),
      job_size_(static_cast<Peer>(job.size)),
      job_tag_(launch::JobId::of(job.id).tag()),
      net_namespace_(own_net_namespace()),
      adapters_(std::move(adapters)),
      endpoint_(&adapters_.endpoint(0)),
      remote_registrations_(adapters_, abi::kRemoteRead),
      writable_registrations_(adapters_, abi::kRemoteRead | abi::kRemoteWrite),
      local_registrations_(adapters_, abi::kRead | abi::kWrite),
      sends_(*endpoint_, Operation::Kind::send, buffer_bytes(*endpoint_)),
      receives_(*endpoint_, Operation::Kind::receive, buffer_bytes(*endpoint_)),
      by_peer_(static_cast<size_t>(job.size)),
      max_read_bytes_(adapters_.max_rma_bytes()) {}

Result<std::unique_ptr<Network>> Ofi::open(const launch::Job& job) {
  auto opened = library();
  if (!opened) return std::move(opened).error();
  auto choices = select_interfaces(**opened, job.local_rank, job.local_size);
  if (!choices) return std::move(choices).error();
  auto adapters = Adapters::open(**opened, std::move(*choices),
                                 receives + kBusyPeers * sends + max_reads() + kMaxHeartbeats);
  if (!adapters) return std::move(adapters).error();
  std::unique_ptr<Ofi> network(new Ofi(job, std::move(*adapters)));
  WEFT_TRY(network->prepare());
  log::write(log::Level::info, "%s", network->description().c_str());
  return std::unique_ptr<Network>(std::move(network));
}

Status Ofi::prepare() {
  auto secret = new_secret();
  if (!secret) return std::move(secret).error();
  secret_ = *secret;
  provider_ = endpoint_->info().fabric_attr->prov_name;
  in_memory_ = has_part(provider_, "shm");
  over_tcp_ = over_ip(provider_) && provider_.find("udp") == std::string::npos;
  for (size_t i = 0; i < receives; ++i) {
    MessageBuffer* message = receives_.acquire();
    if (message == nullptr) return receives_.failure().error().copy();
    post(*message);
  }
  PublishedAddress published;
  published.secret = secret_;
  published.net_namespace = net_namespace_;
  published.machine = own_machine();
  published.process = ::getpid();
  published.provider = provider_;
  for (size_t i = 0; i < adapters_.size(); ++i) {
    const Adapter& adapter = adapters_[i];
    published.adapters.push_back(
        {adapter.heartbeat_address, adapter.heartbeat_region->key, adapter.loopback, adapter.address});
  }
  published_address_ = published.text();
  return {};
}

std::string Ofi::description() const {
  const SelectedInterface& choice = endpoint_->choice();
  return "libfabric " + endpoint_->library().version_text() + " (" + endpoint_->library().path +
         "), provider " + provider_ + " over " + adapters_.description() + ", device memory " +
         (choice.hmem ? "direct" : "staged");
}

std::byte* Ofi::reserve(Peer peer, size_t size) {
  if (size + kPrefix > sends_.bytes()) return nullptr;
  Connection& to = connection(peer);
  const bool lost = to.state == Connection::State::lost;  // commit() drops the message
  if (!lost && to.outstanding + to.unsent.size() >= sends) return nullptr;
  if (reserved_ == nullptr) reserved_ = sends_.acquire();
  return reserved_ != nullptr ? reserved_->data + kPrefix : nullptr;
}

void Ofi::commit(Peer peer, size_t size) {
  MessageBuffer& message = *std::exchange(reserved_, nullptr);
  Connection& to = connection(peer);
  if (!connect(to)) return sends_.release(&message);
  to.disconnect_sent = false;
  enqueue(to, message, size, 0);
  to.last_messages.end = to.sent;
}

/// Fills in all but the content of the peer's next message.
void Ofi::prepare(const Connection& to, MessageBuffer& message, size_t size, uint64_t flags) const {
  message.peer = to.peer;
  message.size = static_cast<uint32_t>(size + kPrefix);
  message.tag = self_ | flags;
  const Prefix prefix{to.secret, to.sent, job_tag_};
  std::memcpy(message.data, &prefix, kPrefix);
}

void Ofi::enqueue(Connection& to, MessageBuffer& message, size_t size, uint64_t flags) {
  prepare(to, message, size, flags);
  ++to.sent;
  if (to.unsent.empty() && try_send(to, message)) return;
  to.unsent.push_back(&message);
  if (!std::exchange(to.in_backlog, true)) backlog_.push_back(&to);
}

/// Returns false if the send must be retried. If it fails for ever, the buffer is released and the peer lost.
bool Ofi::try_send(Connection& to, MessageBuffer& message) {
  const ssize_t code =
      endpoint_->send(message.data, message.size, message.desc, to.pairs[0].address, message.tag, &message);
  if (code == -EAGAIN) {
    send_retries.add();
    return false;
  }
  ++to.outstanding;
  if (code != 0) on_send_failure(message, endpoint_->library().strerror(static_cast<int>(-code)));
  return true;
}

/// Completion of a send: libfabric has released the buffer.
void Ofi::on_send_complete(MessageBuffer& message) {
  Connection& to = connection(message.peer);
  --to.outstanding;
  if (to.state == Connection::State::lost) --outstanding_to_lost_;
  sends_.release(&message);
}

/// An answer comes too late for a process that has ended, and every message for a process that has left.
void Ofi::on_send_failure(MessageBuffer& message, const std::string& why) {
  Connection& to = connection(message.peer);
  const bool expected = (message.tag & kAnswer) != 0 || to.left;
  on_send_complete(message);
  if (!expected)
    mark_lost(to, Error(Errc::proc_aborted,
                        "process " + std::to_string(to.peer) + " cannot be reached (" + why + ")"));
}

void Ofi::flush() {
  std::erase_if(backlog_, [&](Connection* to) {
    while (!to->unsent.empty()) {
      MessageBuffer* message = to->unsent.front();
      to->unsent.pop_front();
      if (try_send(*to, *message)) continue;
      to->unsent.push_front(message);
      return false;
    }
    to->in_backlog = false;
    return true;
  });
}

void Ofi::post(MessageBuffer& message) {
  const ssize_t code =
      endpoint_->receive(message.data, receives_.bytes(), message.desc, 0, kAnyTag, &message);
  if (code == 0) return;
  unposted_.push_back(&message);
  if (code != -EAGAIN)
    log::write(log::Level::warn, "%s",
               endpoint_->library().error("libfabric cannot post a receive", code).message().c_str());
}

size_t Ofi::poll(Receiver& receiver, size_t limit) {
  if (directory_ == nullptr || endpoint_ == nullptr) return 0;
  const size_t delivered = progress(&receiver, limit);
  if (!waiting_.empty()) start_reads();
  check_peers();
  if (!losses_.empty() || !finished_.empty() || !losing_.empty()) [[unlikely]]
    report_events(receiver);
  return delivered;
}

/// Moves messages; returns the number of delivered ones. `receiver` null: arrived messages are stored.
size_t Ofi::progress(Receiver* receiver, size_t limit) {
  if (!backlog_.empty()) [[unlikely]]
    flush();
  if (!unposted_.empty()) [[unlikely]] {
    for (MessageBuffer* message : std::exchange(unposted_, {})) post(*message);
  }
  size_t delivered = 0;
  if (!stored_.empty() && receiver != nullptr) [[unlikely]]
    for (const abi::CqEntry& entry : std::exchange(stored_, {})) delivered += on_receive(entry, *receiver);
  delivered += drain_completions(*endpoint_, receiver, limit);
  const bool striping =
      reads_by_others_ + remote_registrations_.striped_in_use() + writable_registrations_.striped_in_use() !=
      0;
  if (adapters_.size() > 1 && (striping || ++progress_calls_ % kIdleAdapterInterval == 0))
    for (size_t i = 1; i < adapters_.size(); ++i)
      drain_completions(adapters_.endpoint(i), nullptr, kCompletionsPerRead);
  if (!unanswered_.empty()) [[unlikely]]
    send_answers();
  return delivered;
}

size_t Ofi::drain_completions(Endpoint& endpoint, Receiver* receiver, size_t limit) {
  abi::CqEntry entries[kCompletionsPerRead];
  size_t delivered = 0;
  while (delivered < limit) {
    const size_t count = std::min(kCompletionsPerRead, limit - delivered);
    const ssize_t found = endpoint.completions(entries, count);
    if (found == -abi::kErrAvailable) {
      if (!handle_cq_error(endpoint)) break;
      continue;
    }
    if (found <= 0) break;
    for (ssize_t i = 0; i < found; ++i) delivered += complete(entries[i], receiver);
    if (static_cast<size_t>(found) < count) break;
  }
  return delivered;
}

/// Returns the number of messages delivered.
size_t Ofi::complete(const abi::CqEntry& entry, Receiver* receiver) {
  auto* operation = static_cast<Operation*>(entry.op_context);
  if (operation == nullptr) return 0;
  switch (operation->kind) {
    case Operation::Kind::receive:
      if (receiver != nullptr) return on_receive(entry, *receiver);
      stored_.push_back(entry);
      break;
    case Operation::Kind::send:
      on_send_complete(*static_cast<MessageBuffer*>(operation));
      break;
    case Operation::Kind::read:
      finish_read(static_cast<Read*>(operation), {});
      break;
    case Operation::Kind::heartbeat:
      on_heartbeat(*static_cast<AdapterPair*>(operation));
      break;
  }
  return 0;
}

size_t Ofi::on_receive(const abi::CqEntry& entry, Receiver& receiver) {
  auto& message = static_cast<MessageBuffer&>(*static_cast<Operation*>(entry.op_context));
  Prefix prefix{};
  if (entry.len >= kPrefix) std::memcpy(&prefix, message.data, kPrefix);
  // Also a late message of another job that used the same port.
  if (entry.len < kPrefix || prefix.secret != secret_) {
    foreign_messages.add();
    post(message);
    return 0;
  }
  Connection* const source = source_of(prefix, entry, receiver);
  if (source == nullptr) {
    post(message);
    return 0;
  }
  Connection& from = *source;
  const std::span<const std::byte> content{message.data + kPrefix, entry.len - kPrefix};
  size_t delivered = 0;
  if (prefix.number == from.received) {
    deliver_next(from, entry.tag, content, receiver);
    for (delivered = 1; !from.early.empty(); ++delivered) {
      const auto next = from.early.find(from.received);
      if (next == from.early.end()) break;
      const EarlyMessage kept = std::move(next->second);
      from.early.erase(next);
      deliver_next(from, kept.tag, kept.content, receiver);
    }
  } else if (prefix.number > from.received && from.state != Connection::State::lost) {
    from.early.try_emplace(prefix.number, EarlyMessage{entry.tag, {content.begin(), content.end()}});
  }  // else a duplicate
  post(message);
  return delivered;
}

/// Handles the message of this peer that is next in sequence.
void Ofi::deliver_next(Connection& from, uint64_t tag, std::span<const std::byte> content,
                       Receiver& receiver) {
  const bool disconnect = (tag & kDisconnect) != 0, answer = (tag & kAnswer) != 0;
  ++from.received;
  if (answer) {
    uint64_t& received = from.last_messages.received;
    if (content.size() >= sizeof received) std::memcpy(&received, content.data(), sizeof received);
  } else if (disconnect) {
    from.notified = true;
    if (from.state != Connection::State::lost) {
      from.state = Connection::State::disconnected;
      if (!content.empty() && from.peer < job_size_) {
        from.answer_deadline = monotonic_ns() + kLastMessagesTimeoutNs;
        unanswered_.push_back(&from);
      }
      complete_deferred_gets(from);
    }
    if ((tag & kLeft) != 0) {
      from.left = true;
      receiver.left(from.peer);
    }
  } else {
    from.notified = false;
    if (from.state == Connection::State::disconnected) from.state = Connection::State::open;
    receiver.deliver(from.peer, content.data(), content.size());
  }
}

/// Handles one error completion; returns false if there is none.
bool Ofi::handle_cq_error(Endpoint& endpoint) {
  abi::CqError error;
  std::string why;
  if (!endpoint.read_error(error, why)) return false;
  auto* operation = static_cast<Operation*>(error.op_context);
  if (operation == nullptr) {
    log::write(log::Level::warn, "libfabric reports an error without an operation: %s", why.c_str());
    return true;
  }
  switch (operation->kind) {
    case Operation::Kind::receive: {
      if (error.err != ECANCELED)
        log::write(log::Level::debug, "libfabric: a receive failed: %s", why.c_str());
      post(static_cast<MessageBuffer&>(*operation));
      break;
    }
    case Operation::Kind::send:
      on_send_failure(*static_cast<MessageBuffer*>(operation), why);
      break;
    case Operation::Kind::read:
      finish_read(static_cast<Read*>(operation),
                  Error(Errc::other, "a read by libfabric failed (" + why + ")"));
      break;
    case Operation::Kind::heartbeat: {
      auto& pair = *static_cast<AdapterPair*>(operation);
      pair.heartbeat_pending = false;
      on_heartbeat_failure(pair, std::move(why));
      break;
    }
  }
  return true;
}

/// Drops all traffic with this peer from now on; poll() reports a loss that libfabric has found. If others
/// have found it, libfabric may still write into the buffers of gets, which end with their reads.
void Ofi::mark_lost(Connection& of, Error why, FoundBy found_by) {
  if (of.state == Connection::State::lost) return;
  of.state = Connection::State::lost;
  outstanding_to_lost_ += of.outstanding;
  of.early.clear();
  // Its last writes may still be on their way: libfabric rejects them if there is no registration.
  writable_registrations_.keep_none();
  for (MessageBuffer* message : std::exchange(of.unsent, {})) sends_.release(message);
  if (found_by == FoundBy::libfabric) abort_gets(of, why);
  complete_deferred_gets(of);
  if (found_by == FoundBy::libfabric)
    losses_.emplace_back(of.peer, std::move(why));
  else
    losing_.push_back({&of, std::move(why), monotonic_ns() + kHeldReadsTimeoutNs});
}

void Ofi::report_events(Receiver& receiver) {
  std::erase_if(losing_, [&](const Losing& of) {
    const auto unfinished = [&](const Get* get) {
      return get->peer == of.connection->peer && get->done != nullptr;
    };
    if (std::any_of(gets_.begin(), gets_.end(), unfinished) && monotonic_ns() < of.deadline) return false;
    abort_gets(*of.connection, of.why);
    return true;
  });
  reporting_.swap(finished_);  // completions may finish further gets
  for (FinishedGet& get : reporting_) get.done->done(*get.done, std::move(get.outcome));
  reporting_.clear();
  if (losses_.empty()) return;
  for (auto& [peer, why] : std::exchange(losses_, {})) receiver.lost(peer, why);
}

}  // namespace weft::transport::ofi
