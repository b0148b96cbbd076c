// SPDX-License-Identifier: BSD-3-Clause
// Validation of one-sided operations: every byte of the target's window, of the results and of the guard.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rma/rma.h"

// Returns the offset of the guard: the end of the last message.
static size_t used(const struct bench_run* run, const struct rma_window* window) {
  return (window->slots - 1) * window->slot + run->message.extent;
}

// Performs one iteration on the prepared memory.
static void perform(struct bench_run* run, struct rma_window* window) {
  bench_buffer_guard(&window->memory, used(run, window));
  MPI_Barrier(bench_comm);
  rma_iterate(run, window, 1, 0);
}

static bool finish(const struct bench_run* run, struct rma_window* window, bool good) {
  good = bench_buffer_check_guard(&window->memory, used(run, window)) && good;
  rma_window_destroy(window);
  return good;
}

// Moves the data of `from` on each rank to `to` on the other.
static bool moves(struct bench_run* run, size_t size, long iteration, struct rma_window* window,
                  struct bench_buffer* from, struct bench_buffer* to, bool checks) {
  bool good = true;
  for (size_t i = 0; i < window->slots; ++i) {
    bench_message_fill(run, from, i * window->slot,
                       bench_seed(run->rank, run->peer, size, iteration, (int)i));
    bench_message_poison(run, to, i * window->slot,
                         bench_seed(run->peer, run->rank, size, iteration, (int)i));
  }
  perform(run, window);
  for (size_t i = 0; checks && good && i < window->slots; ++i)
    good = bench_message_check(run, to, i * window->slot,
                               bench_seed(run->peer, run->rank, size, iteration, (int)i));
  return finish(run, window, good);
}

bool rma_validate_put(struct bench_run* run, size_t size, long iteration) {
  struct rma_window window;
  rma_window_create(run, &window);
  return moves(run, size, iteration, &window, &run->send, &window.memory, rma_is_origin(run, run->peer));
}

bool rma_validate_get(struct bench_run* run, size_t size, long iteration) {
  struct rma_window window;
  rma_window_create(run, &window);
  return moves(run, size, iteration, &window, &window.memory, &run->send, rma_is_origin(run, run->rank));
}

static size_t element_bytes(const struct bench_run* run) {
  return rma_chosen->word ? sizeof(int64_t) : bench_type_bytes(run->type);
}

// Elements of the current type with small values, so that sums are exact in each type.
static void put_element(const struct bench_run* run, char* at, int value) {
  const int64_t word = value;
  const float real = (float)value;
  if (rma_chosen->word) {
    memcpy(at, &word, sizeof word);
  } else if (run->type == BENCH_FLOAT) {
    memcpy(at, &real, sizeof real);
  } else if (run->type == BENCH_INT) {
    memcpy(at, &value, sizeof value);
  } else {
    *at = (char)value;
  }
}

// Returns value `i` that the given rank contributes, or holds in its window before the operation.
static int term(int rank, size_t i, long iteration, bool held) {
  return (int)((i * 5 + (size_t)rank * 3 + (size_t)iteration + (held ? 17 : 0)) % 32);
}

enum part { CONTRIBUTED, HELD, SUMMED, REPLACED };

static int value_of(enum part part, int origin, int target, size_t i, long iteration) {
  const int contributed = term(origin, i, iteration, false), held = term(target, i, iteration, true);
  if (part == SUMMED) return contributed + held;
  return part == HELD ? held : contributed;
}

// Writes the elements of `part`, or compares with them.
static bool elements(const struct bench_run* run, struct bench_buffer* buffer, size_t offset, size_t size,
                     enum part part, int origin, int target, long iteration, bool compare) {
  const size_t bytes = element_bytes(run);
  char* wanted = malloc(2 * size);
  size_t wrong = size;
  if (!wanted) MPI_Abort(bench_comm, 3);
  for (size_t i = 0; i < size / bytes; ++i)
    put_element(run, wanted + i * bytes, value_of(part, origin, target, i, iteration));
  if (!compare) {
    bench_buffer_write(buffer, offset, wanted, size);
  } else {
    bench_buffer_read(buffer, offset, wanted + size, size);
    for (wrong = 0; wrong < size && wanted[wrong] == wanted[size + wrong];) ++wrong;
    if (wrong < size)
      fprintf(stderr, "rank %d, %s of %zu bytes: element %zu of the %s is wrong\n", run->rank,
              run->program->name, size, wrong / bytes, buffer == &run->send ? "result" : "window");
  }
  free(wanted);
  return wrong == size;
}

bool rma_validate_sum(struct bench_run* run, size_t size, long iteration) {
  struct rma_window window;
  const int rank = run->rank, peer = run->peer;
  const bool compares = strcmp(rma_chosen->name, "cas_latency") == 0;
  const bool fetches = rma_chosen->word || strcmp(rma_chosen->name, "get_acc_latency") == 0;
  bool good = true;
  rma_window_create(run, &window);
  elements(run, &run->send, 0, size, CONTRIBUTED, rank, peer, iteration, false);
  elements(run, &run->send, rma_compared(&window), size, HELD, rank, peer, iteration, false);
  elements(run, &window.memory, 0, size, HELD, peer, rank, iteration, false);
  perform(run, &window);
  if (rma_is_origin(run, peer))
    good = elements(run, &window.memory, 0, size, compares ? REPLACED : SUMMED, peer, rank, iteration, true);
  if (fetches && rma_is_origin(run, rank))
    good = elements(run, &run->send, rma_result(&window), size, HELD, rank, peer, iteration, true) && good;
  return finish(run, &window, good);
}
