// SPDX-License-Identifier: BSD-3-Clause
// Parallel files: time of collective and independent accesses, of all ranks, in ms, each the median of
// rounds. Any MPI library.
// Usage: io [-d host|pinned|cuda] [-m MiB in all] [-r rounds] [-w TEXT] [-v] [--json FILE] PATH
//   -d: memory of the buffers; -w: only rows whose name contains TEXT; -v: check what is read; --json: also a
//   file in the format of the other programs, in which the type of a row is its name and "write" or "read"
// Rows: with -d cuda, copies of the block between the GPU and pinned memory; each rank one contiguous block,
// and half of it in blocks of 64 KiB with gaps in memory; the rows of a matrix of doubles, dealt to the ranks
// in turn (one rank: every second row), in blocks of 4 KiB, 64 KiB and 1 MiB, collective; blocks of 64 KiB,
// independent; 100,000 records of 100 bytes of each rank, dealt in turn; open and close.
#define _GNU_SOURCE  // getopt_long
#include <getopt.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/device.h"
#include "common/report.h"

enum { MAX_ROUNDS = 99, MAX_ROWS = 32, FIELD_BYTES = 160 };

static int rank, ranks, rounds = 5, row_count;
static size_t mebibytes = 256;
static bool check, filled, on_device;
static enum bench_device_memory kind = BENCH_DEVICE_HOST;
static bool allocated;
static char *buffer, *host;
static const char *path, *wanted = "", *json;
static struct bench_plain_row rows[MAX_ROWS];
static char fields[MAX_ROWS][FIELD_BYTES];

