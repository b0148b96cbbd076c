// SPDX-License-Identifier: BSD-3-Clause
// The first exchanges of a process: every rank sends a message to every other rank, again and again, and each
// exchange is timed by itself, the first one included. Phases: buffers allocated once; sums over all ranks;
// the steady state of exchanges; buffers allocated and freed again in each step, also of a collective.
// Usage: cold [options]
//   -m BYTES  of each message (64 KiB)
//   -n COUNT  steps of a phase (20)
//   -d KIND   cuda or host memory (cuda)
//   -a BYTES  least size of the buffers that are allocated in each step (64 MiB)
//   -l        selects the GPU after MPI_Init, not before
//   -k MS     launches a kernel of that duration before each step (none)
//   -w MS     exchanges before the steady state is measured (200)
//   -c        checks every byte; the times then mean nothing
//   -j FILE   JSON output
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/device.h"
#include "common/kernels.h"
#include "common/report.h"
#include "common/samples.h"

enum { MOST_EXCHANGES = 1000, TAG = 1, TIMEOUT_S = 120, MOST_PARTS = 16, FRESH_CALLS = 10 };

static struct {
  size_t bytes, fresh_bytes;
  int exchanges;
  bool cuda, check, late;
  double kernel_ms, warm_ms;
  const char* json;
} options = {65536, 64 << 20, 20, true, false, false, 0, 200, NULL};

static int rank, ranks;
static long number;  // exchanges so far: part of the patterns
static bool right = true;
static struct bench_buffer out, in;
static MPI_Request* requests;

static void stop(const char* what) {
  fprintf(stderr, "cold: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

static double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static void allocate(struct bench_buffer* buffer, size_t bytes) {
  char error[256];
  buffer->kind = options.cuda ? BENCH_DEVICE : BENCH_HOST;
  buffer->capacity = bytes;
  buffer->data =
      options.cuda ? bench_device_allocate(BENCH_DEVICE_PLAIN, bytes, error, sizeof error) : malloc(bytes);
  if (!buffer->data) stop(options.cuda ? error : "no memory");
}

/// The message between rank `from` and rank `to` in the buffer of the sender and of the receiver.
static size_t slot(int other) { return (size_t)(other < rank ? other : other - 1) * options.bytes; }

static void stage(void) {
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    bench_buffer_fill(&out, slot(peer), options.bytes, bench_seed(rank, peer, options.bytes, number, 0));
    bench_buffer_poison(&in, slot(peer), options.bytes, bench_seed(peer, rank, options.bytes, number, 0));
  }
}

static void compare(void) {
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    const uint64_t seed = bench_seed(peer, rank, options.bytes, number, 0);
    if (!bench_buffer_check(&in, slot(peer), options.bytes, seed)) right = false;
  }
}

static void exchange(void) {
  int count = 0;
  if (options.check) stage();
  for (int step = 1; step < ranks; ++step) {
    const int from = (rank - step + ranks) % ranks;
    MPI_Irecv(in.data + slot(from), (int)options.bytes, MPI_CHAR, from, TAG, MPI_COMM_WORLD,
              &requests[count++]);
  }
  for (int step = 1; step < ranks; ++step) {
    const int to = (rank + step) % ranks;
    MPI_Isend(out.data + slot(to), (int)options.bytes, MPI_CHAR, to, TAG, MPI_COMM_WORLD, &requests[count++]);
  }
  MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  if (options.check) compare();
  ++number;
}

