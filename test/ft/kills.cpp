// SPDX-License-Identifier: BSD-3-Clause
// Ranks are killed at random points of random traffic, agreements and shrinks, until `survivors` ranks are
// left. After each failure the others revoke, shrink and agree, and compare their results. usage: kills SEED
// SURVIVORS. TEST_MEMORY=device: buffers in GPU memory. TEST_SPAWN=1: every other operation spawns a process.
#include <mpi.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>
#include <weft.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/cuda_test_support.hpp"

namespace {

using weft::test::Buffer;

constexpr int kBytes = 1 << 20;
std::unique_ptr<Buffer> in, out;
int world_rank, world_size;

const char* program;
const bool spawns = std::getenv("TEST_SPAWN") != nullptr;

void die(int) { kill(getpid(), SIGKILL); }

void die_after(long microseconds) {
  itimerval life{};
  life.it_value.tv_usec = microseconds + 1;
  signal(SIGALRM, die);
  setitimer(ITIMER_REAL, &life, nullptr);
}

/// Both sides disconnect also after an error, as the other side waits for that.
int meet(MPI_Comm other) {
  const int code = MPI_Barrier(other);
  const int disconnected = MPI_Comm_disconnect(&other);
  return code != MPI_SUCCESS ? code : disconnected;
}

int spawn(MPI_Comm comm) {
  MPI_Comm children;
  char child[] = "child";
  char* arguments[] = {child, nullptr};
  const int code =
      MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, comm, &children, MPI_ERRCODES_IGNORE);
  return code == MPI_SUCCESS ? meet(children) : code;
}

int run_child() {
  MPI_Comm parents;
  MPI_Init(nullptr, nullptr);
  MPI_Comm_get_parent(&parents);
  MPI_Comm_set_errhandler(parents, MPI_ERRORS_RETURN);
  (void)meet(parents);
  return MPI_Finalize();
}

/// One random operation; all ranks draw the same numbers.
int operate(MPI_Comm comm, std::mt19937& random) {
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const unsigned what = random() % 10, root = random() % static_cast<unsigned>(size);
  const int bytes = 1 << random() % 18, to = (rank + 1) % size, from = (rank + size - 1) % size;
  const int ints = std::max(1, bytes / 4), r = static_cast<int>(root);
  char *const send = out->data(), *const receive = in->data();
  MPI_Request requests[2];
  if (spawns && random() % 2 != 0) return spawn(comm);
  switch (what) {
    case 0:
      return MPI_Barrier(comm);
    case 1:
      return MPI_Bcast(receive, bytes, MPI_CHAR, r, comm);
    case 2:
      return MPI_Allreduce(send, receive, ints, MPI_INT, MPI_SUM, comm);
    case 3:
      return MPI_Reduce(send, receive, ints, MPI_INT, MPI_SUM, r, comm);
    case 4:
      return MPI_Alltoall(send, ints / size, MPI_INT, receive, ints / size, MPI_INT, comm);
    case 5: {
      int code = MPI_Iallreduce(send, receive, ints, MPI_INT, MPI_SUM, comm, requests);
      return code == MPI_SUCCESS ? MPI_Wait(requests, MPI_STATUS_IGNORE) : code;
    }
    case 6: {
      const int any = random() % 2 != 0 ? MPI_ANY_SOURCE : from;
      const int received = MPI_Irecv(receive, bytes, MPI_CHAR, any, 1, comm, &requests[0]);
      const int sent = MPI_Isend(send, bytes, MPI_CHAR, to, 1, comm, &requests[1]);
      const int done = MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      for (MPI_Request& request : requests)
        if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
      return received != MPI_SUCCESS ? received : sent != MPI_SUCCESS ? sent : done;
    }
    case 7: {  // the larger blocks are messages
      std::vector<int> counts, places;
      for (int peer = 0; peer < size; ++peer) {
        counts.push_back((rank + peer) % 3 * (ints / size / 2));
        places.push_back(peer * (ints / size));
      }
      return MPI_Alltoallv(send, counts.data(), places.data(), MPI_INT, receive, counts.data(), places.data(),
                           MPI_INT, comm);
    }
    default:
      return MPI_Sendrecv(send, bytes, MPI_CHAR, to, 2, receive, bytes, MPI_CHAR, from, 2, comm,
                          MPI_STATUS_IGNORE);
  }
}

