// SPDX-License-Identifier: BSD-3-Clause
// A rank makes a communicator and revokes it, while others, which wait for a rank that comes late, do not
// know it yet: the revocation reaches them all the same, and the ranks behind them. 4 ranks.
#include <mpi.h>
#include <unistd.h>
#include <weft.h>

#include <cstdio>
#include <vector>

#include "time_limit.hpp"

namespace {

constexpr int kLate = 2;         // sends the id of the communicator to rank 3 (a binomial tree)
constexpr double kDelay = 0.02;  // in seconds
constexpr int kLarge = 4 << 20;
int rank, failures = 0;

void expect_revoked(int code, const char* what, const char* kind) {
  int found = MPI_SUCCESS;
  MPI_Error_class(code, &found);
  if (found == MPIX_ERR_REVOKED) return;
  ++failures;
  std::fprintf(stderr, "rank %d: %s on a communicator of %s returned class %d\n", rank, what, kind, found);
}

struct Kind {
  const char* name;
  MPI_Comm (*make)();
};

const Kind kKinds[] = {
    {"MPI_Comm_dup",
     [] {
       MPI_Comm made;
       MPI_Comm_dup(MPI_COMM_WORLD, &made);
       return made;
     }},
    {"MPI_Comm_idup",
     [] {
       MPI_Comm made;
       MPI_Request request;
       MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
       MPI_Wait(&request, MPI_STATUS_IGNORE);
       return made;
     }},
    {"MPI_Comm_create_group",
     [] {
       MPI_Comm made;
       MPI_Group all;
       MPI_Comm_group(MPI_COMM_WORLD, &all);
       MPI_Comm_create_group(MPI_COMM_WORLD, all, 7, &made);
       MPI_Group_free(&all);
       return made;
     }},
};

/// Makes progress, so that messages about the communicator come before this rank makes it.
void be_late() {
  int found = 0;
  for (const double end = MPI_Wtime() + kDelay; MPI_Wtime() < end;)
    MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
}

MPI_Comm make(const Kind& kind, int revoker) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == kLate) be_late();
  MPI_Comm comm = kind.make();
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  if (rank == revoker) MPIX_Comm_revoke(comm);
  return comm;
}

void receives_and_sends(const Kind& kind, bool sends) {
  static std::vector<char> buffer(kLarge);
  MPI_Comm comm = make(kind, 0);
  if (rank != 0 && sends)
    expect_revoked(MPI_Send(buffer.data(), kLarge, MPI_CHAR, 0, 0, comm), "MPI_Send", kind.name);
  if (rank != 0)
    expect_revoked(MPI_Recv(buffer.data(), 1, MPI_CHAR, 0, 0, comm, MPI_STATUS_IGNORE), "MPI_Recv",
                   kind.name);
  MPI_Comm_free(&comm);
}

/// Rank 0 learns of the revocation only from ranks 2 and 3, which do not use the communicator.
void passes_on(const Kind& kind) {
  char token = 0;
  MPI_Comm comm = make(kind, 1);
  if (rank == 0)
    expect_revoked(MPI_Recv(&token, 1, MPI_CHAR, 3, 0, comm, MPI_STATUS_IGNORE), "a waiting MPI_Recv",
                   kind.name);
  for (const int other : {2, 3}) {
    if (rank == 0) MPI_Send(&token, 1, MPI_CHAR, other, 0, MPI_COMM_WORLD);
    if (rank == other) MPI_Recv(&token, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
  ::alarm(static_cast<unsigned>(weft::test::time_limit(20)));
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int round = 0; round < 5; ++round)
    for (const Kind& kind : kKinds) {
      receives_and_sends(kind, false);
      receives_and_sends(kind, true);
      passes_on(kind);
    }
  MPI_Finalize();
  return failures != 0;
}
