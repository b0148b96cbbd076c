// SPDX-License-Identifier: BSD-3-Clause
// Time from the call of MPI_Comm_spawn for one process to the first message of that process, and of the
// disconnection. Needs only MPI 2: spawn.py builds it with any MPI. Usage: spawn COUNT
#define _POSIX_C_SOURCE 200112L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

int main(int argc, char** argv) {
  MPI_Comm other;
  int word = 1, length = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&other);
  if (other != MPI_COMM_NULL) {
    MPI_Send(&word, 1, MPI_INT, 0, 1, other);
    MPI_Comm_disconnect(&other);
    MPI_Finalize();
    return 0;
  }
  const int count = argc > 1 ? atoi(argv[1]) : 10;
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Get_library_version(library, &length);
  for (int i = 0; library[i] != '\0'; ++i)
    if (library[i] == '\n' || library[i] == '"' || library[i] == '\\') library[i] = ' ';
  for (int i = 0; i < count; ++i) {
    const double start = now_ms();
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other, MPI_ERRCODES_IGNORE);
    MPI_Recv(&word, 1, MPI_INT, 0, 1, other, MPI_STATUS_IGNORE);
    const double received = now_ms();
    MPI_Comm_disconnect(&other);
    printf("{\"library\": \"%.80s\", \"first_message_ms\": %.3f, \"disconnect_ms\": %.3f}\n", library,
           received - start, now_ms() - received);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