static void stop(const char* what) {
  fprintf(stderr, "io: rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void require(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fprintf(stderr, "io: rank %d: %s: %s\n", rank, what, text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static char value(size_t at) { return (char)(at * 31 + (at >> 12) + (size_t)rank * 7); }

static void fill(size_t bytes) {
  char error[256];
  for (size_t i = 0; i < bytes; ++i) host[i] = value(i);
  if (on_device && !bench_device_write(buffer, host, bytes, error, sizeof error)) stop(error);
}

static void clear(size_t bytes) {
  char error[256];
  memset(host, 0, bytes);
  if (on_device && !bench_device_write(buffer, host, bytes, error, sizeof error)) stop(error);
}

// gap: every second block of this many bytes is not compared.
static void compare(size_t bytes, size_t gap, const char* what) {
  char error[256];
  if (on_device && !bench_device_read(host, buffer, bytes, error, sizeof error)) stop(error);
  for (size_t i = 0; i < bytes; ++i)
    if ((gap == 0 || i / gap % 2 == 0) && host[i] != value(i)) stop(what);
}

static double slowest(double seconds) {
  double all = 0;
  MPI_Allreduce(&seconds, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all * 1e3;
}

static double median(double* values, int n) {
  for (int i = 1; i < n; ++i)
    for (int j = i; j > 0 && values[j] < values[j - 1]; --j) {
      const double other = values[j];
      values[j] = values[j - 1];
      values[j - 1] = other;
    }
  return values[n / 2];
}

static void add_row(const char* what, const char* direction, double ms, double bytes) {
  if (row_count == MAX_ROWS) stop("too many rows");
  snprintf(fields[row_count], FIELD_BYTES, "\"type\": \"%s, %s\", \"latency_us\": %.3f", what, direction,
           ms * 1e3);
  rows[row_count].size = (size_t)bytes;
  rows[row_count].kinds = on_device ? "D" : allocated ? "P" : "H";
  rows[row_count].fields = fields[row_count];
  ++row_count;
}

static void print(const char* what, double write, double read, double bytes) {
  if (rank != 0) return;
  add_row(what, "write", write, bytes);
  add_row(what, "read", read, bytes);
  printf("%-40s %10.3f %10.3f", what, write, read);
  if (bytes > 0) printf(" %10.2f %10.2f", bytes / write * 1e-6, bytes / read * 1e-6);
  printf("\n");
  fflush(stdout);
}

// Writes and reads `count` elements of `memory` at the beginning of the view. The buffer has `bytes` bytes.
static void measure_view(const char* what, size_t bytes, MPI_Offset start, MPI_Datatype view, int count,
                         MPI_Datatype memory, size_t gap, bool collective) {
  if (strstr(what, wanted) == NULL) return;
  double writes[MAX_ROUNDS], reads[MAX_ROUNDS];
  for (int round = 0; round < rounds; ++round) {
    MPI_File file;
    if (check || !filled) fill(bytes);  // what is read is what was written
    filled = true;
    require(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file),
            "open");
    require(MPI_File_set_view(file, start, MPI_BYTE, view, "native", MPI_INFO_NULL), "set_view");
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    require(collective ? MPI_File_write_at_all(file, 0, buffer, count, memory, MPI_STATUS_IGNORE)
                       : MPI_File_write_at(file, 0, buffer, count, memory, MPI_STATUS_IGNORE),
            "write");
    writes[round] = slowest(MPI_Wtime() - begin);
    if (check) clear(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    require(collective ? MPI_File_read_at_all(file, 0, buffer, count, memory, MPI_STATUS_IGNORE)
                       : MPI_File_read_at(file, 0, buffer, count, memory, MPI_STATUS_IGNORE),
            "read");
    reads[round] = slowest(MPI_Wtime() - begin);
    if (check) compare(bytes, gap, what);
    require(MPI_File_close(&file), "close");
  }
  if (rank == 0) MPI_File_delete(path, MPI_INFO_NULL);
  int size = 0;
  MPI_Type_size(memory, &size);
  print(what, median(writes, rounds), median(reads, rounds), (double)size * count * ranks);
}

// Blocks of `block` bytes, dealt to the ranks in turn (one rank: every second block); block 0: each rank one
// block of all its bytes.
static void measure(const char* what, size_t bytes, size_t block, bool collective) {
  MPI_Datatype view = MPI_BYTE;
  MPI_Offset start = (MPI_Offset)bytes * rank;
  if (block != 0) {
    MPI_Type_vector((int)(bytes / block), (int)block, (int)block * (ranks > 1 ? ranks : 2), MPI_BYTE, &view);
    MPI_Type_commit(&view);
    start = (MPI_Offset)block * rank;
  }
  measure_view(what, bytes, start, view, (int)(bytes / sizeof(double)), MPI_DOUBLE, 0, collective);
  if (block != 0) MPI_Type_free(&view);
}

// Blocks of 64 KiB, every second one of the buffer; the file is contiguous.
static void measure_memory(const char* what, size_t bytes) {
  enum { BLOCK = 1 << 16 };
  MPI_Datatype memory;
  MPI_Type_vector((int)(bytes / BLOCK / 2), BLOCK, 2 * BLOCK, MPI_BYTE, &memory);
  MPI_Type_commit(&memory);
  measure_view(what, bytes, (MPI_Offset)bytes / 2 * rank, MPI_BYTE, 1, memory, BLOCK, false);
  MPI_Type_free(&memory);
}

// Plain copies of `bytes` bytes from the GPU to pinned memory (write) and back (read), for comparison.
static void measure_copy(size_t bytes) {
  enum { CHUNK = 64 << 20 };
  char error[256];
  double writes[MAX_ROUNDS], reads[MAX_ROUNDS];
  char* pinned = bench_device_allocate(BENCH_DEVICE_HOST, CHUNK, error, sizeof error);
  if (pinned == NULL) stop(error);
  for (int round = 0; round < 2 * rounds; ++round) {
    const bool write = round < rounds;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (size_t at = 0; at < bytes; at += CHUNK) {
      const size_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
      if (!(write ? bench_device_read(pinned, buffer + at, n, error, sizeof error)
                  : bench_device_write(buffer + at, pinned, n, error, sizeof error)))
        stop(error);
    }
    (write ? writes : reads)[round % rounds] = slowest(MPI_Wtime() - begin);
  }
  bench_device_free(BENCH_DEVICE_HOST, pinned);
  print("plain copy from and to the GPU", median(writes, rounds), median(reads, rounds),
        (double)bytes * ranks);
}

static void measure_open(void) {
  const char* const what = "open (write) and close (read)";
  if (strstr(what, wanted) == NULL) return;
  enum { TIMES = 50 };
  double opens[MAX_ROUNDS], closes[MAX_ROUNDS];
  for (int round = 0; round < rounds; ++round) {
    double open = 0, close = 0;
    for (int i = 0; i < TIMES; ++i) {
      MPI_File file;
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      require(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file),
              "open");
      const double middle = MPI_Wtime();
      require(MPI_File_close(&file), "close");
      open += middle - begin;
      close += MPI_Wtime() - middle;
    }
    opens[round] = slowest(open / TIMES);
    closes[round] = slowest(close / TIMES);
  }
  if (rank == 0) MPI_File_delete(path, MPI_INFO_NULL);
  print(what, median(opens, rounds), median(closes, rounds), 0);
}

static void parse(int argc, char** argv) {
  static const struct option names[] = {{"json", required_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
  for (int c; (c = getopt_long(argc, argv, "d:m:r:w:vj:", names, NULL)) != -1;) {
    if (c == 'd' && strcmp(optarg, "pinned") == 0) allocated = true;
    if (c == 'd' && strcmp(optarg, "cuda") == 0) allocated = on_device = true, kind = BENCH_DEVICE_PLAIN;
    if (c == 'm') mebibytes = (size_t)atol(optarg);
    if (c == 'r') rounds = atoi(optarg);
    if (c == 'w') wanted = optarg;
    if (c == 'v') check = true;
    if (c == 'j') json = optarg;
    if (c == '?') rounds = 0;
  }
  if (rounds < 1 || rounds > MAX_ROUNDS || optind + 1 != argc) {
    if (rank == 0)
      fprintf(stderr,
              "usage: io [-d host|pinned|cuda] [-m MiB in all] [-r rounds] [-w TEXT] [-v]"
              " [--json FILE] PATH\n");
    MPI_Finalize();
    exit(2);
  }
  path = argv[optind];
}

int main(int argc, char** argv) {
  const size_t records = 100000, record = 100, mebibyte = (size_t)1 << 20;
  struct bench_device_info info;
  char error[256];
  for (int i = 1; i < argc; ++i)  // some MPI libraries need a context in MPI_Init
    if (strcmp(argv[i], "cuda") == 0 || strcmp(argv[i], "pinned") == 0)
      if (!bench_device_open(bench_local_rank() < 0 ? 0 : bench_local_rank(), &info, error, sizeof error)) {
        fprintf(stderr, "io: %s\n", error);
        return 3;
      }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  parse(argc, argv);
  size_t bytes = mebibytes * mebibyte / (size_t)ranks / mebibyte * mebibyte;
  if (bytes == 0) bytes = mebibyte;
  const size_t capacity = bytes > records * record ? bytes : records * record;
  host = malloc(capacity);
  buffer = allocated ? bench_device_allocate(kind, capacity, error, sizeof error) : host;
  if (buffer == NULL || host == NULL) stop(allocated ? error : "not enough memory");
  if (allocated && !on_device) {
    free(host);
    host = buffer;
  }
  if (rank == 0)
    printf("# Parallel files, %d ranks, %zu MiB of each rank, %s memory\n# %-38s %10s %10s %10s %10s\n",
           ranks, bytes / mebibyte,
           on_device   ? "GPU"
           : allocated ? "pinned host"
                       : "host",
           "", "write ms", "read ms", "GB/s", "GB/s");
  if (on_device) measure_copy(bytes);
  measure("contiguous, independent", bytes, 0, false);
  measure_memory("half of it, 64 KiB blocks of memory", bytes);
  measure("contiguous, collective", bytes, 0, true);
  measure("blocks of 4 KiB, collective", bytes, 4096, true);
  measure("blocks of 64 KiB, collective", bytes, 65536, true);
  measure("blocks of 1 MiB, collective", bytes, mebibyte, true);
  measure("blocks of 64 KiB, independent", bytes, 65536, false);
  measure("100000 records of 100 B, collective", records * record, record, true);
  measure("100000 records of 100 B, independent", records * record, record, false);
  measure_open();
  const bool good = !json || rank != 0 || bench_report_plain(json, "io", ranks, rows, row_count);
  if (allocated) bench_device_free(kind, buffer);
  if (host != buffer || !allocated) free(host);
  MPI_Finalize();
  return good ? 0 : 1;
}
