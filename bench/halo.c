// SPDX-License-Identifier: BSD-3-Clause
// Operations on GPU memory: reductions, packing and unpacking inside a GPU; between two GPUs the column of a
// matrix and the faces of a cube, relative to a contiguous message of the same size. Medians, since unmapping
// of freed memory takes milliseconds in some rounds. 1 or 2 ranks. Usage: halo [-s] [-v] [-p] [-j FILE]
//   -s: small sizes, for a trial; -v: check received data; -p: only between two GPUs
//   -j: also JSON, an array of {"work", "us", "of_reference"}
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/device.h"
#include "common/samples.h"

static int rank, ranks;
static bool small, check, pairs_only;
static FILE* json;
static int json_rows;

static void stop(const char* what) {
  fprintf(stderr, "halo: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static char* allocate(size_t bytes) {
  char error[256];
  char* memory = bench_device_allocate(BENCH_DEVICE_PLAIN, bytes, error, sizeof error);
  if (!memory) stop(error);
  return memory;
}

static void release(char* memory) { bench_device_free(BENCH_DEVICE_PLAIN, memory); }

static void row(const char* what, double bytes, double seconds, double reference) {
  if (rank != 0) return;
  const double ratio = reference > 0 ? bytes / seconds / reference : 1.0;
  printf("%-44s %12.1f us %10.1f GB/s %8.2f\n", what, seconds * 1e6, bytes / seconds * 1e-9, ratio);
  if (json)
    fprintf(json, "%s\n  {\"work\": \"%s\", \"us\": %.2f, \"of_reference\": %.3f}", json_rows++ ? "," : "[",
            what, seconds * 1e6, ratio);
}

// --- inside one GPU: the last column is the rate divided by that of a copy ---

typedef void (*work)(void* state);

static double time_of(work run, void* state) {
  run(state);
  run(state);
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    const double start = MPI_Wtime();
    run(state);
    const double seconds = MPI_Wtime() - start;
    if (seconds < best) best = seconds;
  }
  return best;
}

struct packing {
  char *data, *packed;
  MPI_Datatype type;
  MPI_Count count, bytes;
};

static void pack(void* state) {
  const struct packing* p = state;
  MPI_Count position = 0;
  MPI_Pack_c(p->data, p->count, p->type, p->packed, p->bytes, &position, MPI_COMM_SELF);
}

static void unpack(void* state) {
  const struct packing* p = state;
  MPI_Count position = 0;
  MPI_Unpack_c(p->packed, p->bytes, &position, p->data, p->count, p->type, MPI_COMM_SELF);
}

struct reduction {
  char *in, *inout;
  MPI_Datatype type;
  MPI_Op op;
  MPI_Count count;
};

static void reduce(void* state) {
  const struct reduction* r = state;
  MPI_Reduce_local_c(r->in, r->inout, r->count, r->type, r->op);
}

