// SPDX-License-Identifier: BSD-3-Clause
// Agreements between processes. Revocations and failures: spread.cpp.
#include "ft/service.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/counters.hpp"
#include "base/trace.hpp"
#include "transport/network.hpp"
#include "transport/shm/shm.hpp"

namespace weft::ft {
namespace {

counters::Counter agreements("ft.agreements", counters::Unit::events,
                             "Agreements that this process has taken part in to the end");
counters::Counter revocations("ft.revoked_communicators", counters::Unit::events,
                              "Communicators that were revoked, by this process or another one");
counters::Counter malformed("ft.malformed_messages", counters::Unit::events,
                            "Messages of fault tolerance dropped because their content is invalid");

constexpr size_t kKeptStates = 1024;   // communicators whose decisions are kept
constexpr size_t kMaxEarly = 1 << 16;  // messages about agreements that this process has not begun
constexpr uint64_t kWatchIntervalNs = 1'000'000;
constexpr uint64_t kLastMessagesNs = 20'000'000;  // time to receive what a process sent before it left MPI

/// Of acknowledged failures: equal for equal sets.
uint64_t mark_of(uint32_t rank) {
  uint64_t mixed = (uint64_t{rank} + 1) * 0x9e3779b97f4a7c15ull;
  mixed ^= mixed >> 29;
  return mixed * 0xbf58476d1ce4e5b9ull;
}

}  // namespace

Members::Members(const core::Communicator& comm) : processes(comm.group->processes()) {
  if (comm.inter()) {
    const auto& others = comm.remote_group->processes();
    const bool lower = comm.instance.processes.before(processes.front(), others.front());
    processes.insert(lower ? processes.end() : processes.begin(), others.begin(), others.end());
  }
  rank = rank_of(comm.instance.self);
}

int Members::rank_of(core::ProcessId process) const {
  if (process < processes.size() && processes[process] == process) return static_cast<int>(process);
  const auto at = std::find(processes.begin(), processes.end(), process);
  return at == processes.end() ? -1 : static_cast<int>(at - processes.begin());
}

/// Sends the messages of one agreement.
struct Service::Outbox final : Agreement::Outbox {
  Outbox(Service& owner, core::ContextId of_context, State& of_state, uint32_t of_number)
      : service(owner), context(of_context), state(of_state), number(of_number) {}
  void send(int to, Kind kind, const Value& value) override {
    const AgreementMessage message{MessageId::agreement, kind, 0, number, context, value};
    service.instance_.sender->post(state.members.processes[static_cast<size_t>(to)], &message,
                                   offsetof(AgreementMessage, value) + value.bytes());
  }
  Service& service;
  const core::ContextId context;
  State& state;
  const uint32_t number;
};

void Service::start(core::Instance& instance) { instance.fault_tolerance.reset(new Service(instance)); }
Service& Service::of(core::Instance& instance) { return static_cast<Service&>(*instance.fault_tolerance); }

Service::Service(core::Instance& instance) : instance_(instance) {
  const auto id = [](MessageId message) { return static_cast<transport::am::HandlerId>(message); };
  instance.handlers.add(
      id(MessageId::agreement), AgreementMessage::kMinBytes,
      [](void* self, core::ProcessId source, const std::byte* message, size_t size) {
        static_cast<Service*>(self)->on_agreement(source, *reinterpret_cast<const AgreementMessage*>(message),
                                                  size);
      },
      this);
  instance.handlers.add<RevokeMessage>(
      id(MessageId::revoke), *this, [](Service& self, core::ProcessId, const RevokeMessage& message, size_t) {
        self.revoked_now_.push_back(message.context);
        self.start_polling();
      });
  instance.handlers.add<FailureMessage>(
      id(MessageId::failure), *this,
      [](Service& self, core::ProcessId, const FailureMessage& message, size_t) {
        if (message.process >= self.instance_.size || message.process == self.instance_.self)
          return malformed.add();
        self.reported_.push_back(message.process);
        self.start_polling();
      });
  instance.failures.add([this](core::ProcessId process, const Error&) { fail(process); });
  instance.failures.on_revoked([this](core::Communicator& comm) {
    if (comm.part_of != nullptr) return;
    revocations.add();
    if (revoked_.size() == kKeptStates) revoked_.pop_front();
    spread(revoked_.emplace_back(Revoked{comm.id, Members(comm)}));
  });
}

void Service::start_polling() {
  if (std::exchange(polling_, true)) return;
  instance_.add(*this);
}

Service::State& Service::state_of(core::Communicator& comm) {
  const auto found = states_.find(comm.id);
  if (found != states_.end()) return found->second;
  // The numbers of the agreements of a communicator go on while it exists.
  std::unordered_set<core::ContextId> existing;
  if (order_.size() >= kKeptStates)
    core::Communicator::slab().for_each([&](core::Communicator& other) { existing.insert(other.id); });
  for (size_t tries = order_.size(); order_.size() >= kKeptStates && tries > 0; --tries) {
    const core::ContextId oldest = order_.front();
    order_.pop_front();
    const auto& entries = states_.at(oldest).entries;
    if (!existing.contains(oldest) && std::all_of(entries.begin(), entries.end(), [](const auto& entry) {
          return entry.second.client == nullptr;
        }))
      states_.erase(oldest);
    else
      order_.push_back(oldest);
  }
  order_.push_back(comm.id);
  return states_.emplace(comm.id, State(comm)).first->second;
}

void Service::agree(core::Communicator& comm, Value own, const std::vector<uint32_t>& known, Client& client) {
  State& state = state_of(comm);
  const core::ContextId context = comm.id;
  const uint32_t number = state.next++;
  WEFT_ASSERT(state.entries.empty() || state.entries.rbegin()->first < number);  // F1
  Tree tree(state.members.rank, state.members.size());
  const auto failed = instance_.failures.failed_in(comm);
  own.lowest_mark = 0;
  for (size_t i = 0; i < failed.size(); ++i) {
    const int rank = state.members.rank_of(failed[i]);
    const auto number_of = static_cast<uint32_t>(rank);
    tree.fail(rank);
    if (!std::binary_search(known.begin(), known.end(), number_of)) own.add_failed(number_of);
    if (i < comm.acknowledged_failures) own.lowest_mark += mark_of(number_of);
  }
  own.highest_mark = own.lowest_mark;
  own.unacknowledged = failed.size() > comm.acknowledged_failures ? 1 : 0;
  own.proposer = static_cast<uint32_t>(state.members.rank);
  own.settled = number;
  for (const auto& [earlier, entry] : state.entries)
    if (entry.client != nullptr) {
      own.settled = earlier;
      break;
    }
  Entry& entry = state.entries.emplace(number, Entry(Agreement(std::move(tree), own), client)).first->second;
  ++undecided_;
  start_polling();
  Outbox outbox(*this, context, state, number);
  entry.agreement.start(outbox);
  std::vector<EarlyMessage> messages;
  if (const auto at = early_.find(context); at != early_.end()) {
    std::vector<EarlyMessage> later;
    for (EarlyMessage& message : at->second) (message.number == number ? messages : later).push_back(message);
    if (later.empty())
      early_.erase(at);
    else
      at->second = std::move(later);
  }
  for (const EarlyMessage& message : messages)
    if (!instance_.failures.failed(message.source)) deliver(context, state, message);
  conclude(state, number);
}

void Service::on_agreement(core::ProcessId source, const AgreementMessage& message, size_t size) {
  if (static_cast<uint8_t>(message.kind) > static_cast<uint8_t>(Kind::known) ||
      message.value.failed_count > Value::kMaxFailed ||
      size < offsetof(AgreementMessage, value) + message.value.bytes())
    return malformed.add();
  // After the failure of its sender is known here, a message may say what no survivor has heard of.
  if (instance_.failures.failed(source)) return;
  EarlyMessage copy{source, message.number, message.kind, {}};
  std::memcpy(&copy.value, &message.value, message.value.bytes());
  const auto state = states_.find(message.context);
  if (state == states_.end() || message.number >= state->second.next) {
    auto& waiting = early_[message.context];
    if (waiting.size() == kMaxEarly) return malformed.add();
    return waiting.push_back(copy);
  }
  deliver(message.context, state->second, copy);
  conclude(state->second, message.number);
}

void Service::deliver(core::ContextId context, State& state, const EarlyMessage& message) {
  const auto entry = state.entries.find(message.number);
  if (entry == state.entries.end()) return;  // decided at all ranks: nobody waits
  const int rank = state.members.rank_of(message.source);
  const auto valid = [&](uint32_t failed) { return failed < static_cast<uint32_t>(state.members.size()); };
  const Value& value = message.value;
  if (rank < 0 || !std::all_of(value.failed, value.failed + value.failed_count, valid))
    return malformed.add();
  Outbox outbox(*this, context, state, message.number);
  entry->second.agreement.receive(rank, message.kind, value, outbox);
}

/// Notifies the client of a decided agreement, and forgets the agreements that are decided at all ranks.
void Service::conclude(State& state, uint32_t number) {
  const auto entry = state.entries.find(number);
  if (entry == state.entries.end() || entry->second.client == nullptr || !entry->second.agreement.decided())
    return;
  const trace::Range range("ft.decide");
  Client& client = *std::exchange(entry->second.client, nullptr);
  const Value decision = entry->second.agreement.decision();
  --undecided_;
  agreements.add();
  state.entries.erase(state.entries.begin(), state.entries.lower_bound(std::min(decision.settled, number)));
  for (uint32_t i = 0; i < decision.failed_count; ++i)
    if (const core::ProcessId process = state.members.processes[decision.failed[i]];
        !instance_.failures.failed(process) && process != instance_.self)
      reported_.push_back(process);
  if (!reported_.empty()) start_polling();
  client.decided(decision, state.members);
}

void Service::fail(core::ProcessId process) {
  for (auto& [context, state] : states_) {
    const int rank = state.members.rank_of(process);
    if (rank < 0) continue;
    std::vector<uint32_t> numbers;
    for (auto& [number, entry] : state.entries) numbers.push_back(number);
    for (const uint32_t number : numbers) {
      const auto entry = state.entries.find(number);
      if (entry == state.entries.end()) continue;
      Outbox outbox(*this, context, state, number);
      entry->second.agreement.fail(rank, outbox);
      conclude(state, number);
    }
  }
  for (const Revoked& revoked : revoked_)
    if (revoked.members.rank_of(process) >= 0) spread(revoked);
  if (instance_.failures.failed(process)) tell_others(process);
}

/// Has the network watch the processes that agreements wait for. A process that has left MPI regularly is not
/// going to answer.
void Service::watch_awaited() {
  const uint64_t now = monotonic_ns();
  if (now < next_watch_ns_) return;
  next_watch_ns_ = now + kWatchIntervalNs;
  std::vector<core::ProcessId> gone;
  for (const auto& [context, state] : states_)
    for (const auto& [number, entry] : state.entries)
      entry.agreement.for_each_awaited([&](int rank) {
        const core::ProcessId process = state.members.processes[static_cast<size_t>(rank)];
        if (!instance_.same_host(process)) {
          if (instance_.network != nullptr) instance_.network->watch(process);
        } else if (instance_.shm->departed(process).load(std::memory_order_acquire) != 0) {
          const uint64_t since = departed_.try_emplace(process, now).first->second;
          if (now - since > kLastMessagesNs) gone.push_back(process);
        }
      });
  for (const core::ProcessId process : gone) fail(process);
}

bool Service::learn() {
  const bool any = !revoked_now_.empty() || !reported_.empty();
  for (const core::ContextId context : std::exchange(revoked_now_, {})) instance_.failures.revoke(context);
  told_ = true;
  for (const core::ProcessId process : std::exchange(reported_, {}))
    instance_.failures.report(process, Error(Errc::proc_aborted, "another process has reported its end"));
  told_ = false;
  return any;
}

bool Service::poll() {
  const bool progressed = learn();
  if (undecided_ != 0) watch_awaited();
  if (idle()) {
    polling_ = false;
    instance_.remove(*this);
  }
  return progressed;
}

}  // namespace weft::ft
