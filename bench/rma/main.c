// SPDX-License-Identifier: BSD-3-Clause
// The one-sided benchmarks: `rma put_latency ...`, or a link named `put_latency`. Accumulates are MPI_SUM of
// floats unless -T selects another type.
#include <stdio.h>
#include <string.h>

#include "rma/rma.h"

#define MESSAGE run->message.count, run->message.type
#define TARGET run->peer, window->target + (MPI_Aint)at
#define ORIGIN run->send.data + at
#define RESULT run->send.data + rma_result(window)

static void start_put(const struct bench_run* run, const struct rma_window* window, size_t at) {
  MPI_Put(ORIGIN, MESSAGE, TARGET, MESSAGE, window->win);
}

static void start_get(const struct bench_run* run, const struct rma_window* window, size_t at) {
  MPI_Get(ORIGIN, MESSAGE, TARGET, MESSAGE, window->win);
}

static void start_accumulate(const struct bench_run* run, const struct rma_window* window, size_t at) {
  MPI_Accumulate(ORIGIN, MESSAGE, TARGET, MESSAGE, MPI_SUM, window->win);
}

static void start_get_accumulate(const struct bench_run* run, const struct rma_window* window, size_t at) {
  MPI_Get_accumulate(ORIGIN, MESSAGE, RESULT, MESSAGE, TARGET, MESSAGE, MPI_SUM, window->win);
}

static void start_fetch_and_op(const struct bench_run* run, const struct rma_window* window, size_t at) {
  MPI_Fetch_and_op(ORIGIN, RESULT, MPI_INT64_T, TARGET, MPI_SUM, window->win);
}

static void start_compare_and_swap(const struct bench_run* run, const struct rma_window* window, size_t at) {
  MPI_Compare_and_swap(ORIGIN, run->send.data + rma_compared(window), RESULT, MPI_INT64_T, TARGET,
                       window->win);
}

static const struct rma_operation operations[] = {
    {"put_latency", "MPI_Put Latency Test", start_put, rma_validate_put, .bandwidth = false},
    {"get_latency", "MPI_Get Latency Test", start_get, rma_validate_get, .bandwidth = false},
    {"put_bw", "MPI_Put Bandwidth Test", start_put, rma_validate_put, .bandwidth = true},
    {"get_bw", "MPI_Get Bandwidth Test", start_get, rma_validate_get, .bandwidth = true},
    {"put_bibw", "MPI_Put Bi-directional Bandwidth Test", start_put, rma_validate_put, .bandwidth = true,
     .both_ways = true},
    {"acc_latency", "MPI_Accumulate Latency Test", start_accumulate, rma_validate_sum, .reduces = true},
    {"get_acc_latency", "MPI_Get_accumulate Latency Test", start_get_accumulate, rma_validate_sum,
     .reduces = true},
    {"fop_latency", "MPI_Fetch_and_op Latency Test", start_fetch_and_op, rma_validate_sum, .word = true},
    {"cas_latency", "MPI_Compare_and_swap Latency Test", start_compare_and_swap, rma_validate_sum,
     .word = true},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

const struct rma_operation* rma_chosen;

bool rma_choose(const char* name) {
  for (int i = 0; i < OPERATIONS && !rma_chosen; ++i)
    if (strcmp(operations[i].name, name) == 0) rma_chosen = &operations[i];
  return rma_chosen != NULL;
}

void rma_print_names(void) {
  for (int i = 0; i < OPERATIONS; ++i) printf("%s\n", operations[i].name);
}

static double measure(struct bench_run* run, size_t size, long iterations, long warmup) {
  struct rma_window window;
  rma_window_create(run, &window);
  const double seconds = rma_iterate(run, &window, iterations, warmup);
  rma_window_destroy(&window);
  const double count = (double)iterations * rma_operations(run);
  return rma_chosen->bandwidth ? count * (double)size / 1e6 / seconds : seconds * 1e6 / count;
}

int main(int argc, char** argv) {
  const char* slash = strrchr(argv[0], '/');
  if (!rma_choose(slash ? slash + 1 : argv[0])) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
      rma_print_names();
      return 0;
    }
    if (argc < 2 || !rma_choose(argv[1])) {
      fprintf(stderr, "usage: rma NAME [options], where rma --list prints the names\n");
      return 2;
    }
    ++argv, --argc;
  }
  const bool word = rma_chosen->word, bandwidth = rma_chosen->bandwidth;
  const struct bench_program program = {.name = rma_chosen->name,
                                        .title = rma_chosen->title,
                                        .column = bandwidth ? "Bandwidth (MB/s)" : "Latency (us)",
                                        .field = bandwidth ? "bandwidth_mb_s" : "latency_us",
                                        .defaults = {.min_size = word                  ? 8
                                                                 : rma_chosen->reduces ? sizeof(float)
                                                                                       : 1,
                                                     .max_size = word ? 8 : 4 << 20,
                                                     .iterations = bandwidth ? 100 : 10000,
                                                     .warmup = bandwidth ? 10 : 100,
                                                     .iterations_large = bandwidth ? 20 : 1000,
                                                     .warmup_large = bandwidth ? 2 : 10,
                                                     .window = bandwidth ? 64 : 0,
                                                     .samples = !bandwidth,
                                                     .data = word                  ? BENCH_NOTHING
                                                             : rma_chosen->reduces ? BENCH_REDUCED
                                                                                   : BENCH_MOVED,
                                                     .one_sided = true,
                                                     .one_size = word},
                                        .capacity = rma_capacity,
                                        .measure = measure,
                                        .validate = rma_chosen->validate};
  return bench_main(&program, argc, argv);
}
