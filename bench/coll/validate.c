// SPDX-License-Identifier: BSD-3-Clause
// Validation: compares every byte that a collective delivers.
#define _POSIX_C_SOURCE 200112L
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "coll/collective.h"

enum { CHAR_RANKS = SCHAR_MAX };  // largest number of ranks whose sum of ones fits

// Small integers: their sum is exact in a float up to 65536 ranks, and in a char for any number of ranks.
static int element(const struct bench_run* run, int rank, size_t index, long iteration) {
  const size_t mixed = index * 13 + (size_t)rank * 7 + (size_t)iteration * 5;
  if (run->type != BENCH_CHAR) return (int)(mixed % 251);
  if (rank >= CHAR_RANKS) return 0;
  return (int)(mixed % (size_t)(SCHAR_MAX / (run->ranks < CHAR_RANKS ? run->ranks : CHAR_RANKS) + 1));
}

static double get(const struct bench_run* run, const void* values, size_t at) {
  if (run->type == BENCH_INT) return ((const int*)values)[at];
  return run->type == BENCH_FLOAT ? (double)((const float*)values)[at] : ((const signed char*)values)[at];
}

static void put(const struct bench_run* run, void* values, size_t at, int value) {
  if (run->type == BENCH_INT) {
    ((int*)values)[at] = value;
  } else if (run->type == BENCH_FLOAT) {
    ((float*)values)[at] = (float)value;
  } else {
    ((signed char*)values)[at] = (signed char)value;
  }
}

static bool check_sums(const struct bench_run* run, const void* got, size_t first, size_t count,
                       long iteration) {
  for (size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int rank = 0; rank < run->ranks; ++rank) sum += element(run, rank, first + i, iteration);
    if (get(run, got, i) == sum) continue;
    fprintf(stderr, "rank %d: sum of %zu %s: element %zu is %g instead of %g\n", run->rank, count,
            bench_datatype_name(run), i, get(run, got, i), sum);
    return false;
  }
  return true;
}

/// The elements of the sum that arrive here: all, a block of `size` bytes, or a share of a vector of that
/// size.
static size_t arriving(const struct bench_run* run, size_t size, size_t* first) {
  const struct collective* c = coll_chosen.collective;
  const size_t own = size / bench_type_bytes(run->type);
  *first = 0;
  if (c->blocks_in) *first = (size_t)run->rank * own;
  const bool shares = c->name[0] == 'r' && !c->blocks_in && !c->root_out;  // reduce_scatter
  return shares ? coll_portion(run, size, run->rank, first) : own;
}

bool coll_validate_sums(struct bench_run* run, size_t size, long iteration) {
  const size_t ranks = coll_chosen.collective->blocks_in ? (size_t)run->ranks : 1, bytes = ranks * size;
  const size_t width = bench_type_bytes(run->type), count = bytes / width;
  const int root = coll_root(run, iteration);
  size_t first, own = arriving(run, size, &first), own_bytes = own * width;
  void* values = malloc(bytes);
  if (!values) MPI_Abort(bench_comm, 3);
  for (size_t i = 0; i < count; ++i) put(run, values, i, element(run, run->rank, i, iteration));
  const bool in_place = coll_in_place(run, root);
  bench_buffer_poison(&run->receive, 0, own_bytes, bench_seed(-1, run->rank, size, iteration, 0));
  bench_buffer_write(in_place ? &run->receive : &run->send, 0, values, bytes);
  const size_t end = in_place ? bytes : own_bytes;  // input behind the result may be overwritten
  bench_buffer_guard(&run->receive, end);
  coll_prepare(run, size);
  MPI_Barrier(bench_comm);
  coll_once(run, root);
  bench_buffer_read(&run->receive, 0, values, own_bytes);
  bool good = true;
  if (!coll_chosen.collective->root_out || run->rank == root)
    good = check_sums(run, values, first, own, iteration) && bench_buffer_check_guard(&run->receive, end);
  free(values);
  return good;
}

/// Seed of the block from one rank to another.
static uint64_t block_seed(int from, int to, size_t size, long iteration) {
  return bench_seed(from, coll_chosen.collective->blocks_in ? to : 0, size, iteration, 0);
}

