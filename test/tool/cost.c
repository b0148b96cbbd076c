// SPDX-License-Identifier: BSD-3-Clause
// Cost of a tool: 8-byte latency of two ranks without a tool, and while each rank reads every performance
// variable once per millisecond, in alternating blocks. usage: cost [blocks] [largest ratio]
#include "tool/expect.h"

enum { kRoundTrips = 4000, kMostVariables = 1024 };
static int rank;

static void round_trips(int count) {
  char byte[8] = {0};
  for (int i = 0; i < count; ++i) {
    if (rank == 0) {
      OK(MPI_Send(byte, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
      OK(MPI_Recv(byte, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
      OK(MPI_Recv(byte, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      OK(MPI_Send(byte, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
    }
  }
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  const int blocks = argc > 1 ? atoi(argv[1]) : 20;
  const double largest = argc > 2 ? atof(argv[2]) : 0;
  int level = 0, num = 0, count = 0;
  static MPI_T_pvar_handle handles[kMostVariables];
  MPI_T_pvar_session session;
  OK(MPI_Init(&argc, &argv));
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
  OK(MPI_T_pvar_get_num(&num));
  OK(MPI_T_pvar_session_create(&session));
  for (int i = 0; i < num && i < kMostVariables; ++i)
    if (MPI_T_pvar_handle_alloc(session, i, NULL, &handles[count], NULL) == MPI_SUCCESS) ++count;
  OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
  double* const times[2] = {calloc((size_t)blocks, sizeof(double)), calloc((size_t)blocks, sizeof(double))};
  round_trips(kRoundTrips);
  double begin = MPI_Wtime();
  round_trips(kRoundTrips);
  int per_ms = (int)(kRoundTrips * 1e-3 / (MPI_Wtime() - begin)) + 1;
  OK(MPI_Bcast(&per_ms, 1, MPI_INT, 0, MPI_COMM_WORLD));
  unsigned long long value = 0;
  double reading = 0;
  for (int i = 0; i < blocks * 2; ++i) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    begin = MPI_Wtime();
    for (int done = 0; done < kRoundTrips; done += per_ms) {
      if (i % 2 == 1)
        for (int k = 0; k < count; ++k) OK(MPI_T_pvar_read(session, handles[k], &value));
      round_trips(per_ms);
    }
    times[i % 2][i / 2] = MPI_Wtime() - begin;
  }
  begin = MPI_Wtime();
  for (int i = 0; i < 100; ++i)
    for (int k = 0; k < count; ++k) OK(MPI_T_pvar_read(session, handles[k], &value));
  reading = (MPI_Wtime() - begin) / 100 / count;
  const double trips = (double)((kRoundTrips + per_ms - 1) / per_ms * per_ms);
  for (int i = 0; i < 2; ++i) qsort(times[i], (size_t)blocks, sizeof(double), compare);
  const double plain = times[0][blocks / 4], read = times[1][blocks / 4];
  if (rank == 0)
    printf(
        "latency of 8 bytes: %.4f us, %.4f us while %d variables are read each ms (%.3f); a read takes %.1f "
        "ns\n",
        plain / trips * 5e5, read / trips * 5e5, count, read / plain, reading * 1e9);
  EXPECT(rank != 0 || largest == 0 || read <= largest * plain);
  OK(MPI_T_finalize());
  OK(MPI_Finalize());
  return 0;
}
