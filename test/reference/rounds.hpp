// SPDX-License-Identifier: BSD-3-Clause
// Rounds of a random test on MPI_COMM_WORLD, each with a seed printed before the round.
// usage: PROGRAM rounds COUNT SEED; PROGRAM seconds TIME [SEED]
#pragma once
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace randomized {

/// Runs round(seed) in all processes until the count or time is reached; returns the number of rounds. Prints
/// one of `print_interval` rounds.
template <class Round>
long run_rounds(int argc, char** argv, Round&& round, long print_interval = 1) {
  const bool timed = argc > 2 && std::strcmp(argv[1], "seconds") == 0;
  if (!timed && (argc < 4 || std::strcmp(argv[1], "rounds") != 0)) {
    std::fprintf(stderr, "usage: %s rounds COUNT SEED; %s seconds TIME [SEED]\n", argv[0], argv[0]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const long limit = std::atol(argv[2]);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  uint64_t seed = argc > 3
                      ? std::strtoull(argv[3], nullptr, 10)
                      : static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  long rounds = 0;
  for (int more = 1; more != 0; ++rounds) {
    const uint64_t here = seed + static_cast<uint64_t>(rounds) * 1000000;
    if (rank == 0 && rounds % print_interval == 0) {  // the last printed line is the round that failed
      std::printf("round %ld: %s rounds 1 %llu\n", rounds, argv[0], static_cast<unsigned long long>(here));
      std::fflush(stdout);
    }
    round(here);
    more = timed ? Clock::now() - begin < std::chrono::seconds(limit) : rounds + 1 < limit;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  return rounds;
}

}  // namespace randomized