static void inside(void) {
  const size_t bytes = small ? 1 << 20 : 1 << 30;
  char *data = allocate(2 * bytes), *packed = allocate(bytes);
  struct packing plain = {data, packed, MPI_BYTE, (MPI_Count)bytes, (MPI_Count)bytes};
  const double seconds = time_of(pack, &plain), copy = 2.0 * (double)bytes / seconds;
  row("copy 1 GiB", 2.0 * (double)bytes, seconds, 0);

  struct packing strided = {data, packed, MPI_DATATYPE_NULL, 1, (MPI_Count)bytes};
  MPI_Type_vector((int)(bytes / 8), 1, 2, MPI_DOUBLE, &strided.type);
  MPI_Type_commit(&strided.type);
  row("pack 1 GiB, blocks of 8 B, stride 16 B", 3.0 * (double)bytes, time_of(pack, &strided), copy);
  row("unpack the same", 3.0 * (double)bytes, time_of(unpack, &strided), copy);
  MPI_Type_free(&strided.type);

  const struct {
    const char* name;
    MPI_Datatype type;
    MPI_Op op;
    int size;
  } kinds[] = {{"float sum", MPI_FLOAT, MPI_SUM, 4},
               {"double sum", MPI_DOUBLE, MPI_SUM, 8},
               {"half sum", MPI_REAL2, MPI_SUM, 2},
               {"int32 max", MPI_INT32_T, MPI_MAX, 4},
               {"int8 sum", MPI_INT8_T, MPI_SUM, 1},
               {"complex product", MPI_C_DOUBLE_COMPLEX, MPI_PROD, 16},
               {"float_int minloc", MPI_FLOAT_INT, MPI_MINLOC, 8}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
    for (size_t n = bytes / 1024; n <= bytes / 2; n *= 16) {
      struct reduction r = {data, packed, kinds[i].type, kinds[i].op, (MPI_Count)(n / (size_t)kinds[i].size)};
      char name[64];
      snprintf(name, sizeof name, "reduce_local %s, %zu KiB", kinds[i].name, n >> 10);
      row(name, 3.0 * (double)n, time_of(reduce, &r), copy);
    }
  release(packed);
  release(data);
}

// --- between two GPUs: the last column is the rate divided by that of the contiguous message ---

struct message {
  char* buffer;
  MPI_Count count;
  MPI_Datatype type;
};

/// Returns the latency: half of a ping-pong.
static double latency(const struct message* m) {
  enum { kRounds = 200 };
  double times[kRounds];
  const int other = 1 - rank;
  for (int i = -20; i < kRounds; ++i) {
    const double start = MPI_Wtime();
    if (rank == 0) MPI_Send_c(m->buffer, m->count, m->type, other, 0, MPI_COMM_WORLD);
    MPI_Recv_c(m->buffer, m->count, m->type, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send_c(m->buffer, m->count, m->type, other, 0, MPI_COMM_WORLD);
    if (i >= 0) times[i] = MPI_Wtime() - start;
  }
  return bench_percentile(times, kRounds, 50) / 2;
}

/// Returns the time per message in a window from rank 0 to rank 1.
static double windowed(const struct message* m) {
  enum { kWindow = 16, kRounds = 20 };
  MPI_Request requests[kWindow];
  double times[kRounds];
  for (int round = -3; round < kRounds; ++round) {
    const double start = MPI_Wtime();
    for (int i = 0; i < kWindow; ++i)
      if (rank == 0)
        MPI_Isend_c(m->buffer, m->count, m->type, 1, i, MPI_COMM_WORLD, &requests[i]);
      else
        MPI_Irecv_c(m->buffer, m->count, m->type, 0, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(NULL, 0, MPI_BYTE, 1 - rank, 99, NULL, 0, MPI_BYTE, 1 - rank, 99, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (round >= 0) times[round] = MPI_Wtime() - start;
  }
  return bench_percentile(times, kRounds, 50) / kWindow;
}

/// Checks that rank 0's data arrive at the same offsets on rank 1, and that no other byte changes there.
static void validate(const struct message* m, size_t capacity, const char* what) {
  char error[256];
  unsigned char *mine = malloc(capacity), *got = malloc(capacity);
  if (!mine || !got) stop("no memory");
  for (size_t i = 0; i < capacity; ++i) mine[i] = (unsigned char)(i * 2654435761u >> 13);
  unsigned char* wanted = malloc(capacity);
  memset(wanted, 0x77, capacity);
  MPI_Count bytes = 0, position = 0;
  MPI_Type_size_c(m->type, &bytes);
  bytes *= m->count;
  char* stream = malloc((size_t)bytes);
  MPI_Pack_c(mine, m->count, m->type, stream, bytes, &position, MPI_COMM_SELF);
  position = 0;
  MPI_Unpack_c(stream, bytes, &position, wanted, m->count, m->type, MPI_COMM_SELF);
  memset(got, 0x77, capacity);
  if (!bench_device_write(m->buffer, rank == 0 ? mine : got, capacity, error, sizeof error)) stop(error);
  if (rank == 0)
    MPI_Send_c(m->buffer, m->count, m->type, 1, 0, MPI_COMM_WORLD);
  else
    MPI_Recv_c(m->buffer, m->count, m->type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (!bench_device_read(got, m->buffer, capacity, error, sizeof error)) stop(error);
  if (rank == 1 && memcmp(got, wanted, capacity) != 0) {
    fprintf(stderr, "halo: %s: wrong bytes\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  free(stream);
  free(wanted);
  free(got);
  free(mine);
}

struct reference {
  double latency, window;
};

static struct reference contiguous(char* buffer, size_t bytes) {
  const struct message m = {buffer, (MPI_Count)bytes, MPI_BYTE};
  const struct reference seconds = {latency(&m), windowed(&m)};
  char name[64];
  snprintf(name, sizeof name, "contiguous %zu KiB", bytes >> 10);
  row(name, (double)bytes, seconds.latency, 0);
  snprintf(name, sizeof name, "contiguous %zu KiB, in a window", bytes >> 10);
  row(name, (double)bytes, seconds.window, 0);
  return seconds;
}

static void strided(const char* what, char* buffer, MPI_Datatype type, size_t bytes, size_t capacity,
                    struct reference reference) {
  MPI_Type_commit(&type);
  const struct message m = {buffer, 1, type};
  if (check) validate(&m, capacity, what);
  char name[64];
  row(what, (double)bytes, latency(&m), (double)bytes / reference.latency);
  snprintf(name, sizeof name, "%s, in a window", what);
  row(name, (double)bytes, windowed(&m), (double)bytes / reference.window);
  MPI_Type_free(&type);
}

static void column(void) {
  const int blocks = small ? 1024 : 16384, pitch = small ? 4096 : 65536;
  const size_t capacity = (size_t)blocks * (size_t)pitch;
  char* matrix = allocate(capacity);
  const struct reference reference = contiguous(matrix, (size_t)blocks * 4);
  MPI_Datatype type;
  MPI_Type_vector(blocks, 1, pitch / 4, MPI_FLOAT, &type);
  strided("column of 4 B blocks, stride 64 KiB", matrix, type, (size_t)blocks * 4, capacity, reference);
  release(matrix);
}

static void faces(void) {
  const int n = small ? 64 : 512;
  const size_t bytes = (size_t)n * (size_t)n * 8, capacity = bytes * (size_t)n;
  char* cube = allocate(capacity);
  const struct reference reference = contiguous(cube, bytes);
  const char* const names[] = {"z face of a cube of doubles", "y face", "x face"};
  for (int axis = 0; axis < 3; ++axis) {
    int sizes[3] = {n, n, n}, parts[3] = {n, n, n}, starts[3] = {0, 0, 0};
    parts[axis] = 1;
    starts[axis] = n / 2;
    MPI_Datatype type;
    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    strided(names[axis], cube, type, bytes, capacity, reference);
  }
  release(cube);
}

enum { kMessages = 6 };

/// Messages of one round, all in flight together: from rank 0 to rank 1, or in both directions.
struct together {
  struct message out[kMessages], in[kMessages];
};

/// Returns the seconds of a round.
static double together_time(const struct together* all, bool both) {
  enum { kRounds = 100 };
  MPI_Request requests[2 * kMessages];
  double times[kRounds];
  const int other = 1 - rank;
  for (int round = -10; round < kRounds; ++round) {
    const double start = MPI_Wtime();
    int n = 0;
    for (int i = 0; i < kMessages; ++i)
      if (both || rank == 1)
        MPI_Irecv_c(all->in[i].buffer, all->in[i].count, all->in[i].type, other, i, MPI_COMM_WORLD,
                    &requests[n++]);
    for (int i = 0; i < kMessages; ++i)
      if (both || rank == 0)
        MPI_Isend_c(all->out[i].buffer, all->out[i].count, all->out[i].type, other, i, MPI_COMM_WORLD,
                    &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(NULL, 0, MPI_BYTE, other, 99, NULL, 0, MPI_BYTE, other, 99, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (round >= 0) times[round] = MPI_Wtime() - start;
  }
  return bench_percentile(times, kRounds, 50);
}

/// All six faces of a cube. Each axis receives into a cube of its own, since receives must not overlap.
static void six_faces(void) {
  const int n = small ? 64 : 512;
  const size_t bytes = (size_t)n * (size_t)n * 8, capacity = bytes * (size_t)n;
  char *cube = allocate(capacity), *halos[3];
  struct together faces, plain;
  MPI_Datatype types[kMessages];
  for (int axis = 0; axis < 3; ++axis) {
    halos[axis] = allocate(capacity);
    for (int side = 0; side < 2; ++side) {
      const int i = 2 * axis + side, sizes[3] = {n, n, n};
      int parts[3] = {n, n, n}, starts[3] = {0, 0, 0};
      parts[axis] = 1;
      starts[axis] = side ? n - 1 : 0;
      MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &types[i]);
      MPI_Type_commit(&types[i]);
      faces.out[i] = (struct message){cube, 1, types[i]};
      faces.in[i] = (struct message){halos[axis], 1, types[i]};
      plain.out[i] = (struct message){cube + (size_t)i * bytes, (MPI_Count)bytes, MPI_BYTE};
      plain.in[i] = (struct message){halos[axis] + (size_t)side * bytes, (MPI_Count)bytes, MPI_BYTE};
    }
  }
  const char* const names[] = {"six contiguous messages", "six faces of a cube",
                               "six contiguous messages, both ways", "six faces of a cube, both ways"};
  const double total = (double)bytes * kMessages;
  for (int both = 0; both < 2; ++both) {
    const double reference = together_time(&plain, both), seconds = together_time(&faces, both);
    row(names[2 * both], total, reference, 0);
    row(names[2 * both + 1], total, seconds, total / reference);
  }
  for (int i = 0; i < kMessages; ++i) MPI_Type_free(&types[i]);
  for (int axis = 0; axis < 3; ++axis) release(halos[axis]);
  release(cube);
}

int main(int argc, char** argv) {
  char error[256];
  struct bench_device_info info;
  const char* json_file = NULL;
  for (int i = 1; i < argc; ++i) {
    if (!strcmp(argv[i], "-s")) small = true;
    if (!strcmp(argv[i], "-v")) check = true;
    if (!strcmp(argv[i], "-p")) pairs_only = true;
    if (!strcmp(argv[i], "-j") && i + 1 < argc) json_file = argv[++i];
  }
  if (!bench_device_open(bench_local_rank() < 0 ? 0 : bench_local_rank(), &info, error, sizeof error)) {
    fprintf(stderr, "halo: %s\n", error);
    return 3;
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0 && json_file && !(json = fopen(json_file, "w"))) stop("cannot write the JSON file");
  if (rank == 0) printf("%-44s %15s %15s %8s\n", "# work", "time", "rate", "of ref.");
  if (rank == 0 && !pairs_only) inside();
  MPI_Barrier(MPI_COMM_WORLD);
  if (ranks == 2) {
    column();
    faces();
    six_faces();
  }
  if (json) {
    fputs("\n]\n", json);
    fclose(json);
  }
  MPI_Finalize();
  bench_device_close();
  return 0;
}
