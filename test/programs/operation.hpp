// SPDX-License-Identifier: BSD-3-Clause
// Operation: one collective or one exchange of messages among the ranks of a communicator. Every word that it
// moves is a function of its salt, so that each rank can compute what it has to receive.
#pragma once
#include <mpi.h>

#include <string>
#include <vector>

#include "programs/memory.hpp"
#include "reference/draw.hpp"

namespace programs {

using randomized::Draw;

/// A communicator with random numbers that its members have in common.
struct Group {
  Group(MPI_Comm of, uint64_t seed);
  MPI_Comm comm;
  int rank = 0, size = 1, operations = 0;
  Draw draw;
};

/// The buffers of one operation at a time.
struct Buffers {
  static constexpr size_t kWords = 400'000;  // of each side
  static constexpr size_t kGuard = 8;        // words around a result, which nobody may write
  Buffers() : out(kWords), in(kWords) {}
  Memory out, in;
};

class Operation {
 public:
  /// Draws what the members of the group have to agree on.
  Operation(Group& group, Buffers& buffers);
  /// Writes the input, and clears the result.
  void load();
  /// Runs the operation, or starts it if it is nonblocking.
  void begin();
  void complete();
  /// Ends the job if a word of the result is wrong.
  void check();

 private:
  enum class What : uint8_t {
    barrier,
    bcast,
    reduce,
    allreduce,
    reduce_scatter_block,
    reduce_scatter,
    gather,
    gatherv,
    scatter,
    scatterv,
    allgather,
    allgatherv,
    alltoall,
    alltoallv,
    scan,
    exscan,  // collectives
    ring,
    all_pairs,
    fan_in,
    burst  // messages
  };
  static constexpr int kWhats = static_cast<int>(What::burst) + 1;
  struct Block {
    size_t first, n;  // words
    int from, to;     // whose value they are: see word()
  };
  void choose_size(Draw& draw);
  void lay_out();
  [[nodiscard]] size_t words(int from, int to) const;
  [[nodiscard]] uint32_t word(int from, int to, size_t i) const;
  [[nodiscard]] uint32_t expected(const Block& block, size_t i) const;
  [[nodiscard]] bool root() const { return group_.rank == root_; }
  void call();
  void exchange_messages();
  [[nodiscard]] void* out(size_t block) { return buffers_.out.address(out_[block].first); }
  [[nodiscard]] void* in(size_t block) { return buffers_.in.address(in_[block].first); }
  void counts_and_places(const std::vector<Block>& blocks, std::vector<int>& counts,
                         std::vector<int>& places) const;
  [[nodiscard]] std::string text() const;

  Group& group_;
  Buffers& buffers_;
  What what_;
  bool nonblocking_ = false, in_place_ = false;
  int root_ = 0, messages_ = 1, tag_ = 0;
  size_t n_ = 0;
  uint64_t salt_ = 0;
  std::vector<Block> out_, in_;
  std::vector<int> out_counts_, out_places_, in_counts_, in_places_;
  std::vector<MPI_Request> requests_;
};

/// Words compared in this process.
extern uint64_t compared;

}  // namespace programs
