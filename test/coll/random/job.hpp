// SPDX-License-Identifier: BSD-3-Clause
// Job: one random collective on a team: its buffers, the call, and the expected result. Every process
// computes the result locally, since the inputs of all processes are defined by reference/coll.hpp.
#pragma once
#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

#include "coll/random/team.hpp"
#include "coll/test_memory.hpp"
#include "reference/coll.hpp"
#include "reference/draw.hpp"

namespace randomized {

/// Counts or displacements for the int and the MPI_Count variant of a call.
class CountArray {
 public:
  void add(int64_t n) {
    small_.push_back(static_cast<int>(n));
    large_.push_back(n);
  }
  [[nodiscard]] int64_t operator[](size_t i) const { return large_[i]; }
  struct View {
    const CountArray* numbers;
    operator const int*() const { return numbers->small_.data(); }  // NOLINT(google-explicit-constructor)
    operator const MPI_Count*() const {
      return numbers->large_.data();
    }  // NOLINT(google-explicit-constructor)
  };
  [[nodiscard]] View view() const { return {this}; }

 private:
  std::vector<int> small_;
  std::vector<MPI_Count> large_;
};

/// Send or receive side of a call: blocks in a buffer, each filled with the input of its owner.
struct Side {
  struct Block {
    int64_t words;
    int owner;  ///< rank in MPI_COMM_WORLD, or kNobody
    int number;
  };
  static constexpr int kNobody = -1;
  reference::Layout layout = reference::kWord;
  reference::Field field{reference::kWord, 0};
  std::vector<Block> blocks;
  uint32_t salt = 0;                   ///< differs by run, so that data of another run are wrong
  bool as_float = false;               ///< words are integers of MPI_FLOAT whose sums are exact
  CountArray counts, displacements;    ///< in elements
  CountArray mixed_counts, addresses;  ///< w-variants: in elements of `types`, and in bytes
  std::vector<MPI_Datatype> types;
  bool significant = false;

  /// Lays out the blocks contiguously, or in reverse order with gaps.
  void lay_out(reference::Layout with, std::vector<Block> of, bool scattered);
  void fill(reference::Field& into, size_t block) const;
  void fill(reference::Field& into) const;
  /// Word k of the input of a process.
  [[nodiscard]] uint32_t word(int owner, int number, int64_t k) const;
  [[nodiscard]] void* address() { return significant ? expect::buffer_for(field) : nullptr; }
  // Invalid values where MPI ignores the argument.
  [[nodiscard]] int count() const {
    return !significant ? -1 : blocks.empty() ? 0 : static_cast<int>(counts[0]);
  }
  [[nodiscard]] MPI_Datatype type() const;
};

/// Sizes of a block in pairs of words, drawn with equal chances.
inline constexpr std::initializer_list<int64_t> kUsualSizes = {0, 1, 1, 3, 17, 100, 1023, 6000, 40000};

class Job {
 public:
  /// Draws the parameters on which all members agree. The team must outlive the job.
  Job(const Team& team, Draw& draw, std::initializer_list<int64_t> sizes = kUsualSizes);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  /// Fills the buffers and computes the expected result.
  void load();
  /// Starts the call, or runs it if it is blocking.
  void begin();
  /// Waits for completion; processes may complete jobs in different orders.
  void complete();
  /// For callers that complete the request themselves: MPI_REQUEST_NULL after a blocking call.
  [[nodiscard]] MPI_Request& request() { return request_; }
  void compare();
  [[nodiscard]] bool persistent() const { return form_ == Form::persistent; }
  [[nodiscard]] bool blocking() const { return form_ == Form::blocking; }
  /// Starts a persistent call again.
  void restart();
  void free();
  /// Form, name and parameters in words.
  [[nodiscard]] std::string text() const;

 private:
  enum class Form { blocking, nonblocking, persistent };
  void describe() const;

  void choose(Draw& draw);
  void choose_root(Draw& draw);
  void barrier();
  void bcast();
  void gather(bool v);
  void scatter(bool v);
  void allgather(bool v);
  void alltoall(int kind);
  void neighbor_allgather(bool v);
  void neighbor_alltoall(int kind);
  void reduction(int64_t elements, int64_t results, int64_t first, std::vector<int> over);
  void allreduce();
  void reduce();
  void reduce_scatter(bool v);
  void scan(bool inclusive);

  /// Words of the block from one process to another; uneven in v-variants.
  [[nodiscard]] int64_t words(int from, int to, bool v) const;
  /// The layout of one side in this process.
  [[nodiscard]] reference::Layout layout(int side) const;
  /// The index, at the sender, of the edge to this process's i-th source.
  [[nodiscard]] int edge(size_t i) const;
  /// Sets the expected result: all blocks of recv_.
  void receive_blocks();
  /// Word k of the reduction of the inputs of `over`, in order.
  [[nodiscard]] uint32_t reduced(const std::vector<int>& over, int64_t k) const;
  [[nodiscard]] MPI_Op op() const;

  template <class B, class N, class P, class BC, class NC, class PC, class... A>
  void bind(const char* name, B blocking, N nonblocking, P persistent, BC blocking_c, NC nonblocking_c,
            PC persistent_c, A... arguments);

  const Team& team_;
  std::string name_;
  const int me_;
  Form form_;
  bool large_, in_place_, plain_;  // plain: all blocks are words, as most kernels want them
  bool symmetric_ = false;         // equal counts from a to b and from b to a
  int64_t n_;                      // pairs of words
  uint32_t runs_ = 0;
  uint64_t drawn_;  // seed of values that differ by process
  int operation_;   // 0 sum, 1 maximum, 2 exclusive or, 3 composition, 4 sum of floats
  int root_ = 0;    // as passed by this process
  int root_process_ = 0;
  bool at_root_ = false, at_leaf_ = true;

  Side send_, recv_;
  CountArray shares_;                                        // of reduce_scatter
  std::function<void(reference::Field&)> preload_, result_;  // of recv_
  reference::Field expected_{reference::kWord, 0};
  std::function<int()> start_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace randomized
