// SPDX-License-Identifier: BSD-3-Clause
// Collectives with layouts on GPU memory, beside MPI_Alltoall of the same bytes in the same rounds: counts
// and datatypes for each peer, runs of 8 bytes, the transpose of a distributed cube along each axis by
// MPI_Alltoallw with subarrays, and the faces of a cube by MPI_Neighbor_alltoallw. Medians over rounds; a
// round takes the slowest rank's time. Compare WEFT_COLL_GPU_LAYOUTS=on and off,
// and WEFT_COLL_GPU_LAYOUTS_PAIRS_MAX_BYTES=0, 4m and 1g. Usage: layouts [options]
//   -e EDGE   of the transposed cube of complex doubles (512)
//   -f EDGE   of the cube of doubles with faces (256)
//   -r ROUNDS (100; transposes and faces a tenth)
//   -d KIND   cuda or host memory (cuda)
//   -j FILE   JSON output, an array of {"title", "row", "median_us", "least_us", "ratio"}
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/device.h"
#include "common/samples.h"

enum { MOST_ROUNDS = 10000, MOST_RANKS = 64, FACES = 6 };

static int rank, ranks, rounds = 100;
static size_t edge = 512, face_edge = 256;
static bool cuda = true;
static FILE* json;
static int json_rows;

