// SPDX-License-Identifier: BSD-3-Clause
// Random operations on windows of every flavor, compared with a serial model. Each round has one origin,
// drawn by all ranks alike, so the result is the same in the model of every rank; then all ranks increment
// counters at once.
#include <stdint.h>
#include <string.h>

#include "check.h"

enum { LONGS = 96, BYTES = LONGS * 8, ROUNDS = 150, COUNTS = 500 };

static unsigned long long state = 88172645463325252ull;
static unsigned draw(unsigned n) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (unsigned)((state >> 11) % n);
}

static int rank, size;

static int64_t applied(MPI_Op op, int64_t in, int64_t old) {
  if (op == MPI_SUM) return in + old;
  if (op == MPI_BXOR) return in ^ old;
  if (op == MPI_MAX) return in > old ? in : old;
  return op == MPI_REPLACE ? in : old;
}

static void random_operations(enum Flavor flavor) {
  void* base;
  MPI_Aint* displacements = malloc((size_t)size * sizeof *displacements);
  MPI_Win win = make_window(flavor, BYTES, &base, displacements);
  int64_t* model = calloc((size_t)(size * LONGS), sizeof *model);
  const MPI_Op ops[] = {MPI_SUM, MPI_BXOR, MPI_MAX, MPI_REPLACE, MPI_NO_OP};
  MPI_Win_fence(0, win);
  for (int round = 0; round < ROUNDS; ++round) {
    const int origin = (int)draw((unsigned)size), target = (int)draw((unsigned)size), sync = (int)draw(3);
    const int what = (int)draw(6), stride = 1 + (int)draw(3), n = 1 + (int)draw(20);
    const int at = (int)draw((unsigned)(LONGS - (n - 1) * stride));
    const MPI_Op op = ops[draw(5)];
    const int equal = (int)draw(2);
    int64_t in[20], result[60], old[20];
    for (int i = 0; i < n; ++i) in[i] = (int64_t)draw(1000);
    for (int i = 0; i < 60; ++i) result[i] = -1;
    int64_t* cells = model + target * LONGS + at;
    for (int i = 0; i < n; ++i) old[i] = cells[i * stride];
    MPI_Datatype vector;
    MPI_Type_vector(n, 1, stride, MPI_INT64_T, &vector);
    MPI_Type_commit(&vector);
    if (sync == 0) MPI_Win_fence(0, win);
    if (rank == origin) {
      if (sync == 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
      if (sync == 2) MPI_Win_lock_all(0, win);
      const MPI_Aint disp = displacements[target] + at * 8;
      MPI_Request request = MPI_REQUEST_NULL;
      switch (what) {
        case 0:
          MPI_Put(in, n, MPI_INT64_T, target, disp, 1, vector, win);
          break;
        case 1:  // the origin has gaps, too
          MPI_Get(result, 1, vector, target, disp, 1, vector, win);
          break;
        case 2:
          MPI_Accumulate(in, n, MPI_INT64_T, target, disp, 1, vector, op, win);
          break;
        case 3:
          MPI_Rget_accumulate(in, n, MPI_INT64_T, result, 1, vector, target, disp, 1, vector, op, win,
                              &request);
          break;
        case 4:
          MPI_Fetch_and_op(in, result, MPI_INT64_T, target, disp, op, win);
          break;
        default:
          MPI_Compare_and_swap(in, equal != 0 ? old : in, result, MPI_INT64_T, target, disp, win);
      }
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      if (sync == 1) MPI_Win_unlock(target, win);
      if (sync == 2) MPI_Win_flush(target, win);
      if (sync == 2) MPI_Win_unlock_all(win);
    }
    if (sync == 0) MPI_Win_fence(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == origin) {
      if (what == 1 || what == 3)
        for (int i = 0; i < n; ++i) CHECK(result[i * stride] == old[i]);
      if (what == 1 && stride > 1) CHECK(result[1] == -1);
      if (what == 4 || what == 5) CHECK(result[0] == old[0]);
    }
    for (int i = 0; i < n; ++i) {
      if (what == 0) cells[i * stride] = in[i];
      if (what == 2 || what == 3 || (what == 4 && i == 0)) cells[i * stride] = applied(op, in[i], old[i]);
    }
    if (what == 5 && equal) cells[0] = in[0];  // else the value was not equal, or is written again
    CHECK(memcmp(base, model + rank * LONGS, BYTES) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_free(&vector);
  }
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  free_window(&win, flavor, base);
  free(model);
  free(displacements);
}

/// Concurrent updates of one counter by all ranks are neither lost nor seen twice.
static void counters(enum Flavor flavor) {
  void* base;
  MPI_Aint* displacements = malloc((size_t)size * sizeof *displacements);
  MPI_Win win = make_window(flavor, 64, &base, displacements);
  const int64_t one = 1;
  int64_t last = -1, before;
  struct {
    short value;
    int index;
  } pair = {(short)rank, rank};
  MPI_Win_lock_all(0, win);
  for (int i = 0; i < COUNTS; ++i) {
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, displacements[0], MPI_SUM, win);
    MPI_Win_flush(0, win);
    CHECK(before > last);
    last = before;
    MPI_Accumulate(&one, 1, MPI_INT64_T, 0, displacements[0] + 8, 1, MPI_INT64_T, MPI_SUM, win);
  }
  MPI_Accumulate(&pair, 1, MPI_SHORT_INT, 0, displacements[0] + 16, 1, MPI_SHORT_INT, MPI_MAXLOC, win);
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    const int64_t* values = base;
    CHECK(values[0] == (int64_t)COUNTS * size && values[1] == values[0]);
    memcpy(&pair, (char*)base + 16, sizeof pair);
    CHECK(pair.value == size - 1 && pair.index == size - 1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  free_window(&win, flavor, base);
  free(displacements);
}

/// More bytes than one message carries.
static void large(enum Flavor flavor) {
  enum { N = 50000 };
  void* base;
  MPI_Aint* displacements = malloc((size_t)size * sizeof *displacements);
  MPI_Win win = make_window(flavor, N * 8, &base, displacements);
  double* in = malloc(N * sizeof *in);
  double* out = malloc(N * sizeof *out);
  for (int i = 0; i < N; ++i) in[i] = i;
  MPI_Win_fence(0, win);
  MPI_Accumulate(in, N, MPI_DOUBLE, (rank + 1) % size, displacements[(rank + 1) % size], N, MPI_DOUBLE,
                 MPI_SUM, win);
  MPI_Win_fence(0, win);
  MPI_Put(in, 1, MPI_DOUBLE, rank, displacements[rank], 1, MPI_DOUBLE, win);
  MPI_Win_fence(0, win);
  MPI_Get_accumulate(NULL, 0, MPI_BYTE, out, N, MPI_DOUBLE, (rank + 1) % size,
                     displacements[(rank + 1) % size], N, MPI_DOUBLE, MPI_NO_OP, win);
  MPI_Win_fence(0, win);
  CHECK(memcmp(in, out, N * sizeof *in) == 0);
  memset(out, 0, N * sizeof *out);
  MPI_Get(out, N, MPI_DOUBLE, (rank + 1) % size, displacements[(rank + 1) % size], N, MPI_DOUBLE, win);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  CHECK(memcmp(in, out, N * sizeof *in) == 0);
  free_window(&win, flavor, base);
  free(in);
  free(out);
  free(displacements);
}

/* Contiguous data of each way to copy, at alignments that differ between origin and target. */
static void copies(enum Flavor flavor) {
  enum { MOST = (2 << 20) + 200, GUARD = 64 };
  static const int sizes[] = {1, 2, 3, 4, 8, 2047, 2048, 4096, 32767, 32768, 65537, 2 << 20, (2 << 20) + 1};
  static const int shifts[][2] = {{0, 0}, {8, 0}, {0, 16}, {16, 16}, {63, 1}};
  void* base;
  MPI_Aint* displacements = malloc((size_t)size * sizeof *displacements);
  MPI_Win win = make_window(flavor, MOST, &base, displacements);
  unsigned char* out = malloc(MOST);
  unsigned char* in = malloc(MOST);
  const int target = (rank + 1) % size;
  for (int i = 0; i < MOST; ++i) out[i] = (unsigned char)(i * 7 + i / 251 + rank + 1);
  MPI_Win_lock_all(0, win);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    for (size_t k = 0; k < sizeof shifts / sizeof *shifts; ++k) {
      const int n = sizes[i], from = shifts[k][0], to = shifts[k][1] + GUARD;
      const MPI_Aint at = displacements[target] + to;
      const unsigned char mark = (unsigned char)(i + k);
      MPI_Put(&mark, 1, MPI_BYTE, target, at - 1, 1, MPI_BYTE, win);
      MPI_Put(&mark, 1, MPI_BYTE, target, at + n, 1, MPI_BYTE, win);
      MPI_Win_flush(target, win);
      MPI_Put(out + from, n, MPI_BYTE, target, at, n, MPI_BYTE, win);
      MPI_Win_flush(target, win);
      in[from + n] = mark;
      MPI_Get(in + from, n, MPI_BYTE, target, at, n, MPI_BYTE, win);
      MPI_Win_flush(target, win);
      CHECK(memcmp(in + from, out + from, (size_t)n) == 0 && in[from + n] == mark);
      MPI_Get(in, n + 2, MPI_BYTE, target, at - 1, n + 2, MPI_BYTE, win);
      MPI_Win_flush(target, win);
      CHECK(in[0] == mark && memcmp(in + 1, out + from, (size_t)n) == 0 && in[n + 1] == mark);
    }
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  free_window(&win, flavor, base);
  free(in);
  free(out);
  free(displacements);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int one_host = on_one_host();
  for (enum Flavor flavor = CREATE; flavor < FLAVORS; ++flavor) {
    if (flavor == SHARED && !one_host) continue;
    random_operations(flavor);
    copies(flavor);
    counters(flavor);
    large(flavor);
  }
  MPI_Finalize();
  return 0;
}
