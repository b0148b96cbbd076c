// SPDX-License-Identifier: BSD-3-Clause
// Stage: the steps of one round of a collective. Transfers are started as they are added and awaited
// together; copies and reductions are done in their order, so a round begins by consuming what the round
// before it received. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <list>
#include <span>

#include "base/result.hpp"
#include "coll/call.hpp"
#include "device/copy.hpp"
#include "p2p/p2p.hpp"

namespace weft::coll {

/// Ranks among which steps go, by their number there: ranks[i], but `rank` where i is `instead`. Null: the
/// communicator's own.
struct Peers {
  const int* ranks = nullptr;
  int instead = -1, rank = -1;
  [[nodiscard]] int of(int i) const { return ranks == nullptr ? i : i == instead ? rank : ranks[i]; }
};

class Stage {
 public:
  static constexpr int kTransfers = 32;  ///< of one round; more of them are allocated
  static constexpr int kWindow = 16;     ///< peers that a round sends to, or receives from, or both

  explicit Stage(const Call& call) : call_(call), comm_(call.comm) {}
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Over which communicator the steps that follow go: the call's unless told.
  void use(core::Communicator& comm) { comm_ = &comm; }
  /// Among which of its ranks.
  void among(const Peers& peers) { peers_ = peers; }
  // Steps. Receives are best added before sends.
  void send(const p2p::Buffer& buffer, int dest);
  void receive(const p2p::Buffer& buffer, int source);
  /// In host memory it is done on return; in GPU memory it may run beside transfers that were added before.
  /// Later steps see its result.
  void copy(const p2p::Buffer& to, const p2p::Buffer& from);
  /// mine = theirs op mine, on `n` elements of the call's type, in host memory or on_gpu; theirs come from
  /// lower ranks.
  void fold_left(const void* theirs, void* mine, int64_t n);
  /// mine = mine op theirs; theirs come from higher ranks and are overwritten.
  void fold_right(void* theirs, void* mine, int64_t n);
  /// target = inputs[0] op inputs[1] op ..., by a kernel (Call::on_gpu). The target may be one of the inputs.
  void reduce(void* target, std::span<const void* const> inputs, int64_t n);
  /// As the order allows: fold_left() for commutative operations, else fold_right().
  void fold_any(void* theirs, void* mine, int64_t n);

  /// Waits for the kernels and the round's transfers.
  void wait();
  /// True when the round's transfers are complete.
  [[nodiscard]] bool complete();
  /// From now on steps move nothing and touch nothing: what they were to use is not there.
  void give_up(Status why);
  /// The first error of any step so far; the stage starts afresh.
  [[nodiscard]] Status take_outcome();

 private:
  p2p::Transfer* add(core::Request::Kind kind);
  p2p::Transfer* slot(int i);
  void retire(int i);
  void take(p2p::Transfer& transfer);
  void note(Status status);
  void settle();
  [[nodiscard]] bool settled();

  const Call& call_;
  core::Communicator* comm_;
  Peers peers_;
  int started_ = 0;
  int done_ = 0;
  Status outcome_;
  bool given_up_ = false;
  device::Ticket kernel_;  ///< the last kernel, those before end before it; or a copy
  bool copying_ = false;   ///< the ticket is a copy's, which kernels do not follow by themselves
  alignas(p2p::Transfer) std::byte storage_[kTransfers][sizeof(p2p::Transfer)];
  std::list<p2p::Transfer> overflow_;
};

}  // namespace weft::coll
