// SPDX-License-Identifier: BSD-3-Clause
// Random one-sided communication between all ranks, checked against a serial model: windows of every flavor,
// epochs of every synchronisation, all operations, predefined datatypes and operations, derived datatypes
// that differ on origin and target, and chains of atomic operations that must have a serial order. Uses MPI
// only. TEST_THREADS: threads per rank that issue operations.
// usage: oracle rounds COUNT SEED; oracle seconds TIME [SEED]
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "reference/rounds.hpp"
#include "rma/oracle/session.hpp"

namespace {

using oracle::Draw;

int threads = 1;
long operations = 0;

void run_round(uint64_t seed) {
  Draw draw(seed);
  MPI_Comm comm;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, 0, draw.one_in(2) ? -rank : rank, &comm);
  MPI_Comm_rank(comm, &rank);
  Draw own(seed + static_cast<uint64_t>(rank) + 1);
  {
    oracle::Session session(comm, draw);
    for (int epochs = 1 + draw.below(4); epochs > 0; --epochs)
      operations += session.epoch(draw, own, threads, "rounds 1 " + std::to_string(seed));
  }
  MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* text = std::getenv("TEST_THREADS")) threads = std::atoi(text);
  oracle::init_memory();
  int provided;
  MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  oracle::create_elements();
  const long rounds = randomized::run_rounds(argc, argv, run_round, 100);
  oracle::destroy_elements();
  long all = 0;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Reduce(&operations, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%ld rounds, %ld operations\n", rounds, all);
  MPI_Finalize();
  return 0;
}
