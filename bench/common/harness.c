// SPDX-License-Identifier: BSD-3-Clause
#include "common/harness.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/report.h"

enum { VALIDATIONS = 3, HELP_BYTES = 4096 };

struct rows {
  struct bench_row* data;
  int count, capacity;
};

static void append(struct rows* rows, const struct bench_row* row) {
  if (rows->count == rows->capacity) {
    rows->capacity = rows->capacity ? 2 * rows->capacity : 64;
    rows->data = realloc(rows->data, (size_t)rows->capacity * sizeof *rows->data);
    if (!rows->data) abort();
  }
  rows->data[rows->count++] = *row;
}

static int host_local_rank(void) {
  MPI_Comm host;
  int rank = 0;
  MPI_Comm_split_type(bench_comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_rank(host, &rank);
  MPI_Comm_free(&host);
  return rank;
}

// Called before MPI starts if the launcher provides the local rank: some libraries need a current context in
// MPI_Init.
static bool open_device(struct bench_run* run, bool initialised, char* error, size_t size) {
  static bool tried, good;
  if (tried || !run->options.cuda || run->options.error[0]) return tried ? good : true;
  int local = bench_local_rank();
  if (local < 0) {
    if (!initialised) return true;
    local = host_local_rank();
  }
  tried = true;
  good = bench_device_open(local, &run->device, error, size);
  return good;
}

// Returns the same on every rank; the lowest rank with an error prints its message.
static bool all_good(const struct bench_run* run, bool good, const char* error) {
  int mine = good ? run->ranks : run->rank, lowest = run->ranks;
  MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, bench_comm);
  if (lowest == run->rank) fprintf(stderr, "%s: rank %d: %s\n", run->program->name, run->rank, error);
  return lowest == run->ranks;
}

// Returns -1 to continue, else the exit code.
static int check_usage(const struct bench_run* run) {
  const struct bench_program* program = run->program;
  const struct bench_options* options = &run->options;
  const bool prints = run->rank == 0;
  if (options->error[0]) {
    if (prints) fprintf(stderr, "%s: %s\n", program->name, options->error);
    return 2;
  }
  if (options->help) {
    char text[HELP_BYTES];
    bench_options_help(&program->defaults, program->name, program->shape, text, sizeof text);
    if (prints) fputs(text, stdout);
    return 0;
  }
  if (options->version) {
    if (prints) printf("Weft MPI %s v%s\n", program->title, BENCH_VERSION);
    return 0;
  }
  if (program->shape == BENCH_PAIRS && run->ranks % 2 != 0) {
    if (prints) fprintf(stderr, "%s: needs an even number of ranks, not %d\n", program->name, run->ranks);
    return 2;
  }
  if (program->shape == BENCH_TWO && run->ranks != 2) {
    if (prints) fprintf(stderr, "%s: needs exactly 2 ranks, not %d\n", program->name, run->ranks);
    return 2;
  }
  if (options->root >= run->ranks) {
    if (prints)
      fprintf(stderr, "%s: -k fixed:%d: there are %d ranks\n", program->name, options->root, run->ranks);
    return 2;
  }
  return -1;
}

static bool above_limit(const struct bench_run* run, size_t size) {
  return run->program->shape == BENCH_COLLECTIVE &&
         run->program->capacity(run, size) > run->options.memory_limit;
}

// Stores the sizes that are multiples of the current type and whose buffers are within -M. Returns their
// number.
static int choose_sizes(const struct bench_run* run, size_t* sizes) {
  const struct bench_options* options = &run->options;
  int count = 0;
  for (int i = 0; i < options->size_count; ++i) {
    const size_t size = options->sizes[i];
    if (size % bench_unit(options, run->type) != 0) continue;
    if (above_limit(run, size)) {
      if (run->rank == 0 && count > 0)
        printf("# Stops at %zu bytes: one buffer is limited to %zu bytes (-M)\n", sizes[count - 1],
               options->memory_limit);
      return count;
    }
    sizes[count++] = size;
  }
  return count;
}

// Returns whether every type has a size whose buffers are within -M.
static bool check_limit(struct bench_run* run) {
  const struct bench_options* options = &run->options;
  for (int i = 0; i < options->type_count; ++i) {
    int first = 0;
    run->type = options->types[i];
    while (options->sizes[first] % bench_unit(options, run->type) != 0) ++first;
    if (!above_limit(run, options->sizes[first])) continue;
    if (run->rank == 0)
      fprintf(stderr, "%s: a buffer of %zu bytes is above the limit; raise it with -M\n", run->program->name,
              run->program->capacity(run, options->sizes[first]));
    return false;
  }
  return true;
}

static bool validate(struct bench_run* run, size_t size) {
  int good = 1, all = 0;
  for (long iteration = 0; iteration < VALIDATIONS; ++iteration)
    if (!run->program->validate(run, size, iteration)) good = 0;
  MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, bench_comm);
  return all != 0;
}

// Converts messages/s per pair to messages/s and MB/s of all pairs, by the time of the slowest pair.
static void spread_rate(const struct bench_run* run, struct bench_row* row) {
  const double megabytes = (double)row->size / 1e6;
  row->rate = row->minimum * (run->ranks / 2);
  row->average = row->rate * megabytes;
  row->minimum *= megabytes;
  row->maximum *= megabytes;
}

