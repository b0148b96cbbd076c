// SPDX-License-Identifier: BSD-3-Clause
// Executes the phases of an epoch on a window, and compares memory and results with the model.
#pragma once
#include <memory>
#include <mutex>
#include <string>

#include "rma/oracle/plan.hpp"
#include "rma/oracle/window.hpp"

namespace oracle {

/// Operation buffers of one phase, in memory that MPI sees.
class Arena {
 public:
  Arena() : memory_(allocate_memory(kBytes)) {}
  void clear() { used_ = 0; }
  /// Copies the field to the arena, with each byte of the `flipped` elements changed.
  void place(Field& field, const Layout* flipped);
  void write(const Field& field, const std::vector<char>& bytes);
  [[nodiscard]] std::vector<char> read(const Field& field);

 private:
  static constexpr size_t kBytes = size_t{8} << 20, kAlignment = 64;
  std::unique_ptr<Memory> memory_;
  std::mutex mutex_;
  size_t used_ = 0;
};

class Executor {
 public:
  Executor(MPI_Comm comm, Window& window, Windows& model, std::vector<Slot>& slots, int threads,
           std::string round);

  /// Performs an epoch of `phases` phases. Collective; aborts with a description at the first difference.
  void run(Draw& draw, const Rules& rules, int phases, Draw& own);

  /// Returns the number of operations of this rank.
  [[nodiscard]] long operations() const { return operations_; }

 private:
  void open(Epoch epoch, bool first, const Phase& phase, Draw& own);
  void close(Epoch epoch, bool last);
  void run_phase(Draw& draw, const Rules& rules, bool last, Draw& own, bool first);
  void general_active(const Phase& phase, const std::vector<Operation*>& mine, const Rules& rules, Draw& draw,
                      Draw& own);
  void lock_targets(std::vector<Operation*> mine, const Rules& rules, Draw& own);
  void issue_in_threads(const std::vector<Operation*>& operations, const Rules& rules, Draw& own);
  void issue_all(const std::vector<Operation*>& operations, const Rules& rules, Draw own);
  void issue(Operation& o, MPI_Request* request);
  void issue_ineffective(Draw& own);
  void synchronise_one(Operation& o, MPI_Request request, std::vector<Operation*>& pending, Draw& own);
  void link(Operation& o, const Operation* before);
  void flush(int target, bool local, bool all);
  void scribble(Operation& o);
  void compare(Operation& o, Field& field, const char* name);
  void compare_results(Operation& o);
  void compare_window();
  void check_chains(const Phase& phase, const Rules& rules);
  [[nodiscard]] MPI_Group group_of(const std::vector<int>& ranks) const;
  [[noreturn]] void fail(const std::string& text) const;

  MPI_Comm comm_;
  Window& window_;
  MPI_Win win_;
  Windows& model_;
  std::vector<Slot>& slots_;
  int rank_ = 0, size_ = 0, threads_;
  Arena arena_;
  std::string round_, where_;                     ///< for messages
  std::vector<std::unique_ptr<Phase>> executed_;  ///< of this epoch, for messages
  long operations_ = 0;
};

}  // namespace oracle
