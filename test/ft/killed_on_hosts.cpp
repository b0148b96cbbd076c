// SPDX-License-Identifier: BSD-3-Clause
// The last rank is killed at a random moment of collectives between hosts. All others get an error of the
// right class, and go on with what is left. usage: killed_on_hosts SEED; even seeds: large allgathers, whose
// buffers are freed after each, also after an error; odd ones: small allreduces and broadcasts.
#include <mpi-ext.h>
#include <mpi.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

constexpr size_t kLarge = 211594;
int rank, size;

void die(int) { kill(getpid(), SIGKILL); }

int allgather(MPI_Comm comm) {
  const std::vector<char> mine(kLarge, static_cast<char>(rank));
  std::vector<char> all(kLarge * static_cast<size_t>(size));
  const int code = MPI_Allgather(mine.data(), kLarge, MPI_BYTE, all.data(), kLarge, MPI_BYTE, comm);
  for (int i = 0; i < size && code == MPI_SUCCESS; ++i)
    if (all[kLarge * static_cast<size_t>(i + 1) - 1] != static_cast<char>(i)) std::printf("BAD data\n");
  return code;
}

int small(MPI_Comm comm, int number) {
  char bytes[1000] = {};
  int sum = 0;
  int code = MPI_Bcast(bytes, sizeof bytes, MPI_BYTE, number % size, comm);
  if (code == MPI_SUCCESS) code = MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
  if (code == MPI_SUCCESS && sum != size * (size - 1) / 2) std::printf("BAD sum\n");
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(nullptr, nullptr);
  const int seed = argc > 1 ? std::atoi(argv[1]) : 0;
  MPI_Comm comm, survivors;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  std::mt19937 random(static_cast<unsigned>(seed));
  itimerval life{};
  life.it_value.tv_usec = 1 + static_cast<long>(random() % (seed % 2 == 0 ? 600 : 2000));
  signal(SIGALRM, die);
  MPI_Barrier(comm);
  if (rank == size - 1) setitimer(ITIMER_REAL, &life, nullptr);
  int code = MPI_SUCCESS, found = MPI_SUCCESS;
  for (int i = 0; code == MPI_SUCCESS; ++i) code = seed % 2 == 0 ? allgather(comm) : small(comm, i);
  MPI_Error_class(code, &found);
  const bool right = found == MPIX_ERR_PROC_FAILED || found == MPIX_ERR_REVOKED;
  if (!right) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    std::printf("BAD class: %s\n", text);
  }
  MPIX_Comm_revoke(comm);
  int flag = 1, left = 0;
  MPIX_Comm_agree(comm, &flag);
  MPIX_Comm_shrink(comm, &survivors);
  MPI_Comm_size(survivors, &left);
  MPI_Barrier(survivors);
  MPI_Comm_free(&comm);
  MPI_Comm_free(&survivors);
  MPI_Finalize();
  if (right && left == size - 1) std::printf("good\n");
  return 0;
}
