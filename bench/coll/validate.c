// SPDX-License-Identifier: BSD-3-Clause
// Every byte that a collective delivers is compared.
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "coll/collective.h"

// Small whole numbers: their sum over up to 65536 ranks is exact in a float, in any order.
static float element(int rank, size_t index, long iteration) {
  return (float)((index * 13 + (size_t)rank * 7 + (size_t)iteration * 5) % 251);
}

static bool check_sums(const struct bench_run* run, const float* got, size_t first, size_t count,
                       long iteration) {
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int rank = 0; rank < run->ranks; ++rank) sum += element(rank, first + i, iteration);
    if (got[i] == sum) continue;
    fprintf(stderr, "rank %d: sum of %zu floats: element %zu is %g instead of %g\n", run->rank, count, i,
            (double)got[i], (double)sum);
    return false;
  }
  return true;
}

/// Which elements of the sum arrive here: all, a block of `size` bytes, or a share of a vector of that size.
static size_t arriving(const struct bench_run* run, size_t size, size_t* first) {
  const struct collective* c = coll_chosen.collective;
  const size_t own = size / sizeof(float);
  *first = 0;
  if (c->blocks_in) *first = (size_t)run->rank * own;
  const bool shares = c->name[0] == 'r' && !c->blocks_in && !c->root_out;  // reduce_scatter
  return shares ? coll_portion(run, size, run->rank, first) : own;
}

bool coll_validate_sums(struct bench_run* run, size_t size, long iteration) {
  const size_t ranks = coll_chosen.collective->blocks_in ? (size_t)run->ranks : 1, bytes = ranks * size;
  const size_t count = bytes / sizeof(float);
  const int root = coll_root(run, iteration);
  size_t first, own = arriving(run, size, &first), own_bytes = own * sizeof(float);
  float* values = malloc(bytes);
  if (!values) MPI_Abort(MPI_COMM_WORLD, 3);
  for (size_t i = 0; i < count; ++i) values[i] = element(run->rank, i, iteration);
  bench_buffer_write(&run->send, 0, values, bytes);
  bench_buffer_poison(&run->receive, 0, own_bytes, bench_seed(-1, run->rank, size, iteration, 0));
  bench_buffer_guard(&run->receive, own_bytes);
  coll_prepare(run, size);
  MPI_Barrier(MPI_COMM_WORLD);
  coll_once(run, size, root);
  bench_buffer_read(&run->receive, 0, values, own_bytes);
  bool good = true;
  if (!coll_chosen.collective->root_out || run->rank == root)
    good =
        check_sums(run, values, first, own, iteration) && bench_buffer_check_guard(&run->receive, own_bytes);
  free(values);
  return good;
}

/// Which bytes go from one rank to another.
static uint64_t block_seed(int from, int to, size_t size, long iteration) {
  return bench_seed(from, coll_chosen.collective->blocks_in ? to : 0, size, iteration, 0);
}

bool coll_validate_blocks(struct bench_run* run, size_t size, long iteration) {
  const struct collective* c = coll_chosen.collective;
  const struct coll_peers* peers = coll_peers(run);
  const int self = run->rank, root = coll_root(run, iteration);
  const int out = c->blocks_in ? peers->destinations : 1, in = c->blocks_out ? peers->sources : 1;
  for (int i = 0; i < out && (!c->root_in || self == root); ++i)
    bench_buffer_fill(&run->send, (size_t)i * size, size, block_seed(self, peers->to[i], size, iteration));
  for (int i = 0; i < in; ++i)  // without blocks the one that comes is the root's
    bench_buffer_poison(&run->receive, (size_t)i * size, size,
                        block_seed(c->blocks_out ? peers->from[i] : root, self, size, iteration));
  const size_t all = (size_t)in * size;
  bench_buffer_guard(&run->receive, all);
  coll_prepare(run, size);
  MPI_Barrier(MPI_COMM_WORLD);
  coll_once(run, size, root);
  if (c->root_out && self != root) return true;
  bool good = true;
  for (int i = 0; good && i < in; ++i)
    good = bench_buffer_check(&run->receive, (size_t)i * size, size,
                              block_seed(c->blocks_out ? peers->from[i] : root, self, size, iteration));
  return good && bench_buffer_check_guard(&run->receive, all);
}

bool coll_validate_bcast(struct bench_run* run, size_t size, long iteration) {
  const int root = coll_root(run, iteration);
  const uint64_t seed = bench_seed(root, 0, size, iteration, 0);
  if (run->rank == root)
    bench_buffer_fill(&run->receive, 0, size, seed);
  else
    bench_buffer_poison(&run->receive, 0, size, seed);
  bench_buffer_guard(&run->receive, size);
  MPI_Barrier(MPI_COMM_WORLD);
  coll_once(run, size, root);
  return bench_buffer_check(&run->receive, 0, size, seed) && bench_buffer_check_guard(&run->receive, size);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/// Nobody leaves a barrier before the last has come; seen by the clock that the processes of one host share.
bool coll_validate_barrier(struct bench_run* run, size_t size, long iteration) {
  const struct timespec time = {0, (run->rank * 7 + iteration) % 5 * 200000};
  double came, left, last = 0, first = 0;
  MPI_Comm host;
  int near = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &near);
  MPI_Comm_free(&host);
  nanosleep(&time, NULL);
  came = now();
  coll_once(run, size, 0);
  left = now();
  MPI_Allreduce(&came, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(&left, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  return near != run->ranks || first >= last;
}