/// The result replaces the received data of an exchange.
static void add_up(void) {
  const int count = options.bytes < sizeof(float) ? 1 : (int)(options.bytes / sizeof(float));
  MPI_Allreduce(out.data, in.data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/// Each step waits for all ranks, so its time begins where the previous one ended: nothing that MPI does is
/// missed.
static void repeat(void (*step)(void), double* us) {
  MPI_Barrier(MPI_COMM_WORLD);
  double last = now_us();
  for (int i = 0; i < options.exchanges; ++i) {
    if (options.kernel_ms > 0) bench_kernels_delay(options.kernel_ms);
    step();
    const double end = now_us();
    us[i] = end - last;
    last = end;
  }
  if (options.kernel_ms > 0) bench_kernels_wait();
}

/// Returns the median time of an exchange after many of them.
static double steady_state(void) {
  double us[MOST_EXCHANGES];
  const double end = now_us() + options.warm_ms * 1e3;
  for (int go_on = 1; go_on;) {
    for (int i = 0; i < options.exchanges; ++i) exchange();
    go_on = now_us() < end;
    MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  repeat(exchange, us);
  return bench_percentile(us, options.exchanges, 50);
}

/// `us`: the exchanges; `step_us`: with allocating and freeing the buffers.
static void repeat_fresh(double* us, double* step_us, size_t bytes) {
  for (int i = 0; i < options.exchanges; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = now_us();
    allocate(&out, bytes);
    allocate(&in, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    const double allocated = now_us();
    if (options.kernel_ms > 0) bench_kernels_delay(options.kernel_ms);
    exchange();
    us[i] = now_us() - allocated;
    bench_buffer_destroy(&in);
    bench_buffer_destroy(&out);
    step_us[i] = now_us() - begin;
  }
}

/// Calls of MPI_Alltoall, each with newly allocated buffers: mean times of FRESH_CALLS calls, without
/// allocation.
static void repeat_fresh_alltoall(double* us) {
  const size_t bytes = options.bytes * (size_t)ranks;
  for (int i = 0; i < options.exchanges; ++i) {
    us[i] = 0;
    for (int call = 0; call < FRESH_CALLS; ++call) {
      allocate(&out, bytes);
      allocate(&in, bytes);
      MPI_Barrier(MPI_COMM_WORLD);
      const double allocated = now_us();
      MPI_Alltoall(out.data, (int)options.bytes, MPI_CHAR, in.data, (int)options.bytes, MPI_CHAR,
                   MPI_COMM_WORLD);
      us[i] += (now_us() - allocated) / FRESH_CALLS;
      bench_buffer_destroy(&in);
      bench_buffer_destroy(&out);
    }
  }
}

/// Costs that the library itself has measured: those of its counters whose names begin with device.cold_.
struct part {
  char name[64];
  double us;
};

static int find_parts(struct part* parts) {
  int (*counters)(char*, int, int*) = NULL;
  int length = 0, count = 0;
  void* symbol = dlsym(RTLD_DEFAULT, "MPIX_Counters");
  if (!symbol) return 0;
  memcpy(&counters, &symbol, sizeof symbol);
  counters(NULL, 0, &length);
  char* text = calloc((size_t)length + 1, 1);
  if (!text) stop("no memory");
  counters(text, length + 1, NULL);
  for (char* line = strtok(text, "\n"); line && count < MOST_PARTS; line = strtok(NULL, "\n")) {
    double ns = 0;
    if (sscanf(line, "device.cold_%63[^\t]\t%lf", parts[count].name, &ns) != 2) continue;
    parts[count++].us = ns / 1e3;
  }
  free(text);
  return count;
}

static void slowest(double* us, int count) {
  MPI_Reduce(rank == 0 ? MPI_IN_PLACE : us, us, count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
}

struct figures {
  double init_ms, steady_us;
  double start_us[MOST_EXCHANGES], sum_us[MOST_EXCHANGES];
  double fresh_us[MOST_EXCHANGES], fresh_step_us[MOST_EXCHANGES], fresh_alltoall_us[MOST_EXCHANGES];
  struct part parts[MOST_PARTS];
  int part_count;
};

static void print(const struct figures* f, bool valid) {
  printf("# Exchanges of all pairs of %d ranks, %zu bytes each, %s memory\n", ranks, options.bytes,
         options.cuda ? "cuda" : "host");
  printf("# MPI_Init: %.1f ms; steady state: %.2f us%s\n", f->init_ms, f->steady_us,
         options.check ? valid ? "; data: Pass" : "; data: Fail" : "");
  for (int i = 0; i < f->part_count; ++i) printf("# %s: %.1f us\n", f->parts[i].name, f->parts[i].us);
  printf("%-10s %14s %14s %22s %22s %22s\n", "# number", "exchange (us)", "sum (us)", "fresh buffers (us)",
         "and allocation (us)", "fresh alltoall (us)");
  for (int i = 0; i < options.exchanges; ++i)
    printf("%-10d %14.2f %14.2f %22.2f %22.2f %22.2f\n", i + 1, f->start_us[i], f->sum_us[i], f->fresh_us[i],
           f->fresh_step_us[i], f->fresh_alltoall_us[i]);
}

static char* append_list(char* at, const char* name, const double* values) {
  at += sprintf(at, ", \"%s\": [", name);
  for (int i = 0; i < options.exchanges; ++i) at += sprintf(at, "%s%.2f", i ? ", " : "", values[i]);
  return at + sprintf(at, "]");
}

static bool write_json(const struct figures* f, bool valid) {
  static char fields[64 * (5 * MOST_EXCHANGES + MOST_PARTS)];
  char* at = fields;
  at += sprintf(at, "\"init_ms\": %.3f, \"steady_us\": %.2f, \"kernel_ms\": %.3f, \"valid\": %s", f->init_ms,
                f->steady_us, options.kernel_ms, options.check ? valid ? "true" : "false" : "null");
  at = append_list(at, "start_us", f->start_us);
  at = append_list(at, "sum_us", f->sum_us);
  at = append_list(at, "fresh_us", f->fresh_us);
  at = append_list(at, "fresh_step_us", f->fresh_step_us);
  at = append_list(at, "fresh_alltoall_us", f->fresh_alltoall_us);
  at += sprintf(at, ", \"parts_us\": {");
  for (int i = 0; i < f->part_count; ++i)
    at += sprintf(at, "%s\"%s\": %.1f", i ? ", " : "", f->parts[i].name, f->parts[i].us);
  sprintf(at, "}");
  const struct bench_plain_row row = {options.bytes, options.cuda ? "D D" : "H H", fields};
  return bench_report_plain(options.json, "cold", ranks, &row, 1);
}

static bool parse(int argc, char** argv) {
  for (int option; (option = getopt(argc, argv, "m:n:d:a:lk:w:cj:")) != -1;) {
    if (option == 'm') options.bytes = (size_t)atoll(optarg);
    if (option == 'n') options.exchanges = atoi(optarg);
    if (option == 'd') options.cuda = strcmp(optarg, "host") != 0;
    if (option == 'a') options.fresh_bytes = (size_t)atoll(optarg);
    if (option == 'l') options.late = true;
    if (option == 'k') options.kernel_ms = atof(optarg);
    if (option == 'w') options.warm_ms = atof(optarg);
    if (option == 'c') options.check = true;
    if (option == 'j') options.json = optarg;
    if (option == '?') return false;
  }
  return optind == argc && options.bytes > 0 && options.bytes <= INT32_MAX && options.exchanges > 0 &&
         options.exchanges <= MOST_EXCHANGES && (options.cuda || options.kernel_ms <= 0);
}

int main(int argc, char** argv) {
  static struct figures figures;
  char error[256];
  struct bench_device_info device;
  if (!parse(argc, argv)) {
    fprintf(stderr,
            "usage: cold [-m BYTES] [-n EXCHANGES] [-d cuda|host] [-a BYTES] [-l] [-k MS] [-w MS] [-c] [-j "
            "FILE]\n");
    return 2;
  }
  const int local = bench_local_rank() < 0 ? 0 : bench_local_rank();
  if (options.cuda && !options.late && !bench_device_open(local, &device, error, sizeof error)) {
    fprintf(stderr, "cold: %s\n", error);
    return 77;
  }
  alarm(TIMEOUT_S);
  const double begin = now_us();
  MPI_Init(&argc, &argv);
  figures.init_ms = (now_us() - begin) / 1e3;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2) stop("at least 2 ranks are needed");
  requests = malloc(sizeof *requests * 2 * (size_t)ranks);
  if (!requests) stop("no memory");
  if (options.cuda && options.late && !bench_device_open(local, &device, error, sizeof error)) stop(error);
  if (options.kernel_ms > 0) bench_kernels_load();

  size_t all = options.bytes * (size_t)(ranks - 1);
  if (all < sizeof(float)) all = sizeof(float);
  allocate(&out, all);
  allocate(&in, all);
  repeat(exchange, figures.start_us);
  repeat(add_up, figures.sum_us);
  figures.part_count = find_parts(figures.parts);
  figures.steady_us = steady_state();
  bench_buffer_destroy(&in);
  bench_buffer_destroy(&out);
  repeat_fresh(figures.fresh_us, figures.fresh_step_us,
               all > options.fresh_bytes ? all : options.fresh_bytes);
  repeat_fresh_alltoall(figures.fresh_alltoall_us);

  slowest(figures.start_us, options.exchanges);
  slowest(figures.sum_us, options.exchanges);
  slowest(figures.fresh_us, options.exchanges);
  slowest(figures.fresh_step_us, options.exchanges);
  slowest(figures.fresh_alltoall_us, options.exchanges);
  slowest(&figures.init_ms, 1);
  slowest(&figures.steady_us, 1);
  for (int i = 0; i < figures.part_count; ++i) slowest(&figures.parts[i].us, 1);
  int wrong = !right, any_wrong = 0;
  MPI_Allreduce(&wrong, &any_wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0) {
    print(&figures, !any_wrong);
    if (options.json && !write_json(&figures, !any_wrong)) any_wrong = 1;
  }
  MPI_Finalize();
  return any_wrong;
}
