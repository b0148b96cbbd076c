// SPDX-License-Identifier: BSD-3-Clause
// The table of collectives, and the call of each.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/collective.h"

struct coll_choice coll_chosen;

// Persistent collectives are part of MPI 4; Open MPI 5 has them but reports MPI 3.1.
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define PERSISTENT_FORM(Name, ...) MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, call->request)
#else
#define PERSISTENT_FORM(Name, ...) no_such_form("MPI_" #Name "_init")
static void no_such_form(const char* name) {
  fprintf(stderr, "this MPI library has no %s\n", name);
  MPI_Abort(bench_comm, 3);
}
#endif

// The three forms of a call have the same arguments up to the request.
#define CALL_IN_FORM(Name, name, ...)          \
  do {                                         \
    if (call->form == BLOCKING)                \
      MPI_##Name(__VA_ARGS__);                 \
    else if (call->form == NONBLOCKING)        \
      MPI_I##name(__VA_ARGS__, call->request); \
    else                                       \
      PERSISTENT_FORM(Name, __VA_ARGS__);      \
  } while (0)

/// Counts and displacements for the v- and w-forms at the current size.
static struct {
  int capacity;
  int *counts, *portions;
  int *displacements, *offsets;  ///< in datatypes, in bytes
  MPI_Aint* addresses;
  MPI_Datatype* types;
} kept;

static void* resize(void* old, int count, size_t element) {
  void* made = realloc(old, (size_t)count * element);
  if (!made) MPI_Abort(bench_comm, 3);
  return made;
}

void coll_prepare(const struct bench_run* run, size_t size) {
  const struct bench_message message = run->message;
  if (kept.capacity < run->ranks) {
    kept.capacity = run->ranks;
    kept.counts = resize(kept.counts, kept.capacity, sizeof *kept.counts);
    kept.displacements = resize(kept.displacements, kept.capacity, sizeof *kept.displacements);
    kept.offsets = resize(kept.offsets, kept.capacity, sizeof *kept.offsets);
    kept.portions = resize(kept.portions, kept.capacity, sizeof *kept.portions);
    kept.addresses = resize(kept.addresses, kept.capacity, sizeof *kept.addresses);
    kept.types = resize(kept.types, kept.capacity, sizeof *kept.types);
  }
  for (int i = 0; i < run->ranks; ++i) {
    size_t first;
    kept.counts[i] = message.count;
    kept.displacements[i] = i * message.count;
    kept.offsets[i] = i * (int)message.extent;
    kept.addresses[i] = (MPI_Aint)i * (MPI_Aint)message.extent;
    kept.portions[i] = (int)coll_portion(run, size, i, &first);
    kept.types[i] = message.type;
  }
}

size_t coll_portion(const struct bench_run* run, size_t size, int rank, size_t* first) {
  const size_t count = size / bench_type_bytes(run->type), ranks = (size_t)run->ranks, at = (size_t)rank;
  const size_t base = count / ranks,
               larger = count % ranks;  // the first `larger` ranks have one element more
  *first = at * base + (at < larger ? at : larger);
  return base + (at < larger ? 1 : 0);
}

// --- the calls ---

#define BUFFERS call->from, call->to
#define FROM call->from
#define TO call->to
#define BLOCK MESSAGE.count, MESSAGE.type
#define BLOCKS kept.counts, kept.displacements, MESSAGE.type
#define SUM MESSAGE.type, MPI_SUM
#define ELEMENTS MESSAGE.count
#define MESSAGE call->run->message
#define WORLD bench_comm

