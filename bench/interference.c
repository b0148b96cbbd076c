// SPDX-License-Identifier: BSD-3-Clause
// Interference of messages in GPU memory with a program's own kernels, on 2 ranks with a GPU each:
//   compute   a kernel of many waves that fills the GPU, alone and during a ping-pong
//   sync      cuCtxSynchronize right after a message, which waits for kernels of the library, and when idle
//   full      messages while a kernel occupies every multiprocessor until they have arrived; a deadlock exits
//             with 1. Its blocks poll a word in GPU memory, or all of them a word in host memory
// WEFT_GPU_RESIDENT_KERNEL=off measures without the resident kernel. Usage: interference [-s] [-j FILE]
//   -s: short, for a trial; -j: JSON output
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/device.h"
#include "common/kernels.h"
#include "common/samples.h"

#ifdef WEFT_HAVE_KERNELS
extern const unsigned char weft_fatbin_interference[];
#define IMAGE weft_fatbin_interference
#else
static const uint64_t IMAGE[1];  // the emulated driver implements the kernel
#endif

enum { THREADS = 256, TRIALS = 15, MOST = 4 << 20, TIMEOUT_S = 20, SMS = 16 };

static int rank, peer, processors = 1;
static void* kernel;
static char *out, *in;
static const char* activity = "starting";