/// Seed of the data that arrive in a block; without blocks they are the root's.
static uint64_t arriving_seed(const struct bench_run* run, int block, size_t size, int root, long iteration) {
  const int from = coll_chosen.collective->blocks_out ? coll_peers(run)->from[block] : root;
  return block_seed(from, run->rank, size, iteration);
}

/// Prepares a block of the receive buffer: poison, or in-place input.
static void prepare_block(struct bench_run* run, int block, size_t size, int root, long iteration) {
  const struct collective* c = coll_chosen.collective;
  const struct coll_peers* peers = coll_peers(run);
  const uint64_t incoming = arriving_seed(run, block, size, root, iteration);
  const size_t offset = (size_t)block * run->message.extent;
  const bool input = coll_in_place(run, root) && !c->root_in;
  if (input && c->blocks_in) {
    bench_message_stage(run, &run->receive, offset, block_seed(run->rank, peers->to[block], size, iteration),
                        incoming);
  } else if (input && peers->from[block] == run->rank) {
    bench_message_stage(run, &run->receive, offset, incoming, incoming);
  } else {
    bench_message_poison(run, &run->receive, offset, incoming);
  }
}

bool coll_validate_blocks(struct bench_run* run, size_t size, long iteration) {
  const struct collective* c = coll_chosen.collective;
  const struct coll_peers* peers = coll_peers(run);
  const int self = run->rank, root = coll_root(run, iteration);
  const int out = c->blocks_in ? peers->destinations : 1, in = c->blocks_out ? peers->sources : 1;
  const size_t extent = run->message.extent, all = (size_t)in * extent;
  const bool sends = c->root_in ? self == root : !coll_in_place(run, root);
  for (int i = 0; sends && i < out; ++i)
    bench_message_fill(run, &run->send, (size_t)i * extent, block_seed(self, peers->to[i], size, iteration));
  for (int i = 0; i < in; ++i) prepare_block(run, i, size, root, iteration);
  bench_buffer_guard(&run->receive, all);
  coll_prepare(run, size);
  MPI_Barrier(bench_comm);
  coll_once(run, root);
  if ((c->root_out && self != root) || (c->root_in && coll_in_place(run, root))) return true;
  bool good = true;
  for (int i = 0; good && i < in; ++i)
    good = bench_message_check(run, &run->receive, (size_t)i * extent,
                               arriving_seed(run, i, size, root, iteration));
  return good && bench_buffer_check_guard(&run->receive, all);
}

bool coll_validate_bcast(struct bench_run* run, size_t size, long iteration) {
  const int root = coll_root(run, iteration);
  const uint64_t seed = bench_seed(root, 0, size, iteration, 0);
  if (run->rank == root) {
    bench_message_fill(run, &run->receive, 0, seed);
  } else {
    bench_message_poison(run, &run->receive, 0, seed);
  }
  bench_buffer_guard(&run->receive, run->message.extent);
  MPI_Barrier(bench_comm);
  coll_once(run, root);
  const bool good = run->rank == root ? bench_buffer_check(&run->receive, 0, run->message.extent, seed)
                                      : bench_message_check(run, &run->receive, 0, seed);
  return good && bench_buffer_check_guard(&run->receive, run->message.extent);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/// No rank leaves a barrier before the last one has entered; checked with the clock shared by the processes
/// of one host.
bool coll_validate_barrier(struct bench_run* run, size_t size, long iteration) {
  (void)size;
  const struct timespec time = {0, (run->rank * 7 + iteration) % 5 * 200000};
  double came, left, last = 0, first = 0;
  MPI_Comm host;
  int near = 0;
  MPI_Comm_split_type(bench_comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &near);
  MPI_Comm_free(&host);
  nanosleep(&time, NULL);
  came = now();
  coll_once(run, 0);
  left = now();
  MPI_Allreduce(&came, &last, 1, MPI_DOUBLE, MPI_MAX, bench_comm);
  MPI_Allreduce(&left, &first, 1, MPI_DOUBLE, MPI_MIN, bench_comm);
  return near != run->ranks || first >= last;
}