/// Exits if the ranks of the communicator have different members, or different results of the agreement.
/// Returns false if it fails first.
bool compare(MPI_Comm comm, int agreed, int round) {
  MPI_Group group, world;
  int size;
  MPI_Comm_size(comm, &size);
  MPI_Comm_group(comm, &group);
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  std::vector<int> ranks(static_cast<size_t>(size)), members(ranks);
  for (int i = 0; i < size; ++i) ranks[static_cast<size_t>(i)] = i;
  MPI_Group_translate_ranks(group, size, ranks.data(), world, members.data());
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  unsigned long long mine = static_cast<unsigned>(agreed) * 31u + static_cast<unsigned>(round);
  for (const int member : members) mine = mine * 1000003 + static_cast<unsigned>(member);
  unsigned long long least = 0, most = 0;
  if (MPI_Allreduce(&mine, &least, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, comm) != MPI_SUCCESS ||
      MPI_Allreduce(&mine, &most, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, comm) != MPI_SUCCESS)
    return false;
  if (least == most) return true;
  std::printf("BAD rank %d: results differ in round %d\n", world_rank, round);
  std::fflush(stdout);
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  program = argv[0];
  if (argc == 2 && std::string(argv[1]) == "child") return run_child();
  if (argc < 3) return 2;
  const char* const memory = std::getenv("TEST_MEMORY");
  const bool on_gpu = memory != nullptr && std::string(memory) == "device";
  const int gpu = on_gpu ? weft::test::own_device() : 0;
  for (auto* buffer : {&in, &out}) {
    *buffer = std::make_unique<Buffer>(on_gpu ? Buffer::Kind::device : Buffer::Kind::host, kBytes, gpu);
    (*buffer)->write(std::vector<char>(kBytes));
  }
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const auto seed = static_cast<unsigned>(std::atol(argv[1]));
  const int survivors = std::atoi(argv[2]);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Barrier(MPI_COMM_WORLD);  // nobody dies before all have the communicator
  double recovery = 0;
  int kills = 0;
  for (int round = 0;; ++round) {
    int size = 0, rank = 0;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    if (size <= survivors) break;
    std::mt19937 random(seed * 1000u + static_cast<unsigned>(round));
    const int victim = static_cast<int>(random() % static_cast<unsigned>(size));
    const long lifetime = static_cast<long>(random() % (spawns ? 60'000 : 4000));
    // A second one dies in the recovery of the first.
    const int second = static_cast<int>(random() % static_cast<unsigned>(size));
    const bool two = size - 2 >= survivors && random() % 3 == 0 && second != victim;
    const long second_lifetime = lifetime + static_cast<long>(random() % 25'000);
    if (rank == victim) die_after(lifetime);
    if (two && rank == second) die_after(second_lifetime);
    while (operate(comm, random) == MPI_SUCCESS) {
    }
    const double begin = MPI_Wtime();
    MPI_Comm next;
    int flag = ~(1 << world_rank % 31), flag_of_comm = flag, acknowledged = 0;
    MPIX_Comm_revoke(comm);
    MPIX_Comm_ack_failed(comm, size, &acknowledged);
    MPIX_Comm_agree(comm, &flag_of_comm);
    if (MPIX_Comm_shrink(comm, &next) != MPI_SUCCESS) {
      std::printf("BAD rank %d: shrink\n", world_rank);
      std::abort();
    }
    MPIX_Comm_agree(next, &flag);
    recovery = std::max(recovery, MPI_Wtime() - begin);
    (void)compare(next, flag ^ flag_of_comm * 7, round);
    MPI_Comm_free(&comm);
    comm = next;
    // The second victim has died before the next round, in which other ranks may draw it.
    int next_size = 0;
    MPI_Comm_size(comm, &next_size);
    if (two && next_size == size - 1) {
      while (MPI_Barrier(comm) == MPI_SUCCESS) usleep(500);
      MPIX_Comm_revoke(comm);
      MPIX_Comm_shrink(comm, &next);
      MPI_Comm_free(&comm);
      comm = next;
    }
    kills = world_size - next_size;
  }
  std::printf("good rank %d: %d kills, recovery %.1f ms\n", world_rank, kills, recovery * 1e3);
  std::fflush(stdout);
  return MPI_Finalize();
}
