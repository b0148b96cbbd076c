// SPDX-License-Identifier: BSD-3-Clause
// Cost of MPI start-up for a process: one line of JSON per stage with the time since the start, the memory
// and the sockets of the process. Run by scale.py. Argument "init": exit after MPI_Init, since the other
// processes of the job are simulated; "end": MPI_Init and MPI_Finalize only.
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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

/// Returns the number of sockets that this process has open: each connection of a network over TCP is one.
static int sockets(void) {
  DIR* folder = opendir("/proc/self/fd");
  char target[16];
  int count = 0;
  for (struct dirent* entry; folder && (entry = readdir(folder));) {
    const ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target);
    if (length > 7 && strncmp(target, "socket:", 7) == 0) ++count;
  }
  if (folder) closedir(folder);
  return count;
}

static void report(const char* stage, int rank, double seconds) {
  // In one write, since all processes share the output.
  char line[256];
  int length =
      snprintf(line, sizeof line,
               "{\"stage\": \"%s\", \"rank\": %d, \"seconds\": %.4f, \"rss\": %ld, \"private\": %ld, "
               "\"shared\": %ld, \"sockets\": %d}\n",
               stage, rank, seconds, memory("Rss:"), memory("Anonymous:"), memory("Pss_Shmem:"), sockets());
  if (write(1, line, (size_t)length) != length) exit(1);
}

/// Also before MPI_Init and after MPI_Finalize.
static double seconds_since(double begin) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec - begin;
}

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "everyone";
  report("start", -1, 0);
  const double begin = seconds_since(0);
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  report("init", rank, seconds_since(begin));
  if (strcmp(mode, "init") == 0) _exit(0);
  if (strcmp(mode, "end") == 0) {
    MPI_Finalize();
    report("end", rank, seconds_since(begin));
    return 0;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  report("barrier", rank, seconds_since(begin));
  char *all = calloc((size_t)size, 1), mine = 1;
  for (int distance = 1; distance < size; ++distance)
    MPI_Sendrecv(&mine, 1, MPI_CHAR, (rank + distance) % size, 0, all, 1, MPI_CHAR,
                 (rank - distance + size) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  free(all);
  report("everyone", rank, seconds_since(begin));
  MPI_Finalize();
  return 0;
}
