// SPDX-License-Identifier: BSD-3-Clause
// Parallel files: time of collective and independent accesses, of all ranks, in ms, each the median of
// rounds. Any MPI library.
// Usage: io [-d KIND[,...]] [-m MiB in all] [-r rounds] [-w TEXT] [-n] [-o] [-v] [--json FILE] PATH
//   -d: memory of the buffers: host, pinned or cuda; several alternate in each round; -w: only rows whose
//   name contains TEXT; -n: each round writes a new file; -o: writes only; -v: check what is read; --json:
//   also a file in the format of the other programs, in which the type of a row is its name and "write" or
//   "read"
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

enum { MAX_ROUNDS = 99, MAX_ROWS = 96, FIELD_BYTES = 160, KINDS = 3 };

// A kind of memory. `type`: of the driver's allocation.
struct memory {
  const char *option, *name, *letter;
  bool allocated, on_device;
  enum bench_device_memory type;
  bool chosen, filled;
  char* buffer;
};
static struct memory memories[KINDS] = {
    {"host", "host", "H", false, false, BENCH_DEVICE_HOST, false, false, NULL},
    {"pinned", "pinned host", "P", true, false, BENCH_DEVICE_HOST, false, false, NULL},
    {"cuda", "GPU", "D", true, true, BENCH_DEVICE_PLAIN, false, false, NULL}};

static int rank, ranks, rounds = 5, row_count, chosen_count;
static size_t mebibytes = 256;
static bool check, new_files, writes_only;
static char* host;  // the data of all buffers
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

static void copy_to(const struct memory* memory, size_t bytes) {
  char error[256];
  if (memory->on_device && !bench_device_write(memory->buffer, host, bytes, error, sizeof error)) stop(error);
  if (!memory->on_device && memory->buffer != host) memcpy(memory->buffer, host, bytes);
}

static void fill(struct memory* memory, size_t bytes) {
  static size_t known;  // bytes of `host` that have their values
  if (check) known = 0;
  for (; known < bytes; ++known) host[known] = value(known);
  copy_to(memory, bytes);
  memory->filled = true;
}

static void clear(const struct memory* memory, size_t bytes) {
  memset(host, 0, bytes);
  copy_to(memory, bytes);
}

