// SPDX-License-Identifier: BSD-3-Clause
// Rank 1 is killed while all ranks write interleaved parts: the others get MPIX_ERR_PROC_FAILED, hold no
// lock, and leave no file beside the data. Run by killed.py.
#include <signal.h>
#include <weft.h>

#include "check.h"

enum { kBytes = 16 << 20, kBlock = 4096 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(argc == 2);
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
  MPI_Datatype block, type;
  MPI_Type_contiguous(kBlock, MPI_BYTE, &block);
  MPI_Type_create_resized(block, 0, (MPI_Aint)kBlock * size, &type);
  MPI_Type_commit(&type);
  OK(MPI_File_set_view(file, (MPI_Offset)kBlock * rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
  char* data = calloc(1, kBytes);
  OK(MPI_File_write_at_all(file, 0, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE));
  OK(MPI_File_sync(file));
  if (rank == 1 && fork() == 0) {
    usleep(20000);
    kill(getppid(), SIGKILL);
    _exit(0);
  }
  int code = MPI_SUCCESS;
  for (int i = 0; i < 1000 && code == MPI_SUCCESS; ++i)
    code = i % 2 == 0 ? MPI_File_write_at_all(file, 0, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE)
                      : MPI_File_read_at_all(file, 0, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE);
  FAILS(code, MPIX_ERR_PROC_FAILED);
  // A process of its own can still lock and write.
  MPI_File alone;
  OK(MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDWR, MPI_INFO_NULL, &alone));
  OK(MPI_File_set_atomicity(alone, 1));
  OK(MPI_File_write_at(alone, 0, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE));
  OK(MPI_File_close(&alone));
  printf("survived\n");
  fflush(stdout);
  _exit(0);
}
