// SPDX-License-Identifier: BSD-3-Clause
// A collective as it is measured: its call in three forms, which blocks it moves, how it is validated.
#ifndef BENCH_COLL_COLLECTIVE_H
#define BENCH_COLL_COLLECTIVE_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/harness.h"

/// How the call is made.
enum form {
  BLOCKING,
  NONBLOCKING,  ///< fills `request`, which is then waited for
  PERSISTENT    ///< fills `request`, which is then started and waited for, again and again
};

/// What one call is made with; buffers are those of the run.
struct coll_call {
  struct bench_run* run;
  const void* from;  ///< or MPI_IN_PLACE
  void* to;
  enum form form;
  int root;              ///< where there is one
  MPI_Request* request;  ///< unused by BLOCKING
};

struct collective {
  const char* name;
  const char* words;  ///< for the title
  enum bench_data data;
  bool blocks_in, blocks_out;  ///< a buffer holds a block for each rank, or for each neighbor
  bool root_in, root_out;      ///< only the root's buffer matters
  bool neighbors;              ///< on a communicator with a topology
  void (*call)(const struct coll_call* call);
  bool (*validate)(struct bench_run* run, size_t size, long iteration);
};

/// The collective and the form that this program measures.
struct coll_choice {
  const struct collective* collective;
  enum form form;
};
extern struct coll_choice coll_chosen;

/// By a name such as allreduce, iallreduce or allreduce_persistent; false if there is none.
bool coll_choose(const char* name);

/// Prints the names that coll_choose() takes.
void coll_print_names(void);

/// The communicator of the chosen collective; makes the one with the topology at the first call (collective).
MPI_Comm coll_comm(const struct bench_run* run);

/// The ranks that blocks come from, and go to, in their order.
struct coll_peers {
  int sources, destinations;
  const int *from, *to;
};
const struct coll_peers* coll_peers(const struct bench_run* run);

/// Bytes of the send and of the receive buffer.
size_t coll_capacity(const struct bench_run* run, size_t size);

/// The part of a vector of `size` bytes that is left to a rank, in elements; `first`: where it begins.
size_t coll_portion(const struct bench_run* run, size_t size, int rank, size_t* first);

/// Prepares counts and displacements for a size: to be called before coll_start() and coll_once() with it.
void coll_prepare(const struct bench_run* run, size_t size);

/// Whether the chosen collective has a root that -k may name; one request has one root for ever.
bool coll_has_root(void);

/// The root of an iteration, by -k; the warm-up's are below 0.
int coll_root(const struct bench_run* run, long iteration);

/// Whether the chosen collective has a form in place.
bool coll_has_in_place(void);

/// Whether input lies where the result goes, by -l; with a root only there.
bool coll_in_place(const struct bench_run* run, int root);

/// One call with its request, if the form has one.
void coll_start(struct bench_run* run, int root, MPI_Request* request);

/// One whole call in the chosen form.
void coll_once(struct bench_run* run, int root);

bool coll_validate_sums(struct bench_run* run, size_t size, long iteration);
bool coll_validate_blocks(struct bench_run* run, size_t size, long iteration);
bool coll_validate_bcast(struct bench_run* run, size_t size, long iteration);
bool coll_validate_barrier(struct bench_run* run, size_t size, long iteration);

#endif
