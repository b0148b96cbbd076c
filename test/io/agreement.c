// SPDX-License-Identifier: BSD-3-Clause
// Collective calls of which some ranks succeed: all return the class of the first rank that has failed.
// Writes fail from byte 11000 on, by faults.c; each rank writes 8000 bytes.
#include "check.h"

static int rank, size;

/// All ranks have the class `expected`; the text names the rank that has failed first, or has its own reason.
static void agree(int code, int expected) {
  FAILS(code, expected);
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(code, text, &length);
  CHECK(strstr(text, rank == 0 ? "rank 1 failed" : "cannot write at byte ") != NULL);
}

int main(int argc, char** argv) {
  enum { kBytes = 8000 };
  static char data[kBytes];
  MPI_File file;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int amode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE;
  const MPI_Offset at = (MPI_Offset)rank * kBytes;
  OK(MPI_File_open(MPI_COMM_WORLD, make_path("agreement"), amode, MPI_INFO_NULL, &file));
  agree(MPI_File_write_at_all(file, at, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
  OK(MPI_File_iwrite_at_all(file, at, data, kBytes, MPI_BYTE, &request));
  agree(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
  OK(MPI_File_write_at_all_begin(file, at, data, kBytes, MPI_BYTE));
  agree(MPI_File_write_at_all_end(file, data, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
  OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
  agree(MPI_File_write_ordered(file, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
  FAILS(MPI_File_set_size(file, rank == 1 ? -1 : 8000), MPI_ERR_ARG);
  OK(MPI_File_write_at_all(file, rank, data, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  char representation[MPI_MAX_DATAREP_STRING];
  MPI_Datatype etype, filetype;
  MPI_Offset disp;
  OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "internal", MPI_INFO_NULL));
  OK(MPI_File_get_view(file, &disp, &etype, &filetype, representation));
  CHECK(strcmp(representation, "internal") == 0);
  OK(MPI_File_close(&file));
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
