// SPDX-License-Identifier: BSD-3-Clause
// Overwrites of files whose pages are in memory (tmpfs), which several ranks make through mappings: long and
// short runs, contiguous and noncontiguous memory, independent and collective. No byte of another rank is
// lost, the time of the file changes, holes are written by system calls, and files that grow have the right
// size. Files are in TEST_FOLDER; argument: mapped: it is on tmpfs; calls: mappings fail.
#include <sys/stat.h>
#include <time.h>
#include <weft.h>

#include "check.h"

enum { kBytes = 5 << 18 };  // of each rank
static int rank, size, mapped;

static long counter(const char* name) {
  static char text[1 << 16];
  MPIX_Counters(text, sizeof text, NULL);
  const char* line = strstr(text, name);
  CHECK(line != NULL);
  return strtol(line + strlen(name), NULL, 10);
}

static unsigned char value(long at, int round) { return (unsigned char)(at * 7 + at / 251 + round * 13 + 1); }

/// Position in the file of byte `at` of the stream of `who`, in rows of `row` bytes that are dealt in turn.
static long position(long at, int row, int who) { return (at / row * size + who) * row + at % row + 11; }

static void check_file(const char* path, int bytes, int row, int round) {
  FILE* other = fopen(path, "rb");
  const long all = position(bytes - 1, row, size - 1) + 1;
  unsigned char* file_bytes = malloc((size_t)all);
  CHECK(fread(file_bytes, 1, (size_t)all, other) == (size_t)all);
  for (int who = 0; who < size; ++who)
    for (int i = 0; i < bytes; ++i)
      CHECK(file_bytes[position(i, row, who)] == value(position(i, row, who), round));
  free(file_bytes);
  fclose(other);
}

/// All ranks write their rows, then one compares the whole file.
static void write_rows(MPI_File file, const char* path, int row, int spaced, int collective, int round) {
  const int count = kBytes / row;
  MPI_Datatype view, memory;
  MPI_Type_vector(count, row, row * size, MPI_BYTE, &view);
  MPI_Type_commit(&view);
  const int part = 56, stride = spaced ? 64 : part;  // bytes
  const int bytes = count * row / part * part;
  MPI_Type_vector(bytes / part, part, stride, MPI_BYTE, &memory);
  MPI_Type_commit(&memory);
  unsigned char* data = malloc((size_t)bytes / part * (size_t)stride);
  for (int i = 0; i < bytes; ++i) data[i / part * stride + i % part] = value(position(i, row, rank), round);
  OK(MPI_File_set_view(file, 11 + (MPI_Offset)row * rank, MPI_BYTE, view, "native", MPI_INFO_NULL));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Status status;
  OK(collective ? MPI_File_write_at_all(file, 0, data, 1, memory, &status)
                : MPI_File_write_at(file, 0, data, 1, memory, &status));
  int got;
  MPI_Get_count(&status, MPI_BYTE, &got);
  CHECK(got == bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  unsigned char* back = malloc((size_t)bytes / part * (size_t)stride);
  OK(collective ? MPI_File_read_at_all(file, 0, back, 1, memory, &status)
                : MPI_File_read_at(file, 0, back, 1, memory, &status));
  for (int i = 0; i < bytes; ++i)
    CHECK(back[i / part * stride + i % part] == data[i / part * stride + i % part]);
  if (round % size == rank) check_file(path, bytes, row, round);
  free(back);
  free(data);
  MPI_Type_free(&view);
  MPI_Type_free(&memory);
  MPI_Barrier(MPI_COMM_WORLD);
}

static struct stat state_of(const char* path) {
  struct stat status;
  CHECK(stat(path, &status) == 0);
  return status;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(argc == 2);
  mapped = strcmp(argv[1], "mapped") == 0;
  const char* path = make_path("resident");
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  const long before = counter("io.resident_writes\t");
  write_rows(file, path, kBytes, 0, 0, 0);  // a new file
  CHECK(counter("io.resident_writes\t") == before);
  const struct stat old = state_of(path);
  MPI_Barrier(MPI_COMM_WORLD);
  struct timespec pause = {0, 30000000};  // longer than the unit of the kernel's clock
  nanosleep(&pause, NULL);
  write_rows(file, path, kBytes, 0, 0, 1);
  const struct stat changed = state_of(path);
  CHECK(changed.st_mtim.tv_sec > old.st_mtim.tv_sec ||
        (changed.st_mtim.tv_sec == old.st_mtim.tv_sec && changed.st_mtim.tv_nsec > old.st_mtim.tv_nsec));
  CHECK(changed.st_size == old.st_size);
  if (size > 1) {  // one rank measures both ways
    CHECK((counter("io.resident_writes\t") > before) == mapped);
    CHECK((counter("io.resident_reads\t") > 0) == mapped);
  }
  const int rows[] = {100, 4096, 5000, 1 << 16, 1 << 20, kBytes};
  int round = 2;
  for (int i = 0; i < 6; ++i)
    for (int kind = 0; kind < 4; ++kind) write_rows(file, path, rows[i], kind % 2, kind / 2, round++);
  CHECK((counter("io.resident_writes\t") > before) == mapped);
  CHECK((counter("io.resident_reads\t") > 0) == mapped);
  // The mappings stay until the file is closed.
  const char* const limit = getenv("WEFT_IO_MAPPING_CACHE_BYTES");
  CHECK((counter("io.cached_accesses\t") > 0) == (mapped && (limit == NULL || strcmp(limit, "0") != 0)));
  // A hole, and the end of the file: system calls.
  const long last = counter("io.resident_writes\t");
  OK(MPI_File_set_size(file, 0));
  OK(MPI_File_set_size(file, 11 + (MPI_Offset)size * kBytes / 2));
  write_rows(file, path, 1 << 16, 0, 0, round++);
  CHECK(counter("io.resident_writes\t") == last);
  CHECK(state_of(path).st_size == 11 + (long)kBytes * size - (kBytes - kBytes / 56 * 56));
  OK(MPI_File_close(&file));
  if (rank == 0) OK(MPI_File_delete(path, MPI_INFO_NULL));
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
