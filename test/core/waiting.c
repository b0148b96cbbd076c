// SPDX-License-Identifier: BSD-3-Clause
// Ranks that wait while rank 0 sleeps: rank 0 prints how often one of them wakes up in a second, the cores
// that all of them use together, and how late the last wait ends. usage: waiting SECONDS CALL; CALL: recv,
// barrier or threads (MPI_THREAD_MULTIPLE).
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double processor_time(double* wake_ups) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  *wake_ups = (double)used.ru_nvcsw;
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const double seconds = atof(argv[1]);
  const int barrier = strcmp(argv[2], "barrier") == 0, threads = strcmp(argv[2], "threads") == 0;
  int provided, rank, size;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 3; ++i) MPI_Barrier(MPI_COMM_WORLD);
  double before, ended = 0, mine[3], sum[2], late;
  const double begin = processor_time(&before);
  if (rank == 0) {
    const struct timespec pause = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&pause, NULL);
    ended = now();
    for (int other = 1; other < size && !barrier; ++other)
      MPI_Send(&ended, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD);
  } else if (!barrier) {
    MPI_Recv(&ended, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (barrier) MPI_Barrier(MPI_COMM_WORLD);
  mine[2] = now();
  mine[0] = processor_time(&mine[1]) - begin;
  mine[1] = rank == 0 ? 0 : mine[1] - before;
  MPI_Bcast(&ended, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  mine[2] = mine[2] - ended;
  MPI_Reduce(mine, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine[2], &late, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("%.1f wake-ups a second, %.4f cores, %.4f s late\n", sum[1] / seconds / (size - 1),
           sum[0] / seconds, late);
  MPI_Finalize();
  return 0;
}