static void reduce_figures(const struct bench_run* run, double figure, struct bench_row* row) {
  row->average = row->minimum = row->maximum = figure;
  if (run->program->shape == BENCH_TWO) return;
  const bool pairs = run->program->shape == BENCH_PAIRS;
  const bool counts = !pairs || run->sender;
  double sum = counts ? figure : 0, least = counts ? figure : DBL_MAX, most = counts ? figure : 0;
  MPI_Reduce(&sum, &row->average, 1, MPI_DOUBLE, MPI_SUM, 0, bench_comm);
  MPI_Reduce(&least, &row->minimum, 1, MPI_DOUBLE, MPI_MIN, 0, bench_comm);
  MPI_Reduce(&most, &row->maximum, 1, MPI_DOUBLE, MPI_MAX, 0, bench_comm);
  row->average /= pairs ? run->ranks / 2 : run->ranks;
  if (run->program->rate) spread_rate(run, row);
}

// Computes means over the ranks, and the share of communication that overlapped with computation.
static void reduce_overlap(const struct bench_run* run, struct bench_row* row) {
  const double mine[2] = {run->pure_us, run->compute_us};
  double sums[2] = {0, 0};
  MPI_Reduce(mine, sums, 2, MPI_DOUBLE, MPI_SUM, 0, bench_comm);
  row->pure = sums[0] / run->ranks;
  row->compute = sums[1] / run->ranks;
  const double hidden = row->pure > 0 ? 100 - 100 * (row->average - row->compute) / row->pure : 0;
  row->overlap = hidden < 0 ? 0 : hidden > 100 ? 100 : hidden;
}

static struct bench_row one_size(struct bench_run* run, struct bench_kinds kinds, size_t size) {
  const struct bench_options* options = &run->options;
  const bool large = size > BENCH_LARGE;
  struct bench_row row = {.kinds = kinds, .type = bench_datatype_name(run), .size = size, .valid = true};
  row.iterations = large ? options->iterations_large : options->iterations;
  bench_samples_begin(run, row.iterations);
  bench_message_create(run, size / (options->partitions ? (size_t)options->partitions : 1));
  MPI_Barrier(bench_comm);
  double figure =
      run->program->measure(run, size, row.iterations, large ? options->warmup_large : options->warmup);
  reduce_figures(run, figure, &row);
  if (run->program->overlap) reduce_overlap(run, &row);
  bench_samples_end(run, row.percentiles);
  if (options->validate) row.valid = validate(run, size);
  bench_message_destroy(run);
  return row;
}

static bool one_kind(struct bench_run* run, struct bench_kinds kinds, struct rows* rows) {
  const bool pair = run->program->shape != BENCH_COLLECTIVE;
  const enum bench_kind mine = run->sender ? kinds.first : kinds.second;
  if (run->rank == 0) bench_report_header(run, kinds);
  size_t sizes[BENCH_MAX_SIZES];
  const int count = choose_sizes(run, sizes);
  const size_t capacity = run->program->capacity(run, sizes[count - 1]);
  bench_buffer_create(&run->send, pair ? mine : kinds.first, capacity, 1);
  bench_buffer_create(&run->receive, pair ? mine : kinds.second, capacity, 0);
  bool good = true;
  for (int i = 0; i < count; ++i) {
    struct bench_row row = one_size(run, kinds, sizes[i]);
    if (!row.valid) good = false;
    if (run->rank != 0) continue;
    bench_report_row(run, &row);
    append(rows, &row);
  }
  MPI_Barrier(bench_comm);  // a peer may still read the buffers
  bench_buffer_destroy(&run->send);
  bench_buffer_destroy(&run->receive);
  return good;
}

static int run_all(struct bench_run* run, int argc, char** argv) {
  struct rows rows = {0};
  bool good = true;
  for (int i = 0; i < run->options.kind_count * run->options.type_count; ++i) {
    if (i > 0 && run->rank == 0) printf("\n");
    run->type = run->options.types[i % run->options.type_count];
    if (!one_kind(run, run->options.kinds[i / run->options.type_count], &rows)) good = false;
  }
  int written = 1;
  if (run->rank == 0 && run->options.json)
    written = bench_report_json(run, argc, argv, rows.data, rows.count);
  MPI_Bcast(&written, 1, MPI_INT, 0, bench_comm);
  free(rows.data);
  bench_samples_free(run);
  if (!good && run->rank == 0) fprintf(stderr, "%s: validation failed\n", run->program->name);
  return good && written ? 0 : 1;
}

// Returns false if the program needs MPI_THREAD_MULTIPLE and the library lacks it; rank 0 prints the reason.
static bool start_mpi(struct bench_run* run, int* argc, char*** argv) {
  const int wanted = run->program->threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
  const int provided = bench_start(run->options.session, wanted, argc, argv);
  MPI_Comm_rank(bench_comm, &run->rank);
  MPI_Comm_size(bench_comm, &run->ranks);
  run->sender = run->rank < run->ranks / 2;
  run->peer = (run->rank + run->ranks / 2) % run->ranks;
  if (provided < wanted && run->rank == 0)
    fprintf(stderr, "%s: this MPI library does not provide MPI_THREAD_MULTIPLE\n", run->program->name);
  return provided >= wanted;
}

int bench_main(const struct bench_program* program, int argc, char** argv) {
  struct bench_run run = {.program = program};
  char error[256] = "";
  char** words = malloc((size_t)(argc + 1) *
                        sizeof *words);  // getopt reorders argv; the report needs the original order
  if (!words) return 3;
  for (int i = 0; i <= argc; ++i) words[i] = argv[i];
  bench_options_parse(&run.options, &program->defaults, program->shape, argc, argv);
  open_device(&run, false, error, sizeof error);
  const bool started = start_mpi(&run, &argc, &argv);
  int code = started ? check_usage(&run) : 3;
  if (code < 0 && !check_limit(&run)) code = 2;
  if (code < 0) {
    bool good = open_device(&run, true, error, sizeof error);
    code = all_good(&run, good, error) ? run_all(&run, argc, words) : 3;
  }
  bench_finish();
  bench_device_close();
  free(words);
  return code;
}
