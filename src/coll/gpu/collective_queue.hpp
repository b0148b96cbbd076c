// SPDX-License-Identifier: BSD-3-Clause
// CollectiveQueue: nonblocking and persistent collectives of a communicator that kernels may execute. No rank
// waits in the call: each rank publishes a vote as a descriptor in its slot area until all ranks have read
// it. Rank 0 assigns order slots, in which the kernels run. Threading: under the instance lock.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <vector>

#include "coll/gpu/agreement.hpp"
#include "coll/gpu/deferred.hpp"
#include "coll/gpu/domain.hpp"
#include "coll/gpu/order_slots.hpp"
#include "coll/host/slot_channel.hpp"
#include "coll/schedule/call.hpp"
#include "core/instance.hpp"

namespace weft::coll::gpu {

/// A prepared persistent call: its slot in the slot area of every rank, and its plan.
struct PersistentCall {
  uint32_t slot = 0;
  uint32_t starts = 0;
  bool trivial = false;  ///< no data to move
  Plan plan;
};

class CollectiveQueue final : public core::Poller {
 public:
  CollectiveQueue(core::Communicator& comm, host::SlotChannel& channel, Domain& domain);
  ~CollectiveQueue() override;

  /// Appends the next nonblocking call, in MPI order. `call` must stay in place until `client` is notified.
  void enqueue(const Call& call, DeferredCall& client);
  /// Whether the peers can read the vote of a call. Until then it must not complete, though its messages may
  /// have: the program might leave MPI, and a peer without data could not decide the call.
  [[nodiscard]] bool has_published(const DeferredCall& call) const;
  /// Collective: waits until the path of every nonblocking call so far is decided.
  void decide_all();
  /// Collective: plans a persistent call and reserves its slot; nullopt: messages do it.
  [[nodiscard]] Result<std::optional<PersistentCall>> prepare_persistent(const Call& call);
  void release(const PersistentCall& persistent) { free_slots_ |= 1u << persistent.slot; }
  /// Starts a persistent call, which must stay in place until `client` is notified.
  void start(PersistentCall& persistent, DeferredCall& client);

  /// Unfinished calls that kernels may execute.
  [[nodiscard]] uint32_t busy() const { return busy_; }
  bool poll() override;

 private:
  /// A nonblocking call, until the votes of all ranks have arrived.
  struct PendingCall {
    const Call* call;
    DeferredCall* client;  ///< null: executed by messages
    const DeferredCall* owner;
    device::Memory memory;
    Vote vote;
    size_t size;
  };
  struct QueuedCall : WaitingCall {
    DeferredCall* client = nullptr;
    Plan* plan = nullptr;
    std::optional<Plan> own;  ///< owns the plan of a nonblocking call
  };

  void start_polling();
  [[nodiscard]] bool idle() const { return pending_.empty() && queued_.empty(); }
  bool publish();
  void refresh_vote(PendingCall& entry);
  bool decide();
  bool decide_next(PendingCall& entry);
  [[nodiscard]] std::optional<Agreement> collect(const PendingCall& entry, uint32_t number) const;
  [[nodiscard]] QueuedCall* next_call();
  bool run_next();
  void complete_running(Status outcome);
  void fall_back();
  bool fail_all();
  [[nodiscard]] host::SlotArea& own() const { return channel_.slot_area(comm_.rank()); }

  core::Communicator& comm_;
  host::SlotChannel& channel_;
  Domain& domain_;
  std::deque<PendingCall> pending_;  // from number decided_ + 1
  std::list<QueuedCall> queued_;     // by their starts; a plan stays in place when another call ends
  QueuedCall* running_ = nullptr;
  OrderSlots<host::SlotChannel> order_;
  std::vector<QueuedCall*> unassigned_;  // rank 0: nonblocking calls without an order slot
  // Last call published, decided.
  uint32_t published_ = host::kFirstCall, decided_ = published_;
  uint32_t busy_ = 0;
  uint32_t free_slots_;
  bool registered_ = false;
  bool polling_ = false;
};

}  // namespace weft::coll::gpu
