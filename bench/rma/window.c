// SPDX-License-Identifier: BSD-3-Clause
// Creation of MPI windows with -w create, allocate and dynamic, in every memory kind.
#include <stdio.h>

#include "rma/rma.h"

enum { SLOTS_BYTES = 64 << 20, ALIGNMENT = 64, DEVICE_MEMORY = 2, TAG = 1 };

// Returns a multiple of the alignment, at least one.
static size_t aligned(size_t bytes) {
  return bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
}

static size_t slots_of(const struct bench_run* run, size_t slot) {
  const size_t fit = SLOTS_BYTES / slot, window = (size_t)run->options.window;
  return !rma_chosen->bandwidth || fit < 1 ? 1 : fit < window ? fit : window;
}

// The send buffer holds the data of all slots; in latency programs also a result and a value to compare with.
size_t rma_capacity(const struct bench_run* run, size_t size) {
  size_t most = 0;
  for (int i = 0; i < run->options.size_count && run->options.sizes[i] <= size; ++i) {
    const size_t slot = aligned(bench_extent(run, run->options.sizes[i]));
    if (slots_of(run, slot) * slot > most) most = slots_of(run, slot) * slot;
  }
  return rma_chosen->bandwidth ? most : 3 * most;
}

size_t rma_result(const struct rma_window* window) { return window->slots * window->slot; }
size_t rma_compared(const struct rma_window* window) { return 2 * window->slots * window->slot; }

// Returns the hint for memory of a kind; the caller frees it.
static MPI_Info kind_info(enum bench_kind kind) {
  MPI_Info info = MPI_INFO_NULL;
  if (kind == BENCH_HOST) return info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_memory_alloc_kinds",
               kind == BENCH_PINNED   ? "cuda:host"
               : kind == BENCH_DEVICE ? "cuda:device"
                                      : "cuda:managed");
  return info;
}

// Ends the job if the library ignored the hint and allocated host memory for a device window.
static void check_kind(const struct bench_run* run, const struct bench_buffer* memory) {
  int (*query)(void*, int, unsigned long long) = NULL;
  const struct bench_device_function table[] = {{"cuPointerGetAttribute", &query}};
  char error[256] = "";
  unsigned type = 0;
  if (memory->kind != BENCH_DEVICE) return;
  if (!bench_device_find(table, 1, error, sizeof error)) {
    fprintf(stderr, "%s: %s\n", run->program->name, error);
  } else if (query(&type, 2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */,
                   (unsigned long long)(size_t)memory->data) == 0 &&
             type == DEVICE_MEMORY) {
    return;
  } else {
    fprintf(stderr, "%s: MPI_Win_allocate did not allocate device memory; use -w create\n",
            run->program->name);
  }
  MPI_Abort(bench_comm, 3);
}

static void allocate(const struct bench_run* run, struct rma_window* window, MPI_Aint bytes) {
  MPI_Info info = kind_info(window->memory.kind);
  MPI_Win_allocate(bytes, 1, info, bench_comm, &window->memory.data, &window->win);
  if (info != MPI_INFO_NULL) MPI_Info_free(&info);
  check_kind(run, &window->memory);
}

static void create_dynamic(const struct bench_run* run, struct rma_window* window, MPI_Aint bytes) {
  MPI_Aint address;
  MPI_Win_create_dynamic(MPI_INFO_NULL, bench_comm, &window->win);
  MPI_Win_attach(window->win, window->memory.data, bytes);
  MPI_Get_address(window->memory.data, &address);
  MPI_Sendrecv(&address, 1, MPI_AINT, run->peer, TAG, &window->target, 1, MPI_AINT, run->peer, TAG,
               bench_comm, MPI_STATUS_IGNORE);
}

void rma_window_create(const struct bench_run* run, struct rma_window* window) {
  MPI_Group all;
  window->slot = aligned(run->message.extent);
  window->slots = slots_of(run, window->slot);
  window->target = 0;
  window->memory = run->receive;
  const MPI_Aint bytes = (MPI_Aint)(window->slots * window->slot);
  switch (run->options.flavor) {
    case BENCH_WIN_CREATE:
      MPI_Win_create(run->receive.data, bytes, 1, MPI_INFO_NULL, bench_comm, &window->win);
      break;
    case BENCH_WIN_ALLOCATE:
      allocate(run, window, bytes + BENCH_GUARD);
      break;
    case BENCH_WIN_DYNAMIC:
      create_dynamic(run, window, bytes);
      break;
  }
  MPI_Comm_group(bench_comm, &all);
  MPI_Group_incl(all, 1, &run->peer, &window->peer);
  MPI_Group_free(&all);
}

void rma_window_destroy(struct rma_window* window) {
  MPI_Barrier(bench_comm);
  int* flavor = NULL;
  int found = 0;
  MPI_Win_get_attr(window->win, MPI_WIN_CREATE_FLAVOR, &flavor, &found);
  if (found && *flavor == MPI_WIN_FLAVOR_DYNAMIC) MPI_Win_detach(window->win, window->memory.data);
  MPI_Group_free(&window->peer);
  MPI_Win_free(&window->win);
}
