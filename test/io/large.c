// SPDX-License-Identifier: BSD-3-Clause
// One call of 3 GiB, and views beyond 4 GiB, in a sparse file.
#include <stdint.h>

#include "check.h"

static int rank, size;

static void far_view(const char* path) {
  enum { kBytes = 1 << 20 };
  const MPI_Offset far = (MPI_Offset)5 << 30;
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                   MPI_INFO_NULL, &file));
  // Two blocks of each rank, 5 GiB apart, interleaved with those of the others.
  const MPI_Aint places[] = {0, far};
  const int lengths[] = {1, 1};
  MPI_Datatype rows, type;
  MPI_Type_vector(kBytes / 4096, 4096, 4096 * size, MPI_BYTE, &rows);
  MPI_Datatype both[] = {rows, rows};
  MPI_Type_create_struct(2, lengths, places, both, &type);
  MPI_Type_commit(&type);
  OK(MPI_File_set_view(file, 7 + (MPI_Offset)rank * 4096, MPI_BYTE, type, "native", MPI_INFO_NULL));
  unsigned char* data = malloc(2 * kBytes);
  for (int i = 0; i < 2 * kBytes; ++i) data[i] = (unsigned char)(i * 7 + rank + i / 4096);
  OK(MPI_File_write_at_all(file, 0, data, 2 * kBytes, MPI_BYTE, MPI_STATUS_IGNORE));
  memset(data, 0, 2 * kBytes);
  OK(MPI_File_read_at_all(file, 0, data, 2 * kBytes, MPI_BYTE, MPI_STATUS_IGNORE));
  for (int i = 0; i < 2 * kBytes; ++i) CHECK(data[i] == (unsigned char)(i * 7 + rank + i / 4096));
  OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  MPI_Offset at;
  OK(MPI_File_get_size(file, &at));
  CHECK(at == far + (MPI_Offset)kBytes * size + 7);
  unsigned char byte;
  OK(MPI_File_read_at(file, far + 7 + (MPI_Offset)rank * 4096, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK(byte == (unsigned char)(kBytes * 7 + rank + kBytes / 4096));
  MPI_Type_free(&rows);
  MPI_Type_free(&type);
  free(data);
  OK(MPI_File_close(&file));
}

static void large_call(const char* path) {
  const MPI_Count bytes = (MPI_Count)3 << 30;
  unsigned char* data = malloc((size_t)bytes);
  CHECK(data != NULL);
  for (MPI_Count i = 0; i < bytes; i += 4093) data[i] = (unsigned char)(i / 4093 + rank);
  MPI_File file;
  MPI_Status status;
  MPI_Count moved;
  OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                   MPI_INFO_NULL, &file));
  OK(MPI_File_write_at_c(file, 11, data, bytes, MPI_BYTE, &status));
  MPI_Get_count_c(&status, MPI_BYTE, &moved);
  CHECK(moved == bytes);
  memset(data, 0, (size_t)bytes);
  OK(MPI_File_read_at_c(file, 11, data, bytes, MPI_BYTE, &status));
  MPI_Get_count_c(&status, MPI_BYTE, &moved);
  CHECK(moved == bytes);
  for (MPI_Count i = 0; i < bytes; i += 4093) CHECK(data[i] == (unsigned char)(i / 4093 + rank));
  free(data);
  OK(MPI_File_close(&file));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* path = make_path("large");
  far_view(path);
  if (size == 1) large_call(path);
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
