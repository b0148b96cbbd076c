// SPDX-License-Identifier: BSD-3-Clause
// Communicators that the library makes for steps of operations on another one end with that one, also if it
// is revoked while they are made: those of the hosts, inside of collectives, and those of windows. A call
// that does not end is ended by the time limit. usage: revoked_parts ROUNDS
#include <mpi.h>
#include <unistd.h>
#include <weft.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

namespace {

constexpr unsigned kMaxDelayUs = 2000;

int rank, size, failures = 0;

int class_of(int code) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  return error_class;
}

/// The first collectives, which make communicators inside of hosts and across.
int collectives(MPI_Comm comm) {
  int code = MPI_SUCCESS, sum = 0;
  while (code == MPI_SUCCESS) code = MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  return code;
}

int windows(MPI_Comm comm) {
  int code = MPI_SUCCESS;
  while (code == MPI_SUCCESS) {
    MPI_Win win;
    char* memory;
    code = MPI_Win_allocate(8, 1, MPI_INFO_NULL, comm, static_cast<void*>(&memory), &win);
    if (code != MPI_SUCCESS) return code;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    code = MPI_Win_free(&win);
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 300;
  std::mt19937 common(1);
  int (*const kinds[])(MPI_Comm) = {collectives, windows};
  for (int round = 0; round < rounds; ++round) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    const bool revokes = static_cast<int>(common() % static_cast<unsigned>(size)) == rank;
    const auto delay = common() % kMaxDelayUs;
    MPI_Barrier(MPI_COMM_WORLD);
    std::thread revoker;
    if (revokes)
      revoker = std::thread([&] {
        ::usleep(delay);
        MPIX_Comm_revoke(comm);
      });
    const int code = kinds[round % 2](comm);
    if (class_of(code) != MPIX_ERR_REVOKED) {
      ++failures;
      std::fprintf(stderr, "rank %d, round %d: class %d\n", rank, round, class_of(code));
    }
    if (revoker.joinable()) revoker.join();
    MPI_Comm_free(&comm);
  }
  MPI_Finalize();
  return failures != 0;
}