static void call_allreduce(const struct coll_call* call) {
  CALL_IN_FORM(Allreduce, allreduce, BUFFERS, ELEMENTS, SUM, WORLD);
}
static void call_reduce(const struct coll_call* call) {
  CALL_IN_FORM(Reduce, reduce, BUFFERS, ELEMENTS, SUM, call->root, WORLD);
}
static void call_reduce_scatter(const struct coll_call* call) {
  CALL_IN_FORM(Reduce_scatter, reduce_scatter, BUFFERS, kept.portions, SUM, WORLD);
}
static void call_reduce_scatter_block(const struct coll_call* call) {
  CALL_IN_FORM(Reduce_scatter_block, reduce_scatter_block, BUFFERS, ELEMENTS, SUM, WORLD);
}
static void call_alltoall(const struct coll_call* call) {
  CALL_IN_FORM(Alltoall, alltoall, FROM, BLOCK, TO, BLOCK, WORLD);
}
static void call_alltoallv(const struct coll_call* call) {
  CALL_IN_FORM(Alltoallv, alltoallv, FROM, BLOCKS, TO, BLOCKS, WORLD);
}
static void call_alltoallw(const struct coll_call* call) {
  CALL_IN_FORM(Alltoallw, alltoallw, FROM, kept.counts, kept.offsets, kept.types, TO, kept.counts,
               kept.offsets, kept.types, WORLD);
}
static void call_allgather(const struct coll_call* call) {
  CALL_IN_FORM(Allgather, allgather, FROM, BLOCK, TO, BLOCK, WORLD);
}
static void call_allgatherv(const struct coll_call* call) {
  CALL_IN_FORM(Allgatherv, allgatherv, FROM, BLOCK, TO, BLOCKS, WORLD);
}
static void call_gather(const struct coll_call* call) {
  CALL_IN_FORM(Gather, gather, FROM, BLOCK, TO, BLOCK, call->root, WORLD);
}
static void call_gatherv(const struct coll_call* call) {
  CALL_IN_FORM(Gatherv, gatherv, FROM, BLOCK, TO, BLOCKS, call->root, WORLD);
}
static void call_scatter(const struct coll_call* call) {
  CALL_IN_FORM(Scatter, scatter, FROM, BLOCK, TO, BLOCK, call->root, WORLD);
}
static void call_scatterv(const struct coll_call* call) {
  CALL_IN_FORM(Scatterv, scatterv, FROM, BLOCKS, TO, BLOCK, call->root, WORLD);
}
static void call_bcast(const struct coll_call* call) {
  CALL_IN_FORM(Bcast, bcast, TO, BLOCK, call->root, WORLD);
}
static void call_barrier(const struct coll_call* call) { CALL_IN_FORM(Barrier, barrier, WORLD); }

static void call_neighbor_allgather(const struct coll_call* call) {
  const MPI_Comm comm = coll_comm(call->run);
  CALL_IN_FORM(Neighbor_allgather, neighbor_allgather, FROM, BLOCK, TO, BLOCK, comm);
}
static void call_neighbor_allgatherv(const struct coll_call* call) {
  const MPI_Comm comm = coll_comm(call->run);
  CALL_IN_FORM(Neighbor_allgatherv, neighbor_allgatherv, FROM, BLOCK, TO, BLOCKS, comm);
}
static void call_neighbor_alltoall(const struct coll_call* call) {
  const MPI_Comm comm = coll_comm(call->run);
  CALL_IN_FORM(Neighbor_alltoall, neighbor_alltoall, FROM, BLOCK, TO, BLOCK, comm);
}
static void call_neighbor_alltoallv(const struct coll_call* call) {
  const MPI_Comm comm = coll_comm(call->run);
  CALL_IN_FORM(Neighbor_alltoallv, neighbor_alltoallv, FROM, BLOCKS, TO, BLOCKS, comm);
}
static void call_neighbor_alltoallw(const struct coll_call* call) {
  const MPI_Comm comm = coll_comm(call->run);
  CALL_IN_FORM(Neighbor_alltoallw, neighbor_alltoallw, FROM, kept.counts, kept.addresses, kept.types, TO,
               kept.counts, kept.addresses, kept.types, comm);
}

// --- the table; programs.csv lists the same names with the source `coll` ---

enum { ROOT_HAS_IN = 1, ROOT_HAS_OUT = 2, BLOCKS_IN = 4, BLOCKS_OUT = 8, NEIGHBORS = 16 };
#define ROW(name, words, data, flags, validate)                                                         \
  {                                                                                                     \
#name, words, BENCH_##data, ((flags)&BLOCKS_IN) != 0, ((flags)&BLOCKS_OUT) != 0,                    \
        ((flags)&ROOT_HAS_IN) != 0, ((flags)&ROOT_HAS_OUT) != 0, ((flags)&NEIGHBORS) != 0, call_##name, \
        coll_validate_##validate                                                                        \
  }

