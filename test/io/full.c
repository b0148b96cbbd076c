// SPDX-License-Identifier: BSD-3-Clause
// A full file system, an exceeded quota and unreadable blocks, injected by faults.c from the file offset of
// the argument on: errors have their class on all ranks of a collective call, and no rank hangs.
#include "check.h"

enum { kInts = 4096 };

static int rank, size;

static void set_view(MPI_File file) {
  MPI_Datatype type, tile;
  MPI_Type_vector(kInts, 1, size, MPI_INT, &type);
  MPI_Type_create_resized(type, 0, (MPI_Aint)sizeof(int) * size * kInts, &tile);
  MPI_Type_commit(&tile);
  OK(MPI_File_set_view(file, (MPI_Offset)sizeof(int) * rank, MPI_INT, tile, "native", MPI_INFO_NULL));
  MPI_Type_free(&type);
  MPI_Type_free(&tile);
}

static int text_has(int code, const char* part) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(code, text, &length);
  return strstr(text, part) != NULL;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(argc == 2);
  const MPI_Offset limit = atol(argv[1]);
  const int reading = getenv("TEST_BAD") != NULL;
  const int full = getenv("TEST_QUOTA") != NULL ? MPI_ERR_QUOTA : MPI_ERR_NO_SPACE;
  const int class = reading ? MPI_ERR_IO : full;
  const char* path = make_path("full");
  static int data[kInts];
  MPI_File file;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_buffer_size", "4096");
  MPI_Info_set(info, "romio_cb_read", "enable");
  MPI_Info_set(info, "romio_cb_write", "enable");
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info,
                   &file));
  MPI_Info_free(&info);
  CHECK(limit < (MPI_Offset)sizeof data * size);
  OK(MPI_File_set_size(file, (MPI_Offset)sizeof data * size));
  set_view(file);
  int code;
  MPI_Request request;
  for (int i = 0; i < 3; ++i) {
    code = reading ? MPI_File_read_at_all(file, 0, data, kInts, MPI_INT, MPI_STATUS_IGNORE)
                   : MPI_File_write_at_all(file, 0, data, kInts, MPI_INT, MPI_STATUS_IGNORE);
    FAILS(code, class);
    CHECK(text_has(code, path));
    if (reading)
      OK(MPI_File_iread_at_all(file, 0, data, kInts, MPI_INT, &request));
    else
      OK(MPI_File_iwrite_at_all(file, 0, data, kInts, MPI_INT, &request));
    FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), class);
  }
  // Short records, which a mapping would write: the error is that of the system call.
  if (!reading) FAILS(MPI_File_write_at(file, 0, data, kInts, MPI_INT, MPI_STATUS_IGNORE), class);
  OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  if (reading) {
    FAILS(MPI_File_read_at(file, limit - 4, data, 8, MPI_BYTE, MPI_STATUS_IGNORE), class);
    OK(MPI_File_iread_at(file, limit - 4, data, 8, MPI_BYTE, &request));
  } else {
    FAILS(MPI_File_write_at(file, limit - 4, data, 8, MPI_BYTE, MPI_STATUS_IGNORE), class);
    OK(MPI_File_iwrite_at(file, limit - 4, data, 8, MPI_BYTE, &request));
  }
  FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), class);
  MPI_Status status;
  OK(reading ? MPI_File_read_at(file, limit - 8, data, 8, MPI_BYTE, &status)
             : MPI_File_write_at(file, limit - 8, data, 8, MPI_BYTE, &status));
  OK(MPI_File_close(&file));
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
