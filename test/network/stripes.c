// SPDX-License-Identifier: BSD-3-Clause
// Bandwidth of large messages from rank 0 to rank 1, and a put and a get; checks the content, and the bytes
// that were striped among several adapters. usage: stripes ADAPTERS MESSAGES BYTES: ADAPTERS is the number
// that each rank is to use. Rank 0 prints "MB/s N" of the fastest of three windows, MB = 1e6 bytes.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

enum { kWindows = 3 };

static long counter(const char* name) {
  int length = 0;
  MPIX_Counters(NULL, 0, &length);
  char* const text = malloc((size_t)length + 1);
  MPIX_Counters(text, length + 1, NULL);
  long value = -1;
  for (char *rest = text, *line; value < 0 && (line = strsep(&rest, "\n")) != NULL;) {
    const char* const found = strsep(&line, "\t");
    if (line != NULL && strcmp(found, name) == 0) value = strtol(line, NULL, 10);
  }
  free(text);
  return value;
}

static unsigned char content(int message, size_t at) {
  return (unsigned char)(message * 37 + (int)(at * 131 + (at >> 12)));
}

/// Rank 0 writes `bytes` into the memory of rank 1 and reads them back. Returns the number of wrong bytes.
static int put_and_get(int rank, int bytes) {
  unsigned char* const data = malloc((size_t)bytes);
  for (int i = 0; i < bytes; ++i) data[i] = rank == 0 ? content(1, (size_t)i) : 0;
  MPI_Win window;
  MPI_Win_create(data, rank == 1 ? bytes : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  if (rank == 0) MPI_Put(data, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  if (rank == 0) {
    memset(data, 0, (size_t)bytes);
    MPI_Get(data, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, window);
  }
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
  int errors = 0;
  for (int i = 0; i < bytes; ++i) errors += data[i] != content(1, (size_t)i);
  free(data);
  return errors;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
  const int adapters = atoi(argv[1]), messages = atoi(argv[2]), bytes = atoi(argv[3]);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  unsigned char* const data = malloc((size_t)messages * (size_t)bytes);
  MPI_Request* const requests = malloc((size_t)messages * sizeof(MPI_Request));
  double best = 0;
  int errors = 0;
  for (int window = 0; window < kWindows; ++window) {
    for (int m = 0; m < messages; ++m) {
      unsigned char* const message = data + (size_t)m * (size_t)bytes;
      for (size_t i = 0; i < (size_t)bytes; ++i) message[i] = rank == 0 ? content(m + window, i) : 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int m = 0; m < messages; ++m) {
      unsigned char* const message = data + (size_t)m * (size_t)bytes;
      if (rank == 0)
        MPI_Isend(message, bytes, MPI_BYTE, 1, m, MPI_COMM_WORLD, &requests[m]);
      else
        MPI_Irecv(message, bytes, MPI_BYTE, 0, m, MPI_COMM_WORLD, &requests[m]);
    }
    MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE);
    char end = 0;
    if (rank == 0)
      MPI_Recv(&end, 1, MPI_BYTE, 1, messages, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
      MPI_Send(&end, 1, MPI_BYTE, 0, messages, MPI_COMM_WORLD);
    const double rate = (double)messages * bytes / (MPI_Wtime() - start) / 1e6;
    if (rate > best) best = rate;
    for (int m = 0; m < messages && rank == 1; ++m)
      for (size_t i = 0; i < (size_t)bytes; ++i)
        errors += data[(size_t)m * (size_t)bytes + i] != content(m + window, i);
  }
  errors += put_and_get(rank, bytes);
  if (errors != 0) fprintf(stderr, "stripes: %d wrong bytes\n", errors);
  const long striped = counter("net.ofi_striped_bytes");
  const long moved = rank == 1 ? (long)kWindows * messages * bytes : 2L * bytes;
  const long expected = adapters > 1 ? moved : 0;
  if (striped != expected) {
    fprintf(stderr, "stripes: rank %d has striped %ld bytes, not %ld\n", rank, striped, expected);
    errors = 1;
  }
  char paths[1 << 14] = "";
  MPIX_Describe_paths(paths, sizeof paths, NULL);
  int named = 0;  // each adapter after the first
  const char* over = strstr(paths, " over ");
  for (const char* end = over != NULL ? strchr(over, '(') : NULL; over != NULL && over < end; ++over)
    named += *over == '+';
  if (over == NULL || named != adapters - 1) {
    fprintf(stderr, "stripes: rank %d does not describe %d adapters:\n%s\n", rank, adapters, paths);
    errors = 1;
  }
  if (rank == 0) printf("MB/s %.1f\n", best);
  if (errors != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  free(requests);
  free(data);
  MPI_Finalize();
  return 0;
}
