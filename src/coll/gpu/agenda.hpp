// SPDX-License-Identifier: BSD-3-Clause
// Agenda: the nonblocking and persistent collectives of a communicator that kernels may do. Nobody waits in
// them, so what ranks say of a call stays in their lanes until all have come by. Calls that go by kernels
// take turns, in an order that the first rank gives. Threading: under the instance lock.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <vector>

#include "coll/call.hpp"
#include "coll/deferred.hpp"
#include "coll/gpu/agreement.hpp"
#include "coll/gpu/domain.hpp"
#include "coll/shared/channel.hpp"
#include "core/instance.hpp"

namespace weft::coll::gpu {

/// A persistent call as it was resolved when it was made: a place in every rank's lane, and the plan.
struct Resolved {
  uint32_t place = 0;
  uint32_t starts = 0;
  bool trivial = false;  ///< it moves nothing
  Plan plan;
};

class Agenda final : public core::Poller {
 public:
  Agenda(core::Communicator& comm, shared::Channel& channel, Domain& domain);
  ~Agenda() override;

  /// The next nonblocking call in MPI's order. `call` stays where it is until `client` has been told.
  void add(const Call& call, Deferred& client);
  /// Collective: resolves a persistent call; nullopt: messages do it.
  [[nodiscard]] Result<std::optional<Resolved>> resolve(const Call& call);
  void release(const Resolved& resolved) { places_ |= 1u << resolved.place; }
  /// Starts it. It stays where it is until `client` has been told.
  void start(Resolved& resolved, Deferred& client);

  /// Collective: waits until the path of every nonblocking call so far is decided.
  void decide_all();
  /// Calls under way that kernels may do.
  [[nodiscard]] uint32_t busy() const { return busy_; }
  bool poll() override;

 private:
  /// A nonblocking call, until all ranks have said what they have to.
  struct Entry {
    const Call* call;
    Deferred* client;  ///< null: messages do it already
    device::Memory memory;
    Statement statement;
    size_t size;
  };
  /// A call whose turn will come.
  struct Turn {
    uint32_t key;
    Deferred* client;
    Plan* plan;
    std::optional<Plan> own;  ///< of a nonblocking call: where the plan is
    uint32_t starts = 0;      ///< of a persistent call: waits for all ranks to be so far
    uint32_t sole = 0;        ///< nothing else was under way when it was started: the next turn; or 0
  };

  void watch();
  [[nodiscard]] bool idle() const { return entries_.empty() && turns_.empty(); }
  bool post();
  void state_again(Entry& entry);
  bool decide();
  bool decide_next(Entry& entry);
  [[nodiscard]] std::optional<Agreement> hear(const Entry& entry, uint32_t number) const;
  bool give_turns();
  bool give_turn(uint32_t key);
  [[nodiscard]] bool sole_of_all(const Turn& turn) const;
  bool pass_sole();
  [[nodiscard]] Turn* next_turn();
  bool take_turn();
  void end_turn(Status outcome);
  void give_up();
  [[nodiscard]] uint32_t least(std::atomic<uint32_t> transport::shm::Lane::*word) const;
  [[nodiscard]] transport::shm::Lane& own() const { return channel_.lane(comm_.rank()); }

  core::Communicator& comm_;
  shared::Channel& channel_;
  Domain& domain_;
  std::deque<Entry> entries_;  // number decided_ + 1 and further
  std::list<Turn> turns_;      // by their starts; a plan stays where it is when another call ends
  Turn* running_ = nullptr;
  std::vector<uint32_t> unordered_;  // the first rank: keys of nonblocking calls that have no turn yet
  uint32_t posted_ = 0, decided_ = 0;
  uint32_t given_ = 0, over_ = 0;  // turns
  uint32_t busy_ = 0;
  uint32_t places_;
  bool watched_ = false;
  bool polling_ = false;
};

}  // namespace weft::coll::gpu
