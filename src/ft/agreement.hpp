// SPDX-License-Identifier: BSD-3-Clause
// Agreement: one decision of a set of ranks, of which any may fail at any time. Messages up a tree gather the
// values, messages down it spread the decision: docs/adr/0033. Early returning: a rank is done as soon as it
// has the decision, and answers later questions of ranks whose parent has failed. Knows nothing of MPI.
// Threading: calls are serialised by the caller.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ft/tree.hpp"

namespace weft::ft {

/// The contribution of a rank, and the decision: all fields are combined over the ranks. Part of a message.
struct Value {
  static constexpr uint32_t kMaxFailed = 72;  ///< failed ranks of one agreement; more need further ones

  int32_t flags = -1;            ///< bitwise and
  uint32_t unacknowledged = 0;   ///< or: a rank has noticed a failure that it has not acknowledged
  uint64_t lowest_mark = ~0ull;  ///< of the acknowledged failures of each rank: minimum ...
  uint64_t highest_mark = 0;  ///< ... and maximum; they differ if the ranks acknowledged different failures
  uint64_t context = 0;       ///< of the lowest rank that contributes
  uint32_t proposer = UINT32_MAX;  ///< that rank
  uint32_t settled = UINT32_MAX;   ///< minimum: the agreements with lower numbers are decided at all ranks
  uint32_t more_failed = 0;        ///< or: `failed` has not all
  uint32_t failed_count = 0;
  uint32_t failed[kMaxFailed] = {};  ///< union, ascending: the lowest ones

  void combine(const Value& other);
  void add_failed(uint32_t rank);
  /// Bytes that a message carries.
  [[nodiscard]] size_t bytes() const { return offsetof(Value, failed) + failed_count * sizeof failed[0]; }
  [[nodiscard]] bool same_acknowledged() const { return unacknowledged == 0 && lowest_mark == highest_mark; }
  bool operator==(const Value& other) const;
};

/// contribution: values of a subtree, to its parent. decision: to the ranks that have contributed. known: the
/// decision, to a new parent after a failure.
enum class Kind : uint8_t { contribution, decision, known };

class Agreement {
 public:
  /// Takes the messages that the calls below send.
  class Outbox {
   public:
    virtual void send(int to, Kind kind, const Value& value) = 0;

   protected:
    ~Outbox() = default;
  };

  /// `tree`: what is known of failures already. `own`: the value of this rank.
  Agreement(Tree tree, const Value& own) : tree_(std::move(tree)), value_(own) {
    reported_.resize(static_cast<size_t>(tree_.size()));
  }
  /// Sends the first messages.
  void start(Outbox& outbox) { advance(outbox); }
  /// A message of a rank that is not known to have failed.
  void receive(int from, Kind kind, const Value& value, Outbox& outbox);
  /// A rank has failed: later messages of it are not delivered.
  void fail(int rank, Outbox& outbox);

  [[nodiscard]] bool decided() const { return decided_; }
  [[nodiscard]] const Value& decision() const { return value_; }
  [[nodiscard]] const Tree& tree() const { return tree_; }
  /// The rest of the state, for the model test.
  [[nodiscard]] std::string summary() const {
    return std::string(reported_.begin(), reported_.end()) + (decided_ ? 'd' : 'u') +
           static_cast<char>(sent_to_);
  }
  /// Calls visit(rank) for each rank whose message is awaited.
  template <class Visit>
  void for_each_awaited(Visit&& visit) const {
    if (decided_) return;
    for_each_missing(visit);
    if (sent_to_ >= 0 && !tree_.failed(sent_to_)) visit(sent_to_);
  }

 private:
  [[nodiscard]] bool reported(int rank) const { return reported_[static_cast<size_t>(rank)] != 0; }
  template <class Visit>
  void for_each_missing(Visit&& visit) const {
    tree_.for_each_child(
        [&](int child) {
          if (!reported(child)) visit(child);
        },
        [&](int child) { return reported(child); });
  }
  void advance(Outbox& outbox);
  void decide(const Value& value, Outbox& outbox);

  Tree tree_;
  Value value_;                    // of all ranks that have reported, then the decision
  std::vector<uint8_t> reported_;  // ranks whose contribution is in value_
  int sent_to_ = -1;               // to which value_ was sent
  bool decided_ = false;
};

}  // namespace weft::ft
