// SPDX-License-Identifier: BSD-3-Clause
// A measured collective: its call in three forms, its blocks, its validation.
#ifndef BENCH_COLL_COLLECTIVE_H
#define BENCH_COLL_COLLECTIVE_H
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/harness.h"

/// Form of the call.
enum form {
  BLOCKING,
  NONBLOCKING,  ///< fills in `request`, to be waited for
  PERSISTENT    ///< fills in `request`, to be started and waited for repeatedly
};

/// Arguments of one call; the buffers belong to the run.
struct coll_call {
  struct bench_run* run;
  const void* from;  ///< or MPI_IN_PLACE
  void* to;
  enum form form;
  int root;              ///< of rooted collectives
  MPI_Request* request;  ///< unused by BLOCKING
};

struct collective {
  const char* name;
  const char* words;  ///< in the title
  enum bench_data data;
  bool blocks_in, blocks_out;  ///< the buffer holds a block for each rank or neighbor
  bool root_in, root_out;      ///< only significant at the root
  bool neighbors;              ///< needs a communicator with a topology
  void (*call)(const struct coll_call* call);
  bool (*validate)(struct bench_run* run, size_t size, long iteration);
};

/// The collective and form that this program measures.
struct coll_choice {
  const struct collective* collective;
  enum form form;
};
extern struct coll_choice coll_chosen;

/// Selects the program's collective, such as allreduce, iallreduce or allreduce_persistent. Returns false if
/// unknown.
bool coll_choose(const char* name);

/// Prints the names that coll_choose() accepts.
void coll_print_names(void);

/// The communicator of the chosen collective. Collective at the first call, which creates the topology.
MPI_Comm coll_comm(const struct bench_run* run);

/// The ranks that blocks come from and go to, in buffer order.
struct coll_peers {
  int sources, destinations;
  const int *from, *to;
};
const struct coll_peers* coll_peers(const struct bench_run* run);

/// Bytes of the send buffer and of the receive buffer.
size_t coll_capacity(const struct bench_run* run, size_t size);

/// Elements of a vector of `size` bytes assigned to a rank; `first`: index of the first one.
size_t coll_portion(const struct bench_run* run, size_t size, int rank, size_t* first);

/// Prepares counts and displacements for a size; required before coll_start() and coll_once().
void coll_prepare(const struct bench_run* run, size_t size);

/// Returns whether -k may choose the root: the collective is rooted and not persistent.
bool coll_has_root(void);

/// The root of an iteration, by -k; warm-up iterations are negative.
int coll_root(const struct bench_run* run, long iteration);

/// Returns whether the chosen collective supports MPI_IN_PLACE.
bool coll_has_in_place(void);

/// Returns whether -l selects MPI_IN_PLACE; in rooted collectives at the root only.
bool coll_in_place(const struct bench_run* run, int root);

/// Makes the call; nonblocking and persistent forms fill in `request`.
void coll_start(struct bench_run* run, int root, MPI_Request* request);

/// Makes the call in the chosen form and completes it.
void coll_once(struct bench_run* run, int root);

bool coll_validate_sums(struct bench_run* run, size_t size, long iteration);
bool coll_validate_blocks(struct bench_run* run, size_t size, long iteration);
bool coll_validate_bcast(struct bench_run* run, size_t size, long iteration);
bool coll_validate_barrier(struct bench_run* run, size_t size, long iteration);

#endif
