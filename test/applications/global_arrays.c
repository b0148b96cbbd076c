// SPDX-License-Identifier: BSD-3-Clause
// Global Arrays over ARMCI-MPI, as Debian built them for Open MPI: one-sided access to distributed arrays,
// with checks of all elements. Rank 0 prints one line for each part.
#include <ga.h>
#include <macdecls.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRows = 61, kColumns = 47, kRounds = 20 };
static int rank, ranks;

static double element(int i, int j) { return i * 1000.0 + j; }

// Prints the sum of `bad` over all ranks.
static void report(const char* part, long bad) {
  GA_Lgop(&bad, 1, "+");
  if (rank == 0) printf("ga %s: %ld wrong\n", part, bad);
}

static int new_array(const char* name) {
  int sizes[2] = {kRows, kColumns};
  int array = NGA_Create(C_DBL, 2, sizes, (char*)name, NULL);
  if (array == 0) GA_Error("no array", 1);
  GA_Zero(array);
  return array;
}

// Each rank writes rows of its own, which lie on other ranks, and reads those of the next rank.
static void put_get(int array) {
  double row[kColumns];
  int leading = kColumns;
  for (int i = rank; i < kRows; i += ranks) {
    int low[2] = {i, 0}, high[2] = {i, kColumns - 1};
    for (int j = 0; j < kColumns; ++j) row[j] = element(i, j);
    NGA_Put(array, low, high, row, &leading);
  }
  GA_Sync();
  long bad = 0;
  for (int i = (rank + 1) % ranks; i < kRows; i += ranks) {
    int low[2] = {i, 0}, high[2] = {i, kColumns - 1};
    NGA_Get(array, low, high, row, &leading);
    for (int j = 0; j < kColumns; ++j) bad += row[j] != element(i, j);
  }
  GA_Sync();
  report("put and get of rows", bad);
  double column[kRows];
  int width = 1;
  bad = 0;
  for (int j = rank; j < kColumns; j += ranks) {  // strided at each owner
    int low[2] = {0, j}, high[2] = {kRows - 1, j};
    NGA_Get(array, low, high, column, &width);
    for (int i = 0; i < kRows; ++i) bad += column[i] != element(i, j);
  }
  GA_Sync();
  report("get of columns", bad);
}

// All ranks add to the same blocks.
static void accumulate(int array) {
  GA_Zero(array);
  double block[6][5];
  int leading = 5;
  for (int round = 0; round < kRounds; ++round) {
    int low[2] = {round * 2, round}, high[2] = {round * 2 + 5, round + 4};
    double scale = 0.5;
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 5; ++j) block[i][j] = (rank + 1) * (i + 1);
    NGA_Acc(array, low, high, block, &leading, &scale);
  }
  GA_Sync();
  double wanted[kRows][kColumns] = {{0}}, got[kRows][kColumns];
  for (int round = 0; round < kRounds; ++round)
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 5; ++j) wanted[round * 2 + i][round + j] += 0.5 * (i + 1) * ranks * (ranks + 1) / 2;
  int low[2] = {0, 0}, high[2] = {kRows - 1, kColumns - 1}, all = kColumns;
  NGA_Get(array, low, high, got, &all);
  long bad = 0;
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kColumns; ++j) bad += got[i][j] != wanted[i][j];
  GA_Sync();
  report("accumulate", bad);
}

// Each ticket is drawn once.
static void tickets(void) {
  int sizes[1] = {ranks}, place[1] = {ranks - 1};
  int counter = NGA_Create(C_LONG, 1, sizes, "tickets", NULL);
  GA_Zero(counter);
  long drawn[512] = {0}, bad = 0;
  for (int i = 0; i < 500 / ranks; ++i) {
    const long ticket = NGA_Read_inc(counter, place, 1);
    if (ticket < 0 || ticket >= 500)
      ++bad;
    else
      ++drawn[ticket];
  }
  GA_Sync();
  GA_Lgop(drawn, 512, "+");
  for (int i = 0; i < 512; ++i) bad += drawn[i] != (i < 500 / ranks * ranks);
  report("read_inc", bad);
  GA_Destroy(counter);
}