// gap: every second block of this many bytes is not compared.
static void compare(const struct memory* memory, size_t bytes, size_t gap, const char* what) {
  char error[256];
  if (memory->on_device && !bench_device_read(host, memory->buffer, bytes, error, sizeof error)) stop(error);
  if (!memory->on_device && memory->buffer != host) memcpy(host, memory->buffer, bytes);
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

static void add_row(const struct memory* memory, const char* what, const char* direction, double ms,
                    double bytes) {
  if (row_count == MAX_ROWS) stop("too many rows");
  snprintf(fields[row_count], FIELD_BYTES, "\"type\": \"%s, %s\", \"latency_us\": %.3f", what, direction,
           ms * 1e3);
  rows[row_count].size = (size_t)bytes;
  rows[row_count].kinds = memory->letter;
  rows[row_count].fields = fields[row_count];
  ++row_count;
}

// read < 0: not measured.
static void print(const struct memory* memory, const char* what, double write, double read, double bytes) {
  if (rank != 0) return;
  add_row(memory, what, "write", write, bytes);
  if (read >= 0) add_row(memory, what, "read", read, bytes);
  if (chosen_count > 1) printf("%-11s ", memory->name);
  printf("%-40s %10.3f", what, write);
  if (read >= 0) printf(" %10.3f", read);
  if (bytes > 0) printf(" %10.2f", bytes / write * 1e-6);
  if (bytes > 0 && read >= 0) printf(" %10.2f", bytes / read * 1e-6);
  printf("\n");
  fflush(stdout);
}

static void remove_file(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) MPI_File_delete(path, MPI_INFO_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
}

// Access of a row: `count` elements of `type` at the beginning of the view. The buffers have `bytes`
// bytes.
struct access {
  const char* what;
  size_t bytes;
  MPI_Offset start;
  MPI_Datatype view;
  int count;
  MPI_Datatype type;
  size_t gap;
  bool collective;
};

static void measure_round(const struct access* a, struct memory* memory, double* write, double* read) {
  MPI_File file;
  if (check || !memory->filled) fill(memory, a->bytes);  // what is read is what was written
  require(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
  require(MPI_File_set_view(file, a->start, MPI_BYTE, a->view, "native", MPI_INFO_NULL), "set_view");
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  require(a->collective ? MPI_File_write_at_all(file, 0, memory->buffer, a->count, a->type, MPI_STATUS_IGNORE)
                        : MPI_File_write_at(file, 0, memory->buffer, a->count, a->type, MPI_STATUS_IGNORE),
          "write");
  *write = slowest(MPI_Wtime() - begin);
  *read = -1;
  if (!writes_only) {
    if (check) clear(memory, a->bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    require(a->collective
                ? MPI_File_read_at_all(file, 0, memory->buffer, a->count, a->type, MPI_STATUS_IGNORE)
                : MPI_File_read_at(file, 0, memory->buffer, a->count, a->type, MPI_STATUS_IGNORE),
            "read");
    *read = slowest(MPI_Wtime() - begin);
    if (check) compare(memory, a->bytes, a->gap, a->what);
  }
  require(MPI_File_close(&file), "close");
  if (new_files) remove_file();
}

static void measure_access(const struct access* a) {
  if (strstr(a->what, wanted) == NULL) return;
  double writes[KINDS][MAX_ROUNDS], reads[KINDS][MAX_ROUNDS];
  for (int round = 0; round < rounds; ++round)
    for (int i = 0; i < KINDS; ++i)
      if (memories[i].chosen) measure_round(a, &memories[i], &writes[i][round], &reads[i][round]);
  if (!new_files) remove_file();
  int size = 0;
  MPI_Type_size(a->type, &size);
  for (int i = 0; i < KINDS; ++i)
    if (memories[i].chosen)
      print(&memories[i], a->what, median(writes[i], rounds), median(reads[i], rounds),
            (double)size * a->count * ranks);
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
  const int count = (int)(bytes / sizeof(double));
  measure_access(&(struct access){what, bytes, start, view, count, MPI_DOUBLE, 0, collective});
  if (block != 0) MPI_Type_free(&view);
}

// Blocks of 64 KiB, every second one of the buffer; the file is contiguous.
static void measure_memory(const char* what, size_t bytes) {
  enum { BLOCK = 1 << 16 };
  MPI_Datatype memory;
  MPI_Type_vector((int)(bytes / BLOCK / 2), BLOCK, 2 * BLOCK, MPI_BYTE, &memory);
  MPI_Type_commit(&memory);
  const MPI_Offset start = (MPI_Offset)bytes / 2 * rank;
  measure_access(&(struct access){what, bytes, start, MPI_BYTE, 1, memory, BLOCK, false});
  MPI_Type_free(&memory);
}

// Plain copies of `bytes` bytes from the GPU to pinned memory (write) and back (read), for comparison.
static void measure_copy(const struct memory* memory, size_t bytes) {
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
      if (!(write ? bench_device_read(pinned, memory->buffer + at, n, error, sizeof error)
                  : bench_device_write(memory->buffer + at, pinned, n, error, sizeof error)))
        stop(error);
    }
    (write ? writes : reads)[round % rounds] = slowest(MPI_Wtime() - begin);
  }
  bench_device_free(BENCH_DEVICE_HOST, pinned);
  print(memory, "plain copy from and to the GPU", median(writes, rounds), median(reads, rounds),
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
  remove_file();
  const struct memory* first = memories;
  while (!first->chosen) ++first;
  print(first, what, median(opens, rounds), median(closes, rounds), 0);
}

static bool choose(const char* kinds) {
  for (const char* at = kinds;; ++at) {
    const size_t n = strcspn(at, ",");
    int i = 0;
    while (i < KINDS && (strlen(memories[i].option) != n || strncmp(memories[i].option, at, n) != 0)) ++i;
    if (i == KINDS) return false;
    memories[i].chosen = true;
    at += n;
    if (*at == 0) return true;
  }
}

static void parse(int argc, char** argv) {
  static const struct option names[] = {{"json", required_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
  bool valid = true, any = false;
  for (int c; (c = getopt_long(argc, argv, "d:m:r:w:novj:", names, NULL)) != -1;) {
    if (c == 'd') any = true, valid &= choose(optarg);
    if (c == 'm') mebibytes = (size_t)atol(optarg);
    if (c == 'r') rounds = atoi(optarg);
    if (c == 'w') wanted = optarg;
    if (c == 'n') new_files = true;
    if (c == 'o') writes_only = true;
    if (c == 'v') check = true;
    if (c == 'j') json = optarg;
    if (c == '?') valid = false;
  }
  if (!valid || rounds < 1 || rounds > MAX_ROUNDS || optind + 1 != argc) {
    if (rank == 0)
      fprintf(stderr,
              "usage: io [-d host|pinned|cuda[,...]] [-m MiB in all] [-r rounds] [-w TEXT] [-n] [-o] [-v]"
              " [--json FILE] PATH\n");
    MPI_Finalize();
    exit(2);
  }
  if (!any) memories[0].chosen = true;
  for (int i = 0; i < KINDS; ++i) chosen_count += memories[i].chosen;
  path = argv[optind];
}

static void allocate(size_t bytes) {
  char error[256];
  host = malloc(bytes);
  if (host == NULL) stop("not enough memory");
  for (int i = 0; i < KINDS; ++i) {
    if (!memories[i].chosen) continue;
    memories[i].buffer =
        memories[i].allocated ? bench_device_allocate(memories[i].type, bytes, error, sizeof error) : host;
    if (memories[i].buffer == NULL) stop(error);
  }
}

static void release(void) {
  for (int i = 0; i < KINDS; ++i)
    if (memories[i].chosen && memories[i].allocated) bench_device_free(memories[i].type, memories[i].buffer);
  free(host);
}

static void print_head(size_t bytes) {
  if (rank != 0) return;
  printf("# Parallel files, %d ranks, %zu MiB of each rank, ", ranks, bytes);
  for (int i = 0, n = 0; i < KINDS; ++i)
    if (memories[i].chosen) printf("%s%s", n++ == 0 ? "" : ", ", memories[i].name);
  printf(" memory%s\n# %-*s %10s %10s %10s %10s\n", new_files ? ", new files" : "",
         chosen_count > 1 ? 50 : 38, "", "write ms", "read ms", "GB/s", "GB/s");
}

int main(int argc, char** argv) {
  const size_t records = 100000, record = 100, mebibyte = (size_t)1 << 20;
  struct bench_device_info info;
  char error[256];
  for (int i = 1; i < argc; ++i)  // some MPI libraries need a context in MPI_Init
    if (strstr(argv[i], "cuda") != NULL || strstr(argv[i], "pinned") != NULL) {
      if (!bench_device_open(bench_local_rank() < 0 ? 0 : bench_local_rank(), &info, error, sizeof error)) {
        fprintf(stderr, "io: %s\n", error);
        return 3;
      }
      break;
    }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  parse(argc, argv);
  size_t bytes = mebibytes * mebibyte / (size_t)ranks / mebibyte * mebibyte;
  if (bytes == 0) bytes = mebibyte;
  allocate(bytes > records * record ? bytes : records * record);
  print_head(bytes / mebibyte);
  if (memories[KINDS - 1].chosen) measure_copy(&memories[KINDS - 1], bytes);
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
  release();
  MPI_Finalize();
  return good ? 0 : 1;
}
