// SPDX-License-Identifier: BSD-3-Clause
// Stage: the steps of one round of a collective. Adding a transfer starts it; the end of the round waits for
// all transfers. Copies and reductions run in the order of their calls, so a round first consumes the data
// received in the previous round. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <list>
#include <span>

#include "base/result.hpp"
#include "coll/schedule/call.hpp"
#include "device/copy.hpp"
#include "p2p/p2p.hpp"

namespace weft::coll {

/// Maps the rank i of an algorithm to a rank of the communicator: ranks[i], but `rank` for i == `replaced`.
/// Null `ranks`: the identity.
struct RankMap {
  const int* ranks = nullptr;
  int replaced = -1, rank = -1;
  [[nodiscard]] int rank_of(int i) const { return ranks == nullptr ? i : i == replaced ? rank : ranks[i]; }
};

class Stage {
 public:
  static constexpr int kTransfers = 32;  ///< per round without allocation
  static constexpr int kWindow = 16;     ///< peers of one round, for sends and for receives

  explicit Stage(const Call& call) : call_(call), comm_(call.comm) {}
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Sets the communicator of the following steps; initially the call's.
  void use_communicator(core::Communicator& comm) { comm_ = &comm; }
  /// Sets the ranks of the following steps.
  void use_ranks(const RankMap& ranks) { ranks_ = ranks; }
  // Steps. Add receives before sends, so that messages find posted receives.
  void send(const p2p::Buffer& buffer, int dest);
  void receive(const p2p::Buffer& buffer, int source);
  /// Complete on return in host memory; asynchronous in GPU memory, possibly concurrent with earlier
  /// transfers of the round. Later steps see the result.
  void copy(const p2p::Buffer& to, const p2p::Buffer& from);
  /// mine = theirs op mine, for `n` elements of the call's type in host memory or, with Call::on_gpu, in GPU
  /// memory. `theirs` comes from lower ranks.
  void fold_left(const void* theirs, void* mine, int64_t n);
  /// result = left op right in host memory; `result` is `right`, or overlaps neither operand.
  void combine(const void* left, const void* right, void* result, int64_t n);
  /// target = inputs[0] op inputs[1] op ..., by a kernel (Call::on_gpu). `target` may be one of the inputs.
  void reduce(void* target, std::span<const void* const> inputs, int64_t n);

  /// Waits for the kernels and the round's transfers.
  void wait();
  /// True if the kernels and transfers of the round are complete.
  [[nodiscard]] bool complete();
  /// Records an error. All later steps exchange empty messages and touch no memory.
  void disable(Status why);
  [[nodiscard]] bool disabled() const { return disabled_; }
  /// Returns the first error of all steps so far and resets the stage.
  [[nodiscard]] Status take_outcome();

 private:
  p2p::Transfer* add(core::Request::Kind kind);
  p2p::Transfer* slot(int i);
  void retire(int i);
  void collect(p2p::Transfer& transfer);
  [[nodiscard]] bool gives_up(int dest) const;
  void record_error(Status status);
  void wait_kernel();
  [[nodiscard]] bool kernel_done();

  const Call& call_;
  core::Communicator* comm_;
  RankMap ranks_;
  int started_ = 0;
  int done_ = 0;
  Status outcome_;
  bool disabled_ = false;
  device::Ticket kernel_;        ///< the last kernel (earlier kernels end before it) or copy
  bool ticket_is_copy_ = false;  ///< kernels are not ordered after a copy
  alignas(p2p::Transfer) std::byte storage_[kTransfers][sizeof(p2p::Transfer)];
  std::list<p2p::Transfer> overflow_;
};

}  // namespace weft::coll
