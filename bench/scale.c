// SPDX-License-Identifier: BSD-3-Clause
// Cost of MPI start-up for a process: one line of JSON per stage with the time since the start and the memory
// of the process. Run by scale.py. Argument "init": exit after MPI_Init, since the other processes of the job
// are simulated.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// Returns a value of /proc/self/smaps_rollup in KiB.
static long memory(const char* name) {
  FILE* file = fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  long found = -1;
  while (file && fgets(line, sizeof line, file))
    if (strncmp(line, name, strlen(name)) == 0) found = atol(line + strlen(name));
  if (file) fclose(file);
  return found;
}

static void report(const char* stage, int rank, double seconds) {
  // In one write, since all processes share the output.
  char line[256];
  int length =
      snprintf(line, sizeof line,
               "{\"stage\": \"%s\", \"rank\": %d, \"seconds\": %.4f, \"rss\": %ld, \"private\": %ld, "
               "\"shared\": %ld}\n",
               stage, rank, seconds, memory("Rss:"), memory("Anonymous:"), memory("Pss_Shmem:"));
  if (write(1, line, (size_t)length) != length) exit(1);
}

int main(int argc, char** argv) {
  const int only_init = argc > 1 && strcmp(argv[1], "init") == 0;
  report("start", -1, 0);
  const double begin = MPI_Wtime();
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  report("init", rank, MPI_Wtime() - begin);
  if (only_init) _exit(0);
  MPI_Barrier(MPI_COMM_WORLD);
  report("barrier", rank, MPI_Wtime() - begin);
  char *all = calloc((size_t)size, 1), mine = 1;
  for (int distance = 1; distance < size; ++distance)
    MPI_Sendrecv(&mine, 1, MPI_CHAR, (rank + distance) % size, 0, all, 1, MPI_CHAR,
                 (rank - distance + size) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  free(all);
  report("everyone", rank, MPI_Wtime() - begin);
  MPI_Finalize();
  return 0;
}
