// SPDX-License-Identifier: BSD-3-Clause
// Random collectives on random communicators: made from one another in random ways, intra and inter, with and
// without topologies; several at a time in all forms, completed in different orders by different processes.
// usage: random rounds COUNT SEED; random seconds TIME [SEED]
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "coll/expect.hpp"
#include "coll/random/job.hpp"

namespace {

using randomized::Draw;
using randomized::Job;
using randomized::Team;

void work(const Team& team, Draw& draw) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (int n = 1 + draw.below(4); n > 0; --n) jobs.push_back(std::make_unique<Job>(team, draw));
  for (const auto& job : jobs) job->begin();
  std::vector<Job*> order;
  for (const auto& job : jobs) order.push_back(job.get());
  std::rotate(order.begin(), order.begin() + team.rank % static_cast<int>(order.size()), order.end());
  for (Job* job : order) job->complete();
  for (const auto& job : jobs) job->repeat();
}

/// A chain of communicators, each made from the one before, and work on each.
void round(uint64_t seed) {
  Draw draw(seed);
  std::vector<Team> chain{randomized::everyone()};
  for (int length = 1 + draw.below(5); length > 0; --length) {
    chain.push_back(derive(chain.back(), draw));
    if (!chain.back().exists()) break;
    // Members of one communicator draw alike from here, those of others differently.
    const auto& team = chain.back();
    draw = Draw(
        seed + static_cast<uint64_t>(length) * 1000 +
        static_cast<uint64_t>(std::min(
            *std::min_element(team.members.begin(), team.members.end()),
            team.inter() ? *std::min_element(team.remote.begin(), team.remote.end()) : team.members[0])));
    work(team, draw);
  }
  while (!chain.empty()) {
    disband(chain.back());
    chain.pop_back();
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc < 3 || (std::strcmp(argv[1], "rounds") == 0 && argc < 4)) {
    std::fprintf(stderr, "usage: random rounds COUNT SEED; random seconds TIME [SEED]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const bool timed = std::strcmp(argv[1], "seconds") == 0;
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
    if (rank == 0 && (timed || rounds == 0)) {  // the last line is the round that failed
      std::printf("round %ld: random rounds 1 %llu\n", rounds, static_cast<unsigned long long>(here));
      std::fflush(stdout);
    }
    round(here);
    more = timed ? Clock::now() - begin < std::chrono::seconds(limit) : rounds + 1 < limit;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  if (rank == 0) std::printf("%ld rounds, %ld comparisons in rank 0\n", rounds, expect::checks);
  expect::close();
  MPI_Finalize();
  return 0;
}
