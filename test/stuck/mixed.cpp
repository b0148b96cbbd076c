// SPDX-License-Identifier: BSD-3-Clause
// Jobs on several (fake) hosts that are stuck in operations of several kinds: enqueued operations, window
// locks and messages; hosts.py says what `weft hang --job` must find. Needs four ranks, two on each host.
// usage: mixed CASE
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "stream/stream_comm.hpp"

namespace {

using namespace weft::test::enqueued;

MPI_Win window;
MPI_Comm of_host;
std::unique_ptr<StreamComm> streams;
int word = 0;

void receive(int source, int tag) {
  MPI_Recv(&word, 1, MPI_INT, source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
void lock(int target) { MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window); }

/// Waits in the stream for a message of the other rank of this host, then in the program for the stream.
void receive_in_stream(int tag) {
  Buffer in(Kind::device, 64, device);
  MPIX_Recv_enqueue(in.data(), 64, MPI_BYTE, 1 - rank % 2, tag, streams->comm, MPI_STATUS_IGNORE);
  poll_until_idle(streams->stream);
}

/// rank 0's stream -> rank 1 -> (other host) rank 2 -> the lock of rank 3, held by rank 0
void all_kinds() {
  if (rank == 0) lock(3);
  barrier();
  if (rank == 0) receive_in_stream(5);
  if (rank == 1) receive(2, 6);
  if (rank == 2) lock(3);
  barrier();
}

/// A cycle of locks: each rank holds its own and wants that of the next, which is on the other host for two.
void locks() {
  lock(rank);
  barrier();
  lock((rank + 1) % 4);
}

/// rank 1 waits by messages for a lock of the other host, held by rank 0, which waits for rank 1.
void remote_lock() {
  if (rank == 0) lock(2);
  barrier();
  if (rank == 0) receive(1, 7);
  if (rank == 1) lock(2);
  barrier();
}

/// Shared locks of a rank of the other host, and an exclusive one.
void shared_lock() {
  if (rank == 0) MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, window);
  barrier();
  if (rank == 0) receive(1, 7);
  if (rank == 1) lock(2);
  barrier();
}

void streams_of_both() { receive_in_stream(8); }

/// Rank 3 has died; ranks 0 and 2, on two hosts, wait for each other.
void dead() {
  barrier();
  if (rank == 3) _exit(0);
  if (rank % 2 == 0) receive(2 - rank, 9);
  for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  const char* const name = argc > 1 ? argv[1] : "";
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &of_host);
  void* memory;
  MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  const bool in_stream = std::strcmp(name, "all_kinds") == 0 || std::strcmp(name, "streams") == 0;
  if (in_stream) streams = std::make_unique<StreamComm>(of_host);
  if (in_stream) MPI_Comm_set_name(streams->comm, "in order");
  barrier();
  if (rank == 0) {
    std::printf("%d\n", static_cast<int>(getpid()));
    std::fflush(stdout);
  }
  if (std::strcmp(name, "all_kinds") == 0) all_kinds();
  if (std::strcmp(name, "locks") == 0) locks();
  if (std::strcmp(name, "remote_lock") == 0) remote_lock();
  if (std::strcmp(name, "shared_lock") == 0) shared_lock();
  if (std::strcmp(name, "streams") == 0) streams_of_both();
  if (std::strcmp(name, "dead") == 0) dead();
  return weft::test::finish(failures);
}
