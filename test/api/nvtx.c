/* SPDX-License-Identifier: BSD-3-Clause */
/* NVTX ranges: one for each MPI call and protocol step; none without a profiler or with WEFT_TRACE_NVTX=off.
   Argument: "ranges" or "none". */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

static int failures;

static void expect(long got, long wanted, const char* what) {
  if (got == wanted) return;
  fprintf(stderr, "%s: %ld, not %ld\n", what, got, wanted);
  ++failures;
}

int main(int argc, char** argv) {
  static char large[1 << 20], other[1 << 20];
  int rank, ranks, word = 1;
  const int ranges = argc > 1 && strcmp(argv[1], "ranges") == 0;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int peer = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  for (int i = 0; i < 10; ++i) {
    MPI_Request request;
    MPI_Irecv(&word, 1, MPI_INT, from, 1, MPI_COMM_WORLD, &request);
    MPI_Send(&i, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Sendrecv(large, sizeof large, MPI_CHAR, peer, 2, other, sizeof other, MPI_CHAR, from, 2, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  double sum = 1;
  MPI_Request reduction;
  MPI_Iallreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF, &reduction);
  MPI_Wait(&reduction, MPI_STATUS_IGNORE);
  MPI_Win win;
  MPI_Win_create(large, sizeof large, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_lock_all(0, win);
  for (int i = 0; i < 3; ++i) {
    MPI_Put(other, 8, MPI_CHAR, peer, 0, 8, MPI_CHAR, win);
    MPI_Win_flush(peer, win);
  }
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  MPI_Comm revoked;
  MPI_Comm_dup(MPI_COMM_SELF, &revoked);
  MPIX_Comm_agree(revoked, &word);
  MPIX_Comm_revoke(revoked);
  MPI_Comm_free(&revoked);
  const char* path = getenv("NVTX_INJECTION64_PATH");
  void* tool = path != NULL ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
  expect(tool != NULL, ranges, "the profiler is loaded");
  if (tool != NULL) {
    long (*count)(const char*);
    long (*number)(void);
    *(void**)&count = dlsym(tool, "tool_count");
    expect(count("MPI_Send"), 10, "ranges of MPI_Send");
    expect(count("MPI_Irecv"), 10, "ranges of MPI_Irecv");
    expect(count("MPI_Barrier"), 1, "ranges of MPI_Barrier");
    expect(count("MPI_Bcast"), 0, "ranges of a call that was not called");
    expect(count("p2p.eager") >= (ranks > 1 ? 10 : 0), 1, "ranges of eager messages");
    expect(count("p2p.self") > 0, ranks == 1, "ranges of messages to self");
    expect(count("p2p.send_rts") > 0, ranks > 1, "ranges of rendezvous messages");
    expect(count("MPI_Put"), 3, "ranges of MPI_Put");
    expect(count("MPI_Win_flush"), 3, "ranges of MPI_Win_flush");
    expect(count("rma.process_vm"), ranks > 1 ? 3 : 0, "ranges of system calls");
    expect(count("MPIX_Comm_agree"), 1, "ranges of MPIX_Comm_agree");
    expect(count("ft.decide"), 1, "ranges of decisions");
    expect(count("core.revoke"), 1, "ranges of revocations");
    expect(count("core.process_failed"), 0, "ranges of failures");
    long (*marks)(const char*, uint64_t);
    *(void**)&marks = dlsym(tool, "tool_marks");
    if (marks("", 0) >= 0) {
      char text[64];
      snprintf(text, sizeof text, "bytes; peer %d, tag 1, communicator 1", peer);
      expect(marks(text, sizeof(int)), from == peer ? 20 : 10, "marks of sends in MPI_COMM_WORLD");
      snprintf(text, sizeof text, "bytes; peer %d, tag 1, communicator 2", from);
      expect(marks(text, sizeof(int)), 0, "marks of messages in MPI_COMM_SELF");
      expect(marks("bytes; communicator 1", 0) >= 1, 1, "marks of barriers");
      expect(marks("bytes; communicator 2", 8), 1, "marks of nonblocking reductions in MPI_COMM_SELF");
    }
    *(void**)&number = dlsym(tool, "tool_open");
    expect(number(), 0, "open ranges");
    *(void**)&number = dlsym(tool, "tool_errors");
    expect(number(), 0, "protocol errors seen by the profiler");
  }
  MPI_Finalize();
  return failures != 0;
}
