// SPDX-License-Identifier: BSD-3-Clause
// The communication of a distributed Fourier transform of a cube of complex numbers: between local steps, the
// data are redistributed by packing a strided block for each rank, messages, and unpacking. Times each pair
// of a forward and a backward transform by itself, after one untimed pair. Usage: transform [options]
//   -n EDGE   of the cube (64)
//   -r PAIRS  of transforms (200)
//   -s STEPS  redistributions of a transform, an even number (4)
//   -x HOW    p2p: for each rank a kernel packs, the program waits for it and sends; p2p_pl: the same with
//             nonblocking sends; a2a, a2av: MPI_Alltoall, MPI_Alltoallv (p2p)
//   -d KIND   cuda or host memory (cuda)
//   -j FILE   JSON output
#define _GNU_SOURCE
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/device.h"
#include "common/kernels.h"
#include "common/report.h"

enum { MOST_PAIRS = 10000, TAG = 1, TIMEOUT_S = 300, FIRST = 5 };

static struct {
  size_t edge;
  int pairs, steps;
  const char *how, *json;
  bool cuda;
} options = {64, 200, 4, "p2p", NULL, true};

static int rank, ranks;
static size_t block, local;  // doubles of a message, and of the part of a rank
static double *data, *work, *out;
static double* in[2];  // by turns: kernels may still unpack one while messages arrive in the other
static int turn;
static MPI_Request *sends, *receives;
static int *counts, *displacements;

