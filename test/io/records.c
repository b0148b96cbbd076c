// SPDX-License-Identifier: BSD-3-Clause
// Many short records, written independently: in new and in old files, from contiguous and noncontiguous
// memory, with MPI_MODE_WRONLY too, while other ranks write the bytes between the records. No byte of another
// rank is lost. Argument: mapped: on a local file system the records are written through a mapping; calls: by
// system calls.
#include <sys/vfs.h>
#include <weft.h>

#include "check.h"

enum { kRecord = 24, kRecords = 3000 };
static int rank, size;

static long counter(const char* name) {
  static char text[1 << 16];
  MPIX_Counters(text, sizeof text, NULL);
  const char* line = strstr(text, name);
  CHECK(line != NULL);
  return strtol(line + strlen(name), NULL, 10);
}

/// Whether the file system is one of Descriptor::mappable().
static int local(const char* path) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s", path);
  *strrchr(folder, '/') = '\0';
  struct statfs system;
  CHECK(statfs(folder, &system) == 0);
  switch ((unsigned long)system.f_type) {
    case 0x01021994:  // tmpfs
    case 0xef53:      // ext4
    case 0x58465342:  // XFS
    case 0x9123683e:  // Btrfs
    case 0x794c7630:  // overlayfs
      return 1;
    default:
      return 0;
  }
}

static char value(int owner, int record, int i, int round) {
  return (char)(owner * 31 + record * 7 + i + round * 3);
}

static void write_records(const char* path, int mode, int spaced, int round) {
  MPI_Datatype view, memory;
  MPI_Type_vector(kRecords, kRecord, kRecord * size, MPI_BYTE, &view);
  MPI_Type_commit(&view);
  const int stride = spaced ? 10 : 8;  // pieces of 8 bytes in memory
  MPI_Type_vector(kRecords * kRecord / 8, 8, stride, MPI_BYTE, &memory);
  MPI_Type_commit(&memory);
  char* data = malloc((size_t)kRecords * kRecord / 8 * (size_t)stride);
  for (int k = 0; k < kRecords; ++k)
    for (int i = 0; i < kRecord; ++i) {
      const int at = k * kRecord + i;
      data[at / 8 * stride + at % 8] = value(rank, k, i, round);
    }
  MPI_File file;
  MPI_Status status;
  OK(MPI_File_open(MPI_COMM_WORLD, path, mode | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
  OK(MPI_File_set_view(file, 5 + kRecord * rank, MPI_BYTE, view, "native", MPI_INFO_NULL));
  OK(MPI_File_write_at(file, 0, data, 1, memory, &status));
  int got;
  MPI_Get_count(&status, MPI_BYTE, &got);
  CHECK(got == kRecords * kRecord);
  OK(MPI_File_close(&file));
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
  MPI_Offset bytes;
  OK(MPI_File_get_size(file, &bytes));
  CHECK(bytes == 5 + (MPI_Offset)kRecord * kRecords * size);
  char* all = malloc((size_t)bytes);
  OK(MPI_File_read_at(file, 0, all, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE));
  for (int k = 0; k < kRecords; ++k)
    for (int owner = 0; owner < size; ++owner)
      for (int i = 0; i < kRecord; ++i)
        CHECK(all[5 + (k * size + owner) * kRecord + i] == value(owner, k, i, round));
  OK(MPI_File_close(&file));
  free(all);
  free(data);
  MPI_Type_free(&view);
  MPI_Type_free(&memory);
}

/// Sparse records: system calls write them, and the gaps have no storage.
static void few_records(const char* path) {
  enum { kSparseRecords = 20, kStride = 1 << 16 };
  MPI_Datatype view;
  MPI_Type_vector(kSparseRecords, kRecord, kStride, MPI_BYTE, &view);
  MPI_Type_commit(&view);
  MPI_File file;
  char data[kSparseRecords * kRecord];
  memset(data, 7, sizeof data);
  const long before = counter("io.mapped_writes\t");
  OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                   MPI_INFO_NULL, &file));
  OK(MPI_File_set_view(file, 0, MPI_BYTE, view, "native", MPI_INFO_NULL));
  OK(MPI_File_write_at(file, 0, data, sizeof data, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK(counter("io.mapped_writes\t") == before);
  OK(MPI_File_close(&file));
  MPI_Type_free(&view);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(argc == 2);
  const char* path = make_path("records");
  int round = 0;
  for (int i = 0; i < 3; ++i)
    for (int spaced = 0; spaced < 2; ++spaced) {
      write_records(path, MPI_MODE_RDWR, spaced, round++);
      write_records(path, MPI_MODE_WRONLY, spaced, round++);
      MPI_Barrier(MPI_COMM_WORLD);
      if (i == 0 && rank == 0) OK(MPI_File_delete(path, MPI_INFO_NULL));
      MPI_Barrier(MPI_COMM_WORLD);
    }
  if (rank == 0) OK(MPI_File_delete(path, MPI_INFO_NULL));
  const long mapped = counter("io.mapped_writes\t");
  if (strcmp(argv[1], "calls") == 0) CHECK(mapped == 0);
  // The records of a single rank are adjacent.
  if (strcmp(argv[1], "mapped") == 0 && size > 1) CHECK((mapped > 0) == local(path));
  if (rank == 0) few_records(path);
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
