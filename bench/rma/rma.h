// SPDX-License-Identifier: BSD-3-Clause
// The one-sided benchmarks: a table of operations, MPI windows of each kind, epochs of each synchronisation.
// Rank 0 is the origin and rank 1 the target; with pscw and fence, latencies alternate between both ranks.
#ifndef BENCH_RMA_RMA_H
#define BENCH_RMA_RMA_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/harness.h"

/// The MPI window of one size; its memory lies in the receive buffer unless MPI allocates it.
struct rma_window {
  MPI_Win win;
  MPI_Aint target;             ///< displacement of the first byte in the peer's window
  struct bench_buffer memory;  ///< this rank's part
  size_t slots;                ///< operations with memory of their own
  size_t slot;                 ///< distance between two slots in bytes
  MPI_Group peer;              ///< for MPI_Win_post and MPI_Win_start
};

struct rma_operation {
  const char* name;  ///< put_latency
  const char* title;
  /// Starts the operation with the peer. `at`: offset of the slot.
  void (*start)(const struct bench_run* run, const struct rma_window* window, size_t at);
  bool (*validate)(struct bench_run* run, size_t size, long iteration);
  bool bandwidth;  ///< windows of operations; else one at a time
  bool both_ways;  ///< both ranks are origins at the same time
  bool word;       ///< an atomic operation on 8 bytes
  bool reduces;    ///< sums of the elements selected by -T
};

extern const struct rma_operation* rma_chosen;

/// Sets rma_chosen. Returns false if there is no operation of this name.
bool rma_choose(const char* name);
void rma_print_names(void);

void rma_window_create(const struct bench_run* run, struct rma_window* window);
void rma_window_destroy(struct rma_window* window);
size_t rma_capacity(const struct bench_run* run, size_t size);

/// Offset of the result and of the compared value in the send buffer, in bytes.
size_t rma_result(const struct rma_window* window);
size_t rma_compared(const struct rma_window* window);

/// Performs untimed and timed iterations. Returns the seconds of the timed ones.
double rma_iterate(struct bench_run* run, const struct rma_window* window, long iterations, long warmup);

/// Returns the number of operations of one iteration, those of the peer included.
int rma_operations(const struct bench_run* run);

/// Returns whether a rank issues operations.
bool rma_is_origin(const struct bench_run* run, int rank);

bool rma_validate_put(struct bench_run* run, size_t size, long iteration);
bool rma_validate_get(struct bench_run* run, size_t size, long iteration);
bool rma_validate_sum(struct bench_run* run, size_t size, long iteration);

#endif