static void stop(const char* what) {
  fprintf(stderr, "transform: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

static void* allocate_host(size_t bytes) {
  void* memory = malloc(bytes);
  if (!memory) stop("no memory");
  return memory;
}

static double* allocate(void) {
  char error[256];
  if (!options.cuda) return allocate_host(local * sizeof(double));
  double* memory = bench_device_allocate(BENCH_DEVICE_PLAIN, local * sizeof(double), error, sizeof error);
  if (!memory) stop(error);
  return memory;
}

static void release(double* memory) {
  if (options.cuda) bench_device_free(BENCH_DEVICE_PLAIN, memory);
  if (!options.cuda) free(memory);
}

static void copy(double* to, size_t to_stride, const double* from, size_t from_stride, size_t count) {
  if (options.cuda) bench_kernels_copy(to, to_stride, from, from_stride, count);
  for (size_t i = 0; i < count && !options.cuda; ++i) to[i * to_stride] = from[i * from_stride];
}

static void wait_for_kernels(void) {
  if (options.cuda) bench_kernels_wait();
}

/// Element i of the block for rank r is number i * ranks + r: twice the same redistribution changes nothing.
static void pack(int to) { copy(out + (size_t)to * block, 1, data + to, (size_t)ranks, block); }
static void unpack(int from, const double* memory) {
  copy(data + from, (size_t)ranks, memory + (size_t)from * block, 1, block);
}

static void redistribute_by_messages(bool pipelined) {
  double* const into = in[turn];
  turn = !turn;
  for (int step = 1; step < ranks; ++step) {
    const int from = (rank - step + ranks) % ranks;
    MPI_Irecv(into + (size_t)from * block, (int)block, MPI_DOUBLE, from, TAG, MPI_COMM_WORLD,
              &receives[step - 1]);
  }
  for (int step = 1; step < ranks; ++step) {
    const int to = (rank + step) % ranks;
    pack(to);
    wait_for_kernels();
    if (pipelined)
      MPI_Isend(out + (size_t)to * block, (int)block, MPI_DOUBLE, to, TAG, MPI_COMM_WORLD, &sends[step - 1]);
    else
      MPI_Send(out + (size_t)to * block, (int)block, MPI_DOUBLE, to, TAG, MPI_COMM_WORLD);
  }
  for (int step = 1; step < ranks; ++step) {
    int index = 0;
    MPI_Waitany(ranks - 1, receives, &index, MPI_STATUS_IGNORE);
    unpack((rank - index - 1 + ranks) % ranks, into);
  }
  if (pipelined) MPI_Waitall(ranks - 1, sends, MPI_STATUSES_IGNORE);
}

static void redistribute_by_collective(bool vector) {
  for (int to = 0; to < ranks; ++to) pack(to);
  wait_for_kernels();
  if (vector)
    MPI_Alltoallv(out, counts, displacements, MPI_DOUBLE, in[0], counts, displacements, MPI_DOUBLE,
                  MPI_COMM_WORLD);
  else
    MPI_Alltoall(out, (int)block, MPI_DOUBLE, in[0], (int)block, MPI_DOUBLE, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from) unpack(from, in[0]);
}

static void transform(void) {
  for (int step = 0; step < options.steps; ++step) {
    copy(work, 1, data, 1, local);  // stands for the transforms along one axis: reads and writes everything
    copy(data, 1, work, 1, local);
    if (options.how[0] == 'p')
      redistribute_by_messages(strcmp(options.how, "p2p_pl") == 0);
    else
      redistribute_by_collective(strcmp(options.how, "a2av") == 0);
  }
  wait_for_kernels();
}

/// Writes or compares element i of this rank's part.
static double element(size_t i) { return (double)rank * 1e9 + (double)i; }

static void load(const double* image) {
  char error[256];
  if (!options.cuda) memcpy(data, image, local * sizeof(double));
  if (options.cuda && !bench_device_write(data, image, local * sizeof(double), error, sizeof error))
    stop(error);
}

static void store(double* image) {
  char error[256];
  if (!options.cuda) memcpy(image, data, local * sizeof(double));
  if (options.cuda && !bench_device_read(image, data, local * sizeof(double), error, sizeof error))
    stop(error);
}

/// Returns whether all data are where they were. One redistribution alone must move each block to its rank.
static bool compare(double* image) {
  store(image);
  for (size_t i = 0; i < local; ++i)
    if (image[i] != element(i)) return false;
  options.steps = 1;
  transform();
  store(image);
  for (size_t i = 0; i < local; ++i) {
    const size_t from = i % (size_t)ranks, there = i - from + (size_t)rank;
    if (image[i] != (double)from * 1e9 + (double)there) return false;
  }
  return true;
}

static double mean(const double* us, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += us[i];
  return sum / count;
}

static bool report(const double* us, bool right) {
  const int first = options.pairs < FIRST ? options.pairs : FIRST;
  printf("# %s, %zu^3, %d ranks, %s memory, messages of %zu bytes: us for a pair of transforms%s\n",
         options.how, options.edge, ranks, options.cuda ? "cuda" : "host", block * sizeof(double),
         right ? "" : "; WRONG DATA");
  printf("mean of the first %d: %.2f\nmean of all %d: %.2f\n", first, mean(us, first), options.pairs,
         mean(us, options.pairs));
  if (!options.json) return true;
  static char fields[32 * MOST_PAIRS + 256];
  char* at = fields;
  at += sprintf(at, "\"how\": \"%s\", \"edge\": %zu, \"valid\": %s, \"us\": [", options.how, options.edge,
                right ? "true" : "false");
  for (int i = 0; i < options.pairs; ++i) at += sprintf(at, "%s%.2f", i ? ", " : "", us[i]);
  sprintf(at, "]");
  const struct bench_plain_row row = {block * sizeof(double), options.cuda ? "D D" : "H H", fields};
  return bench_report_plain(options.json, "transform", ranks, &row, 1);
}

static bool parse(int argc, char** argv) {
  for (int option; (option = getopt(argc, argv, "n:r:s:x:d:j:")) != -1;) {
    if (option == 'n') options.edge = (size_t)atoll(optarg);
    if (option == 'r') options.pairs = atoi(optarg);
    if (option == 's') options.steps = atoi(optarg);
    if (option == 'x') options.how = optarg;
    if (option == 'd') options.cuda = strcmp(optarg, "host") != 0;
    if (option == 'j') options.json = optarg;
    if (option == '?') return false;
  }
  bool known = false;
  for (const char* const* name = (const char*[]){"p2p", "p2p_pl", "a2a", "a2av", NULL}; *name; ++name)
    known = known || strcmp(options.how, *name) == 0;
  return known && optind == argc && options.edge > 0 && options.edge <= 1024 && options.pairs > 0 &&
         options.pairs <= MOST_PAIRS && options.steps > 0 && options.steps % 2 == 0;
}

static void prepare(void) {
  block = 2 * options.edge * options.edge * options.edge / ((size_t)ranks * (size_t)ranks);
  if (block == 0 || block > INT32_MAX) stop("the cube is too small or too large for this number of ranks");
  local = block * (size_t)ranks;
  sends = allocate_host(sizeof *sends * (size_t)ranks);
  receives = allocate_host(sizeof *receives * (size_t)ranks);
  counts = allocate_host(sizeof *counts * (size_t)ranks);
  displacements = allocate_host(sizeof *displacements * (size_t)ranks);
  for (int i = 0; i < ranks; ++i) {
    sends[i] = receives[i] = MPI_REQUEST_NULL;
    counts[i] = (int)block;
    displacements[i] = (int)block * i;
  }
  double** const arrays[] = {&data, &work, &out, &in[0], &in[1]};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i) *arrays[i] = allocate();
  if (options.cuda) bench_kernels_load();
}

int main(int argc, char** argv) {
  static double us[MOST_PAIRS];
  char error[256];
  struct bench_device_info device;
  if (!parse(argc, argv)) {
    fprintf(stderr,
            "usage: transform [-n EDGE] [-r PAIRS] [-s STEPS] [-x p2p|p2p_pl|a2a|a2av] [-d cuda|host] [-j "
            "FILE]\n");
    return 2;
  }
  const int node_rank = bench_local_rank();
  if (options.cuda && !bench_device_open(node_rank < 0 ? 0 : node_rank, &device, error, sizeof error)) {
    fprintf(stderr, "transform: %s\n", error);
    return 77;
  }
  alarm(TIMEOUT_S);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  prepare();
  double* image = allocate_host(local * sizeof(double));
  for (size_t i = 0; i < local; ++i) image[i] = element(i);
  load(image);
  transform();
  transform();
  MPI_Barrier(MPI_COMM_WORLD);
  double last = MPI_Wtime();
  for (int i = 0; i < options.pairs; ++i) {
    transform();
    transform();
    const double end = MPI_Wtime();
    us[i] = (end - last) * 1e6;
    last = end;
  }
  MPI_Reduce(rank == 0 ? MPI_IN_PLACE : us, us, options.pairs, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  int wrong = !compare(image), any_wrong = 0;
  MPI_Allreduce(&wrong, &any_wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0 && !report(us, !any_wrong)) any_wrong = 1;
  release(data);
  release(work);
  release(out);
  release(in[0]);
  release(in[1]);
  MPI_Finalize();
  return any_wrong;
}