static void scatter_gather(int array) {
  enum { kCount = 40 };
  double values[kCount], back[kCount] = {0};
  int places[kCount][2], *list[kCount];
  for (int i = 0; i < kCount; ++i) {
    const int index = (i * ranks + rank) * 7 % (kRows * kColumns);
    places[i][0] = index / kColumns;
    places[i][1] = index % kColumns;
    list[i] = places[i];
    values[i] = element(places[i][0], places[i][1]);
  }
  GA_Zero(array);
  NGA_Scatter(array, values, list, kCount);
  GA_Sync();
  NGA_Gather(array, back, list, kCount);
  long bad = 0;
  for (int i = 0; i < kCount; ++i) bad += back[i] != values[i];
  GA_Sync();
  report("scatter and gather", bad);
}

static void mutexes(int array) {
  GA_Zero(array);
  GA_Create_mutexes(1);
  int low[2] = {kRows - 1, kColumns - 1}, leading = 1;
  for (int i = 0; i < kRounds; ++i) {
    double value;
    GA_Lock(0);
    NGA_Get(array, low, low, &value, &leading);
    value += rank + 1;
    NGA_Put(array, low, low, &value, &leading);
    GA_Init_fence();
    GA_Fence();
    GA_Unlock(0);
  }
  GA_Sync();
  double value;
  NGA_Get(array, low, low, &value, &leading);
  report("lock and unlock", value != kRounds * ranks * (ranks + 1) / 2.0);
  GA_Destroy_mutexes();
}

static void matrices(void) {
  enum { kSize = 40 };
  int sizes[2] = {kSize, kSize}, leading = kSize, low[2] = {0, 0}, high[2] = {kSize - 1, kSize - 1};
  int a = NGA_Create(C_DBL, 2, sizes, "a", NULL), b = GA_Duplicate(a, "b"), c = GA_Duplicate(a, "c");
  static double left[kSize][kSize], right[kSize][kSize], got[kSize][kSize];
  for (int i = 0; i < kSize; ++i)
    for (int j = 0; j < kSize; ++j) left[i][j] = (i + 2 * j) % 11, right[i][j] = (3 * i + j) % 7;
  if (rank == 0) NGA_Put(a, low, high, left, &leading);
  if (rank == ranks - 1) NGA_Put(b, low, high, right, &leading);
  GA_Zero(c);
  GA_Sync();
  GA_Dgemm('N', 'N', kSize, kSize, kSize, 1.0, a, b, 0.0, c);
  NGA_Get(c, low, high, got, &leading);
  long bad = 0;
  for (int i = 0; i < kSize; ++i)
    for (int j = 0; j < kSize; ++j) {
      double sum = 0;
      for (int k = 0; k < kSize; ++k) sum += left[i][k] * right[k][j];
      bad += fabs(got[i][j] - sum) > 1e-9;
    }
  GA_Sync();
  report("dgemm", bad);
  GA_Transpose(a, b);
  NGA_Get(b, low, high, got, &leading);
  bad = 0;
  for (int i = 0; i < kSize; ++i)
    for (int j = 0; j < kSize; ++j) bad += got[i][j] != left[j][i];
  const double dot = GA_Ddot(a, a);
  GA_Sync();
  report("transpose", bad);
  if (rank == 0) printf("ga dot: %.1f\n", dot);
  GA_Destroy(a);
  GA_Destroy(b);
  GA_Destroy(c);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  GA_Initialize();
  MA_init(C_DBL, 100000, 100000);
  rank = GA_Nodeid();
  ranks = GA_Nnodes();
  const int array = new_array("array");
  put_get(array);
  accumulate(array);
  tickets();
  scatter_gather(array);
  mutexes(array);
  matrices();
  GA_Destroy(array);
  GA_Terminate();
  MPI_Finalize();
  return 0;
}
