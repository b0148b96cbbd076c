// SPDX-License-Identifier: BSD-3-Clause
// NFS, imitated by faults.c (TEST_NFS): MPI_File_sync takes a lock, so that the host sees what other hosts
// have written, if the file has ranks of several hosts. Argument: number of hosts.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "check.h"

static long locks(void) {
  long (*count)(void) = (long (*)(void))dlsym(RTLD_DEFAULT, "test_locks");
  CHECK(count != NULL);
  return count();
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  CHECK(argc == 2);
  const int several = atoi(argv[1]) > 1;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* path = make_path("nfs");
  const int modes[] = {MPI_MODE_RDWR, MPI_MODE_WRONLY, MPI_MODE_RDONLY};
  for (int i = 0; i < 3; ++i) {
    const int reads = modes[i] != MPI_MODE_WRONLY, writes = modes[i] != MPI_MODE_RDONLY;
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, path, modes[i] | (writes ? MPI_MODE_CREATE : 0), MPI_INFO_NULL, &file));
    const int mine = rank * 7 + i;
    if (writes)
      OK(MPI_File_write_at(file, (MPI_Offset)sizeof mine * rank, &mine, 1, MPI_INT, MPI_STATUS_IGNORE));
    const long before = locks();
    OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_sync(file));
    CHECK(locks() - before == (several ? 2 : 0));
    const int other = (rank + 1) % size;
    int got = -1;
    if (reads) {
      OK(MPI_File_read_at(file, (MPI_Offset)sizeof got * other, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
      CHECK(got == other * 7 + (writes ? i : i - 1));
    }
    OK(MPI_File_close(&file));
  }
  if (rank == 0) OK(MPI_File_delete(path, MPI_INFO_NULL));
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