static void stop(const char* what) {
  fprintf(stderr, "layouts: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
  abort();
}

static char* allocate(size_t bytes) {
  char error[256];
  char* memory = cuda ? bench_device_allocate(BENCH_DEVICE_PLAIN, bytes, error, sizeof error) : malloc(bytes);
  if (!memory) stop(cuda ? error : "no memory");
  return memory;
}

static void release(char* memory) {
  if (cuda)
    bench_device_free(BENCH_DEVICE_PLAIN, memory);
  else
    free(memory);
}

// Arguments of one call. Displacements of blocks in counts of `block` bytes, or in bytes with datatypes.
struct call {
  const char* row;
  void (*run)(const struct call* call);
  char *from, *to;
  MPI_Comm comm;
  int counts[MOST_RANKS], in_counts[MOST_RANKS], out_at[MOST_RANKS], in_at[MOST_RANKS];
  MPI_Aint out_bytes_at[FACES], in_bytes_at[FACES];
  MPI_Datatype out[MOST_RANKS], in[MOST_RANKS];
};

static void alltoall(const struct call* c) {
  MPI_Alltoall(c->from, c->counts[0], c->out[0], c->to, c->counts[0], c->in[0], c->comm);
}
static void alltoallv(const struct call* c) {
  MPI_Alltoallv(c->from, c->counts, c->out_at, c->out[0], c->to, c->in_counts, c->in_at, c->in[0], c->comm);
}
static void alltoallw(const struct call* c) {
  MPI_Alltoallw(c->from, c->counts, c->out_at, c->out, c->to, c->in_counts, c->in_at, c->in, c->comm);
}
static void neighbor_alltoallw(const struct call* c) {
  MPI_Neighbor_alltoallw(c->from, c->counts, c->out_bytes_at, c->out, c->to, c->in_counts, c->in_bytes_at,
                         c->in, c->comm);
}

/// Fills the arguments of equal contiguous blocks of `bytes` each; `out` and `in` have the type `type`.
static void equal_blocks(struct call* c, const char* row, void (*run)(const struct call*), char* from,
                         char* to, int count, MPI_Datatype type, int stride) {
  *c = (struct call){.row = row, .run = run, .from = from, .to = to, .comm = MPI_COMM_WORLD};
  for (int i = 0; i < ranks; ++i) {
    c->counts[i] = c->in_counts[i] = count;
    c->out_at[i] = c->in_at[i] = i * stride;
    c->out[i] = c->in[i] = type;
  }
}

/// Measures the calls in alternating rounds, and prints each beside the first one.
static void measure(const char* title, const struct call* calls, int n, int times) {
  static double samples[4][MOST_ROUNDS];
  for (int round = -5; round < times; ++round)
    for (int i = 0; i < n; ++i) {
      enum { INNER = 4 };
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      for (int k = 0; k < INNER; ++k) calls[i].run(&calls[i]);
      const double mine = (MPI_Wtime() - start) / INNER;
      double slowest = 0;
      MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (round >= 0) samples[i][round] = slowest;
    }
  double first = 0;
  for (int i = 0; i < n; ++i) {
    const double median = bench_percentile(samples[i], times, 50),
                 least = bench_percentile(samples[i], times, 0);
    if (i == 0) first = median;
    if (rank != 0) continue;
    printf("%-28s %-34s %10.2f us, least %10.2f %8.3f\n", title, calls[i].row, median * 1e6, least * 1e6,
           median / first);
    if (json)
      fprintf(json,
              "%s\n  {\"title\": \"%s\", \"row\": \"%s\", \"median_us\": %.2f, \"least_us\": %.2f, "
              "\"ratio\": %.3f}",
              json_rows++ ? "," : "[", title, calls[i].row, median * 1e6, least * 1e6, median / first);
  }
}

static void blocks(int bytes) {
  const size_t room = (size_t)bytes * (size_t)ranks * 2;
  char *from = allocate(room), *to = allocate(room);
  struct call calls[4];
  MPI_Datatype runs, resized;
  MPI_Type_vector(bytes / 8, 1, 2, MPI_DOUBLE, &runs);
  MPI_Type_create_resized(runs, 0, 2 * bytes, &resized);
  MPI_Type_commit(&resized);
  equal_blocks(&calls[0], "alltoall", alltoall, from, to, bytes, MPI_BYTE, 0);
  equal_blocks(&calls[1], "alltoallv", alltoallv, from, to, bytes, MPI_BYTE, bytes);
  equal_blocks(&calls[2], "alltoallw", alltoallw, from, to, bytes, MPI_BYTE, bytes);
  equal_blocks(&calls[3], "alltoall of runs of 8 B", alltoall, from, to, 1, resized, 0);
  char title[32];
  snprintf(title, sizeof title, "bytes %d", bytes);
  const int times = bytes > 65536 ? rounds / 2 : rounds;
  measure(title, calls, 3, times);
  const struct call runs_of_8[2] = {calls[0],
                                    calls[3]};  // apart: a launched kernel delays the calls after it
  measure(title, runs_of_8, 2, times);
  MPI_Type_free(&runs);
  MPI_Type_free(&resized);
  release(from);
  release(to);
}

/// A cube whose first axis is distributed becomes one whose axis `axis` is.
static MPI_Datatype part(const int whole[3], int axis, int size, int at) {
  int sub[3] = {whole[0], whole[1], whole[2]}, start[3] = {0, 0, 0};
  sub[axis] = size;
  start[axis] = at;
  MPI_Datatype type;
  MPI_Type_create_subarray(3, whole, sub, start, MPI_ORDER_C, MPI_C_DOUBLE_COMPLEX, &type);
  MPI_Type_commit(&type);
  return type;
}

static void transposes(void) {
  const int n = (int)edge - (int)edge % ranks, slab = n / ranks;
  const size_t bytes = (size_t)n * (size_t)n * (size_t)slab * 16;
  char *from = allocate(bytes), *to = allocate(bytes);
  struct call calls[3];
  equal_blocks(&calls[0], "alltoall of the same bytes", alltoall, from, to, (int)(bytes / (size_t)ranks),
               MPI_BYTE, 0);
  for (int axis = 1; axis < 3; ++axis) {
    struct call* c = &calls[axis];
    equal_blocks(c, axis == 1 ? "transpose of axis 1" : "transpose of axis 2", alltoallw, from, to, 1,
                 MPI_BYTE, 0);
    int before[3] = {slab, n, n}, after[3] = {n, n, n};
    after[axis] = slab;
    for (int i = 0; i < ranks; ++i) {
      c->out[i] = part(before, axis, slab, i * slab);
      c->in[i] = part(after, 0, slab, i * slab);
    }
  }
  char title[48];
  snprintf(title, sizeof title, "%d^3 complex doubles", n);
  measure(title, calls, 3, rounds / 10 + 1);
  for (int axis = 1; axis < 3; ++axis)
    for (int i = 0; i < ranks; ++i) {
      MPI_Type_free(&calls[axis].out[i]);
      MPI_Type_free(&calls[axis].in[i]);
    }
  release(from);
  release(to);
}

/// The faces of a cube with a layer of halo, to the neighbors in a periodic grid of the ranks.
static void faces(void) {
  const int n = (int)face_edge, whole[3] = {n + 2, n + 2, n + 2};
  int dims[3] = {0, 0, 0};
  const int periods[3] = {1, 1, 1};
  const size_t bytes = (size_t)(n + 2) * (size_t)(n + 2) * (size_t)(n + 2) * sizeof(double);
  char *cube = allocate(bytes), *from = allocate((size_t)n * (size_t)n * FACES * 8),
       *to = allocate((size_t)n * (size_t)n * FACES * 8);
  MPI_Comm grid;
  MPI_Dims_create(ranks, 3, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid);
  struct call calls[2] = {
      {.row = "contiguous faces", .run = neighbor_alltoallw, .from = from, .to = to, .comm = grid},
      {.row = "faces in place", .run = neighbor_alltoallw, .from = cube, .to = cube, .comm = grid}};
  for (int i = 0; i < FACES; ++i) {
    const int axis = i / 2, upper = i % 2;
    int sub[3] = {n, n, n}, start[3] = {1, 1, 1};
    sub[axis] = 1;
    for (int side = 0; side < 2; ++side) {
      MPI_Datatype* type = side == 0 ? &calls[1].out[i] : &calls[1].in[i];
      start[axis] = side == 0 ? (upper ? n : 1) : (upper ? n + 1 : 0);
      MPI_Type_create_subarray(3, whole, sub, start, MPI_ORDER_C, MPI_DOUBLE, type);
      MPI_Type_commit(type);
    }
    for (int k = 0; k < 2; ++k) calls[k].counts[i] = calls[k].in_counts[i] = k == 0 ? n * n : 1;
    calls[0].out[i] = calls[0].in[i] = MPI_DOUBLE;
    calls[0].out_bytes_at[i] = calls[0].in_bytes_at[i] = (MPI_Aint)i * n * n * 8;
  }
  char title[48];
  snprintf(title, sizeof title, "six faces of %d^3 doubles", n);
  measure(title, calls, 2, rounds / 2);
  for (int i = 0; i < FACES; ++i) {
    MPI_Type_free(&calls[1].out[i]);
    MPI_Type_free(&calls[1].in[i]);
  }
  MPI_Comm_free(&grid);
  release(cube);
  release(from);
  release(to);
}

int main(int argc, char** argv) {
  int option;
  const char* path = NULL;
  struct bench_device_info device;
  char error[256];
  while ((option = getopt(argc, argv, "e:f:r:d:j:")) != -1) switch (option) {
      case 'e':
        edge = strtoul(optarg, NULL, 10);
        break;
      case 'f':
        face_edge = strtoul(optarg, NULL, 10);
        break;
      case 'r':
        rounds = atoi(optarg);
        break;
      case 'd':
        cuda = strcmp(optarg, "host") != 0;
        break;
      case 'j':
        path = optarg;
        break;
      default:
        rounds = 0;
    }
  if (rounds < 2 || rounds > MOST_ROUNDS || edge < MOST_RANKS || edge > 1024 || face_edge < 1 ||
      face_edge > 1024) {
    fputs("usage: layouts [-e EDGE] [-f EDGE] [-r ROUNDS] [-d cuda|host] [-j FILE]\n", stderr);
    return 2;
  }
  if (cuda &&
      !bench_device_open(bench_local_rank() < 0 ? 0 : bench_local_rank(), &device, error, sizeof error)) {
    fprintf(stderr, "layouts: %s\n", error);
    return 77;
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > MOST_RANKS) stop("too many ranks");
  if (rank == 0 && path && !(json = fopen(path, "w"))) stop("cannot write the file of -j");
  for (int bytes = 8; bytes <= 4 << 20; bytes *= bytes == 8 ? 128 : 64) blocks(bytes);
  transposes();
  faces();
  if (json) {
    fputs("\n]\n", json);
    fclose(json);
  }
  MPI_Finalize();
  if (cuda) bench_device_close();
  return 0;
}
