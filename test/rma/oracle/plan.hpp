// SPDX-License-Identifier: BSD-3-Clause
// The plan of one phase of an epoch: the operations of all ranks, and the serial model that they lead to. All
// ranks draw the same plan.
//
// The windows are divided into slots of one element type. A phase gives each slot a mode in which the outcome
// does not depend on the order between ranks, or in which a chain of values shows a serial order:
//   put      one put by one rank
//   get      gets and fetches with MPI_NO_OP by any rank
//   single   accumulates, fetches and swaps by one rank, ordered by accumulate_ordering
//   many     accumulates of one commutative operation by any rank
//   chain    atomic operations on one integer by any rank: each value replaces exactly one earlier value
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rma/oracle/layout.hpp"

namespace oracle {

enum class Verb { put, get, accumulate, get_accumulate, fetch_and_op, compare_and_swap, modify };
enum class Epoch { fence, pscw, exclusive, shared, all };

/// A buffer of an operation: the expected content, and the memory that MPI sees. Guards surround the content.
struct Field {
  static constexpr size_t kGuard = 48;
  std::vector<char> image;
  std::vector<bool> undefined;  ///< bytes that the model does not determine
  size_t arena_at = 0;
  char* content = nullptr;  ///< in the memory that MPI sees
  void create(Draw& draw, size_t bytes);
  [[nodiscard]] char* expected() { return image.data() + kGuard; }
  void forget(size_t at, size_t bytes);
};

struct Slot {
  int target;
  size_t at;     ///< bytes from the window's base
  int elements;  ///< capacity
  const Element *element, *other_form;
};

struct Operation {
  Operation(Verb wanted, int from, const Slot& where, int slot_index, Layout target, Layout buffer);
  Verb verb;
  int origin, target, slot;
  size_t displacement;  ///< bytes
  Layout at_target, at_buffer;
  Field data, result, compared;
  MPI_Op op = MPI_NO_OP;
  bool by_request = false;
  bool determined = true;  ///< the model knows the result
  int chain = -1;
  long long compare_value = 0, token = 0;  ///< of chains
  [[nodiscard]] bool fetches() const;
  [[nodiscard]] bool updates() const { return verb != Verb::get; }
  [[nodiscard]] std::string text() const;
};

enum class Link { sum, replace, swap };

struct Chain {
  int slot;
  Link link;
  long long initial;
  int next_token;
};

/// The state of all windows by the model.
struct Windows {
  std::vector<size_t> bytes;
  std::vector<std::vector<char>> model;
  std::vector<std::vector<bool>> undefined;
};

struct Rules {
  int ranks;
  Epoch epoch;
  bool ordered;     ///< accumulate_ordering has its default
  bool mixes;       ///< one origin may use several operations on one element
  bool uses_no_op;  ///< MPI_NO_OP beside another operation
};

class Phase {
 public:
  Phase(Draw& draw, const Rules& rules, Windows& windows, std::vector<Slot>& slots, bool last);

  /// The operations of a rank; operations on one slot are in the order of the model.
  [[nodiscard]] std::vector<Operation*> of(Draw& draw, int origin) const;
  [[nodiscard]] const std::vector<std::unique_ptr<Operation>>& all() const { return operations_; }
  [[nodiscard]] const std::vector<Chain>& chains() const { return chains_; }
  [[nodiscard]] bool accesses(int origin, int target) const;
  [[nodiscard]] bool updates(int target) const;

 private:
  Operation& add(Draw& draw, Verb verb, int origin, int slot, bool one);
  void finish(Draw& draw, Operation& operation, int values);
  void put(Draw& draw, int slot);
  void get(Draw& draw, int slot);
  void single(Draw& draw, int slot);
  void many(Draw& draw, int slot);
  void chain(Draw& draw, int slot);
  void apply(Operation& operation);

  const Rules& rules_;
  Windows& windows_;
  std::vector<Slot>& slots_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<Chain> chains_;
};

/// Divides the windows into slots and fills these with values.
std::vector<Slot> draw_slots(Draw& draw, Windows& windows);

/// Follows a chain. `ordered`: the results of one rank are in the order of its operations. `outcomes`:
/// (compared value, result) of each operation of the phase. Returns false and sets `problem` if there is no
/// serial order; else stores the final value in the model.
bool check_chain(const Phase& phase, int chain, const std::vector<long long>& outcomes,
                 const std::vector<Slot>& slots, Windows& windows, long long final_value, bool ordered,
                 std::string& problem);

}  // namespace oracle
