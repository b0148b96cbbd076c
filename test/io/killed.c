// SPDX-License-Identifier: BSD-3-Clause
// Processes are killed. Run by killed.py. Arguments: a mode and the path of the file.
//   automatic, exchange, sieve, atomic: rank 1 is killed while all ranks write and read interleaved parts
//   with
//     these hints: the others get MPIX_ERR_PROC_FAILED, hold no lock, leave no file beside the data, and the
//     bytes outside of the call are those of before.
//   synced: all ranks are killed when MPI_File_sync has returned; killed.py reads the file.
#include <signal.h>
#include <weft.h>

#include "check.h"

enum { kBlock = 4096, kBlocks = 512, kBytes = kBlock * kBlocks, kHead = 3 * kBlock + 100 };

static int rank, size;

/// The bytes of the file before the call that a process does not survive.
static unsigned char before(long at) { return (unsigned char)(at * 7 + at / 251); }

/// Blocks of the ranks in turn, then one of nobody.
static void set_view(MPI_File file) {
  MPI_Datatype block, type;
  MPI_Type_contiguous(kBlock, MPI_BYTE, &block);
  MPI_Type_create_resized(block, 0, (MPI_Aint)kBlock * (size + 1), &type);
  MPI_Type_commit(&type);
  OK(MPI_File_set_view(file, kHead + (MPI_Offset)kBlock * rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
  MPI_Type_free(&block);
  MPI_Type_free(&type);
}

static long file_bytes(void) { return kHead + (long)kBytes * (size + 1); }

/// Ranks write the file in parts, one after the other.
static void write_before(MPI_File file) {
  const long part = (file_bytes() + size - 1) / size, first = part * rank;
  const long n = first + part < file_bytes() ? part : file_bytes() - first;
  unsigned char* data = malloc((size_t)n);
  for (long i = 0; i < n; ++i) data[i] = before(first + i);
  OK(MPI_File_write_at_all(file, first, data, (int)n, MPI_BYTE, MPI_STATUS_IGNORE));
  OK(MPI_File_sync(file));
  free(data);
}

static void check_outside(const char* path) {
  unsigned char* data = malloc((size_t)file_bytes());
  FILE* stream = fopen(path, "rb");
  CHECK(stream != NULL && fread(data, 1, (size_t)file_bytes(), stream) == (size_t)file_bytes());
  fclose(stream);
  for (long at = 0; at < file_bytes(); ++at) {
    const int outside = at < kHead || (at - kHead) / kBlock % (size + 1) == size;
    CHECK(!outside || data[at] == before(at));
  }
  free(data);
}

static void set_hints(MPI_Info info, const char* mode) {
  const int atomic = strcmp(mode, "atomic") == 0, sieve = strcmp(mode, "sieve") == 0;
  if (strcmp(mode, "exchange") == 0) {
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "romio_cb_read", "enable");
    MPI_Info_set(info, "cb_buffer_size", "65536");
  }
  if (sieve || atomic) {
    MPI_Info_set(info, "romio_cb_write", "disable");
    MPI_Info_set(info, "romio_cb_read", "disable");
  }
  if (sieve) MPI_Info_set(info, "romio_ds_write", "enable");
}

/// Every kind of write, then a sync.
static void write_synced(MPI_File file) {
  const int quarter = kBytes / 4;
  unsigned char* data = malloc(kBytes);
  memset(data, 'a' + rank, kBytes);
  MPI_Request request;
  set_view(file);
  OK(MPI_File_write_at_all(file, 0, data, quarter, MPI_BYTE, MPI_STATUS_IGNORE));
  OK(MPI_File_iwrite_at_all(file, quarter, data, quarter, MPI_BYTE, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  OK(MPI_File_iwrite_at(file, 2 * quarter, data, quarter, MPI_BYTE, &request));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  OK(MPI_File_write_at_all_begin(file, 3 * quarter, data, quarter, MPI_BYTE));
  OK(MPI_File_write_at_all_end(file, data, MPI_STATUS_IGNORE));
  OK(MPI_File_sync(file));
  printf("synced\n");
  fflush(stdout);
  kill(getpid(), SIGKILL);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(argc == 3);
  const char *mode = argv[1], *path = argv[2];
  MPI_File file;
  MPI_Info info;
  MPI_Info_create(&info);
  set_hints(info, mode);
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
  if (strcmp(mode, "synced") == 0) write_synced(file);
  write_before(file);
  if (strcmp(mode, "atomic") == 0) OK(MPI_File_set_atomicity(file, 1));
  set_view(file);
  char* data = calloc(1, kBytes);
  if (rank == 1 && fork() == 0) {
    usleep(20000);
    kill(getppid(), SIGKILL);
    _exit(0);
  }
  int code = MPI_SUCCESS;
  for (int i = 0; i < 10000 && code == MPI_SUCCESS; ++i)
    code = i % 2 == 0 ? MPI_File_write_at_all(file, 0, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE)
                      : MPI_File_read_at_all(file, 0, data, kBytes, MPI_BYTE, MPI_STATUS_IGNORE);
  FAILS(code, MPIX_ERR_PROC_FAILED);
  // A process of its own can still lock and write.
  MPI_File alone;
  OK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR, MPI_INFO_NULL, &alone));
  OK(MPI_File_set_atomicity(alone, 1));
  OK(MPI_File_write_at(alone, kHead, data, kBlock, MPI_BYTE, MPI_STATUS_IGNORE));
  OK(MPI_File_close(&alone));
  check_outside(path);
  printf("survived\n");
  fflush(stdout);
  _exit(0);
}