static void stop(const char* what) {
  fprintf(stderr, "interference: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void load_kernel(int device) {
  int (*get_attribute)(int*, int, int) = NULL;
  const struct bench_device_function table[] = {{"cuDeviceGetAttribute", &get_attribute}};
  char error[256];
  if (!bench_device_find(table, 1, error, sizeof error)) stop(error);
  if (get_attribute(&processors, SMS, device) != 0) stop("cuDeviceGetAttribute failed");
  bench_kernels_open();
  kernel = bench_kernels_find(IMAGE, "weft_bench_work");
}

static void launch(unsigned blocks, uint32_t* flag, uint32_t* relay, unsigned value,
                   unsigned long long rounds) {
  uint64_t address = (uint64_t)(uintptr_t)flag, sink = (uint64_t)(uintptr_t)out;
  uint64_t further = (uint64_t)(uintptr_t)relay;
  void* parameters[] = {&address, &value, &rounds, &sink, &further};
  bench_kernels_launch(kernel, blocks, THREADS, parameters);
}

static void ping_pong(int count, int bytes) {
  for (int i = 0; i < count; ++i) {
    if (rank == 0) {
      MPI_Send(out, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
      MPI_Recv(in, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(in, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(out, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
    }
  }
}

/// Messages into receives that are posted already: a library may write there by a mapping of its own.
static void into_posted_receives(int count, int bytes) {
  for (int i = 0; i < 2 * count; ++i) {
    const int receives = rank == i % 2;
    MPI_Request request = MPI_REQUEST_NULL;
    if (receives) MPI_Irecv(in, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!receives) MPI_Send(out, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

static double worst(double mine) {
  double both = 0;
  MPI_Allreduce(&mine, &both, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return both;
}

// --- compute ---

/// Returns the time of one run of the kernel in ms; `busy`: with a ping-pong while it runs on either rank.
static double compute(unsigned long long rounds, bool busy, long* messages) {
  const unsigned blocks = (unsigned)processors * 8 * 64;
  double end = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  launch(blocks, NULL, NULL, 0, rounds);
  for (int mine = 1, any_running = 1; any_running;) {
    any_running = mine;
    if (busy) {  // both ranks stop after the first exchange in which no kernel runs
      int theirs = 0;
      ping_pong(5, 8);
      *messages += 10;
      MPI_Sendrecv(&mine, 1, MPI_INT, peer, 2, &theirs, 1, MPI_INT, peer, 2, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      any_running = mine || theirs;
    }
    if (mine && !bench_kernels_running()) {
      end = MPI_Wtime();
      mine = 0;
    }
  }
  return (end - start) * 1e3;
}

struct figures {
  double quiet, busy, loss, sync_idle, sync_after, sync_after_99, sync_after_most;
  double full[3], full_host_word[3];
  long messages;
};

static void measure_compute(struct figures* f, unsigned long long rounds, int trials) {
  double quiet[TRIALS], busy[TRIALS];
  long warm = 0;
  activity = "computing";
  compute(rounds, true, &warm);
  for (int i = 0; i < trials; ++i) {
    quiet[i] = compute(rounds, false, &warm);
    busy[i] = compute(rounds, true, &f->messages);
  }
  f->quiet = bench_percentile(quiet, trials, 50);
  f->busy = bench_percentile(busy, trials, 50);
  f->loss = worst(100 * (f->busy / f->quiet - 1));
}

// --- sync ---

static double synchronize(void) {
  const double start = MPI_Wtime();
  bench_kernels_wait_device();
  return (MPI_Wtime() - start) * 1e6;
}

static void measure_sync(struct figures* f, int count) {
  double* times = malloc(sizeof *times * (size_t)count);
  if (!times) stop("no memory");
  activity = "synchronising";
  for (int i = 0; i < count; ++i) {
    usleep(1000);
    times[i] = synchronize();
  }
  f->sync_idle = bench_percentile(times, count, 50);
  for (int i = 0; i < count; ++i) {
    ping_pong(10, 8);
    times[i] = synchronize();
  }
  f->sync_after = worst(bench_percentile(times, count, 50));
  f->sync_after_99 = worst(bench_percentile(times, count, 99));
  f->sync_after_most = worst(times[count - 1]);
  free(times);
}

// --- full ---

/// `at_host`: all blocks of the kernel poll a word in host memory.
static void measure_full(double figures[3], bool at_host) {
  static const int sizes[] = {8, 64 << 10, MOST};
  static const uint32_t zero = 0;
  char error[256];
  uint32_t* flag = bench_device_allocate(BENCH_DEVICE_HOST, sizeof *flag, error, sizeof error);
  if (!flag) stop(error);
  *flag = 0;
  uint32_t* relay =
      at_host ? NULL : bench_device_allocate(BENCH_DEVICE_PLAIN, sizeof zero, error, sizeof error);
  if (!at_host && (!relay || !bench_device_write(relay, &zero, sizeof zero, error, sizeof error)))
    stop(error);
  for (int i = 0; i < 3; ++i) {  // loads kernels and maps allocations
    ping_pong(5, sizes[i]);
    into_posted_receives(5, sizes[i]);
  }
  activity = "exchanging messages while a kernel of the program fills both GPUs";
  for (unsigned i = 0; i < 3; ++i) {
    usleep(2000);  // until kernels of the library have ended
    MPI_Barrier(MPI_COMM_WORLD);
    launch((unsigned)processors * 16, flag, relay, i + 1, 0);
    usleep(5000);
    if (!bench_kernels_running()) stop("the kernel that fills the GPU has ended early");
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    ping_pong(10, sizes[i]);
    figures[i] = worst((MPI_Wtime() - start) * 1e6 / 20);
    __atomic_store_n(flag, i + 1, __ATOMIC_RELEASE);
    while (bench_kernels_running()) usleep(100);
  }
  if (relay) bench_device_free(BENCH_DEVICE_PLAIN, relay);
  bench_device_free(BENCH_DEVICE_HOST, flag);
}

static void on_alarm(int number) {
  (void)number;
  fprintf(stderr, "interference: rank %d: no progress for %d s while %s: a deadlock\n", rank, TIMEOUT_S,
          activity);
  _exit(1);
}

static void report(FILE* file, const struct figures* f, const char* device) {
  const char* resident_kernel = getenv("WEFT_GPU_RESIDENT_KERNEL");
  fprintf(file,
          "{\"program\": \"interference\", \"device\": \"%s\", \"resident_kernel\": \"%s\",\n"
          " \"compute_alone_ms\": %.3f, \"compute_with_messages_ms\": %.3f, \"loss_percent\": %.3f,"
          " \"messages\": %ld,\n"
          " \"sync_idle_us\": %.2f, \"sync_after_message_us\": %.2f, \"sync_after_message_99_us\": %.2f,"
          " \"sync_after_message_most_us\": %.2f,\n"
          " \"full_gpu_one_way_us\": {\"8\": %.1f, \"65536\": %.1f, \"4194304\": %.1f},\n"
          " \"full_gpu_host_word_one_way_us\": {\"8\": %.1f, \"65536\": %.1f, \"4194304\": %.1f}}\n",
          device, resident_kernel ? resident_kernel : "auto", f->quiet, f->busy, f->loss, f->messages,
          f->sync_idle, f->sync_after, f->sync_after_99, f->sync_after_most, f->full[0], f->full[1],
          f->full[2], f->full_host_word[0], f->full_host_word[1], f->full_host_word[2]);
}

int main(int argc, char** argv) {
  bool trial = false;
  const char* json = NULL;
  for (int option; (option = getopt(argc, argv, "sj:")) != -1;) {
    if (option == 's') trial = true;
    if (option == 'j') json = optarg;
    if (option == '?') return 2;
  }
  char error[256];
  struct bench_device_info info;
  int ranks = 0;
  if (!bench_device_open(bench_local_rank() < 0 ? 0 : bench_local_rank(), &info, error, sizeof error)) {
    fprintf(stderr, "interference: %s\n", error);
    return 77;
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2) stop("2 ranks are needed");
  peer = 1 - rank;
  signal(SIGALRM, on_alarm);
  alarm(TIMEOUT_S * 3);
  load_kernel(info.ordinal);
  out = bench_device_allocate(BENCH_DEVICE_PLAIN, MOST, error, sizeof error);
  in = bench_device_allocate(BENCH_DEVICE_PLAIN, MOST, error, sizeof error);
  if (!out || !in) stop(error);
  ping_pong(100, 8);
  struct figures figures = {0};
  measure_compute(&figures, trial ? 100 : 60000, trial ? 3 : TRIALS);
  alarm(TIMEOUT_S);
  measure_sync(&figures, trial ? 20 : 1000);
  alarm(TIMEOUT_S);
  measure_full(figures.full, false);
  alarm(TIMEOUT_S);
  measure_full(figures.full_host_word, true);
  alarm(0);
  if (rank == 0) report(stdout, &figures, info.name);
  FILE* file = rank == 0 && json ? fopen(json, "w") : NULL;
  if (file) report(file, &figures, info.name);
  if (file) fclose(file);
  bench_device_free(BENCH_DEVICE_PLAIN, out);
  bench_device_free(BENCH_DEVICE_PLAIN, in);
  MPI_Finalize();
  return 0;
}
