// SPDX-License-Identifier: BSD-3-Clause
// Operation: one random collective of ints whose buffers lie in GPU or host memory, in any of the four forms:
// blocking, nonblocking, persistent, enqueued. The inputs of all ranks follow from the seed, and so does the
// result.
#pragma once
#include <mpi.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/cuda_test_support.hpp"
#include "reference/draw.hpp"

namespace sequences {

using randomized::Draw;
using weft::test::Buffer;

inline int world_rank = 0, device = 0;

/// A communicator of a sequence.
struct Team {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
  bool enqueues = false;  ///< it has a GPU stream
};

/// The buffers of one operation at a time: allocated once, since sequences are short.
class Slot {
 public:
  static constexpr size_t kInts = 40000;
  static constexpr size_t kGuard = 16;  ///< ints behind a result, which nobody may write
  enum Side { send, receive };
  [[nodiscard]] Buffer& buffer(Side side, bool on_device) {
    return *buffers_[static_cast<size_t>(side) * 2 + (on_device ? 1 : 0)];
  }
  Slot();

 private:
  std::array<std::unique_ptr<Buffer>, 4> buffers_;
};

enum class Form { blocking, nonblocking, persistent, enqueued };

class Operation {
 public:
  /// Draws what all ranks have to agree on.
  Operation(const Team& team, Slot& slot, Draw& draw, Form form);
  [[nodiscard]] Form form() const { return form_; }
  [[nodiscard]] const Team& team() const { return *team_; }
  /// Writes new input and clears the result.
  void load();
  /// Runs a blocking operation, starts a nonblocking operation, makes a persistent request or enqueues.
  void begin();
  /// Starts an idle persistent operation.
  void start();
  /// True between the start and the completion that MPI reports.
  [[nodiscard]] bool pending() const { return pending_; }
  /// Persistent, made and not started.
  [[nodiscard]] bool idle() const {
    return form_ == Form::persistent && request_ != MPI_REQUEST_NULL && !pending_;
  }
  [[nodiscard]] bool ran() const { return ran_; }
  [[nodiscard]] MPI_Request request() const { return request_; }
  void completed(MPI_Request request) {
    request_ = request;
    pending_ = false;
  }
  /// Compares the result of the last run; ends the job where it is wrong.
  void check();
  void free();
  /// One line for whoever looks for a hang.
  [[nodiscard]] const char* text() const { return text_; }

 private:
  enum What {
    allreduce,
    bcast,
    allgather,
    alltoall,
    reduce_scatter_block,  // these can be enqueued
    reduce,
    gather,
    scatter,
    scan,
    allgatherv,
    alltoallv,
    kWhats
  };
  using Ints = std::vector<int>;
  void choose(Draw& draw);
  [[nodiscard]] bool root() const { return team_->rank == root_; }
  [[nodiscard]] bool sends() const;
  [[nodiscard]] bool receives() const;
  [[nodiscard]] bool in_place() const;
  [[nodiscard]] size_t count(int from, int to) const;
  [[nodiscard]] int input(int rank, size_t i) const;
  [[nodiscard]] int folded(size_t i, int ranks) const;
  [[nodiscard]] Ints whole_input(int rank) const;
  [[nodiscard]] Ints result() const;
  [[nodiscard]] size_t input_offset() const;
  void lay_out();
  void call();
  int enqueue();
  int run();
  template <class Blocking, class Nonblocking, class Persistent, class... Arguments>
  int by_form(Blocking blocking, Nonblocking nonblocking, Persistent persistent, Arguments... arguments);

  const Team* team_;
  Slot* slot_;
  Form form_;
  What what_ = allreduce;
  MPI_Op op_ = MPI_SUM;
  int root_ = 0;
  size_t n_ = 0;
  bool in_place_ = false, send_on_device_ = true, receive_on_device_ = true;
  int salt_ = 0;
  std::vector<int> out_counts_, out_places_, in_counts_, in_places_;  // of the v-forms
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool pending_ = false, ran_ = false;
  char text_[120];
};

}  // namespace sequences