static const struct collective kCollectives[] = {
    ROW(allreduce, "Allreduce", REDUCED, 0, sums),
    ROW(reduce, "Reduce", REDUCED, ROOT_HAS_OUT, sums),
    ROW(reduce_scatter, "Reduce-Scatter", REDUCED, 0, sums),
    ROW(reduce_scatter_block, "Reduce-Scatter Block", REDUCED, BLOCKS_IN, sums),
    ROW(alltoall, "All-to-All Personalized Exchange", MOVED, BLOCKS_IN | BLOCKS_OUT, blocks),
    ROW(alltoallv, "All-to-Allv Personalized Exchange", MOVED, BLOCKS_IN | BLOCKS_OUT, blocks),
    ROW(alltoallw, "All-to-Allw Personalized Exchange", MOVED, BLOCKS_IN | BLOCKS_OUT, blocks),
    ROW(allgather, "Allgather", MOVED, BLOCKS_OUT, blocks),
    ROW(allgatherv, "Allgatherv", MOVED, BLOCKS_OUT, blocks),
    ROW(gather, "Gather", MOVED, BLOCKS_OUT | ROOT_HAS_OUT, blocks),
    ROW(gatherv, "Gatherv", MOVED, BLOCKS_OUT | ROOT_HAS_OUT, blocks),
    ROW(scatter, "Scatter", MOVED, BLOCKS_IN | ROOT_HAS_IN, blocks),
    ROW(scatterv, "Scatterv", MOVED, BLOCKS_IN | ROOT_HAS_IN, blocks),
    ROW(bcast, "Broadcast", MOVED, 0, bcast),
    ROW(barrier, "Barrier", NOTHING, 0, barrier),
    ROW(neighbor_allgather, "Neighborhood Allgather", MOVED, BLOCKS_OUT | NEIGHBORS, blocks),
    ROW(neighbor_allgatherv, "Neighborhood Allgatherv", MOVED, BLOCKS_OUT | NEIGHBORS, blocks),
    ROW(neighbor_alltoall, "Neighborhood All-to-All", MOVED, BLOCKS_IN | BLOCKS_OUT | NEIGHBORS, blocks),
    ROW(neighbor_alltoallv, "Neighborhood All-to-Allv", MOVED, BLOCKS_IN | BLOCKS_OUT | NEIGHBORS, blocks),
    ROW(neighbor_alltoallw, "Neighborhood All-to-Allw", MOVED, BLOCKS_IN | BLOCKS_OUT | NEIGHBORS, blocks),
};
enum { COLLECTIVES = sizeof kCollectives / sizeof *kCollectives };
static const char kPersistent[] = "_persistent";

/// Returns whether `name` is the collective's name with this prefix and suffix.
static bool is_named(const char* name, const char* prefix, const char* collective, const char* suffix) {
  const size_t lead = strlen(prefix), length = strlen(collective);
  return strncmp(name, prefix, lead) == 0 && strncmp(name + lead, collective, length) == 0 &&
         strcmp(name + lead + length, suffix) == 0;
}

bool coll_choose(const char* name) {
  for (int i = 0; i < COLLECTIVES; ++i) {
    const char* collective = kCollectives[i].name;
    coll_chosen.collective = &kCollectives[i];
    coll_chosen.form = BLOCKING;
    if (strcmp(name, collective) == 0) return true;
    coll_chosen.form = NONBLOCKING;
    if (is_named(name, "i", collective, "")) return true;
    coll_chosen.form = PERSISTENT;
    if (is_named(name, "", collective, kPersistent)) return true;
  }
  return false;
}

void coll_print_names(void) {
  for (int i = 0; i < COLLECTIVES; ++i)
    printf("%s\ni%s\n%s%s\n", kCollectives[i].name, kCollectives[i].name, kCollectives[i].name, kPersistent);
}

void coll_start(struct bench_run* run, int root, MPI_Request* request) {
  struct coll_call call = {run, run->send.data, run->receive.data, coll_chosen.form, root, request};
  if (coll_in_place(run, root)) {
    if (coll_chosen.collective->root_in)
      call.to = MPI_IN_PLACE;
    else
      call.from = MPI_IN_PLACE;
  }
  coll_chosen.collective->call(&call);
}

void coll_once(struct bench_run* run, int root) {
  MPI_Request request = MPI_REQUEST_NULL;
  coll_start(run, root, &request);
  if (coll_chosen.form == PERSISTENT) MPI_Start(&request);
  if (coll_chosen.form != BLOCKING) MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (coll_chosen.form == PERSISTENT) MPI_Request_free(&request);
}
