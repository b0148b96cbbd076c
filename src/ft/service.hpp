// SPDX-License-Identifier: BSD-3-Clause
// Service: fault tolerance of one process: the agreements of its communicators, the spreading of revocations
// and of failures. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/instance.hpp"
#include "ft/agreement.hpp"
#include "ft/messages.hpp"

namespace weft::ft {

/// The members of a communicator, in an order on which all of them agree. Of an intercommunicator: both
/// groups, first the one with the lower first process.
struct Members {
  explicit Members(const core::Communicator& comm);
  [[nodiscard]] int size() const { return static_cast<int>(processes.size()); }
  /// -1: no member.
  [[nodiscard]] int rank_of(core::ProcessId process) const;
  std::vector<core::ProcessId> processes;
  int rank = -1;  ///< of this process
};

class Service final : public core::RetainedState, public core::Poller {
 public:
  /// Gets the decision of an agreement; called once, maybe within a delivery.
  class Client {
   public:
    virtual void decided(const Value& decision, const Members& members) = 0;

   protected:
    ~Client() = default;
  };

  /// Creates the service of a process, before any message arrives.
  static void start(core::Instance& instance);
  [[nodiscard]] static Service& of(core::Instance& instance);

  /// Starts the next agreement of a communicator: collective. `client` must stay in place until it is
  /// notified, which may happen before the call returns. The service fills in the failures that this process
  /// knows of, but for those in `known`, ranks of Members in ascending order.
  void agree(core::Communicator& comm, Value own, const std::vector<uint32_t>& known, Client& client);
  bool poll() override;
  /// Reports the failures that other processes, or decisions, have told of, and handles revocations; outside
  /// of deliveries. Returns whether there were any.
  bool learn();
  [[nodiscard]] bool idle() const override {
    return undecided_ == 0 && revoked_now_.empty() && reported_.empty();
  }

 private:
  struct Entry {
    Entry(Agreement started, Client& waits) : agreement(std::move(started)), client(&waits) {}
    Agreement agreement;
    Client* client;  ///< null: has been notified
  };
  struct EarlyMessage {
    core::ProcessId source;
    uint32_t number;
    Kind kind;
    Value value;
  };
  /// The agreements of a communicator, kept after it is freed: other members may still ask for its decisions.
  struct State {
    explicit State(const core::Communicator& comm) : members(comm) {}
    Members members;
    uint32_t next = 0;                  ///< number of the next agreement
    std::map<uint32_t, Entry> entries;  ///< by number
  };
  struct Outbox;
  struct Revoked {
    core::ContextId context;
    Members members;
  };

  explicit Service(core::Instance& instance);
  void start_polling();
  State& state_of(core::Communicator& comm);
  void on_agreement(core::ProcessId source, const AgreementMessage& message, size_t size);
  void deliver(core::ContextId context, State& state, const EarlyMessage& message);
  void conclude(State& state, uint32_t number);
  void fail(core::ProcessId process);
  void watch_awaited();
  void spread(const Revoked& revoked);
  void tell_others(core::ProcessId failed);
  void tell_of_host(core::ProcessId to, core::ProcessId failed);
  void tell(core::ProcessId to, core::ProcessId failed);
  [[nodiscard]] std::vector<core::ProcessId> reporters() const;

  core::Instance& instance_;
  std::unordered_map<core::ContextId, State> states_;
  std::deque<core::ContextId> order_;  // of states_, oldest first
  std::unordered_map<core::ContextId, std::vector<EarlyMessage>> early_;
  std::deque<Revoked> revoked_;
  std::vector<core::ContextId> revoked_now_;                // received, not handled yet
  std::vector<core::ProcessId> reported_;                   // failures that other processes have reported
  std::unordered_map<core::ProcessId, uint64_t> departed_;  // awaited, have left MPI: since when, in ns
  uint32_t undecided_ = 0;
  uint64_t next_watch_ns_ = 0;
  bool polling_ = false;
  bool told_ = false;  // by another process of the failure that is being reported
};

}  // namespace weft::ft
