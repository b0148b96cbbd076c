// SPDX-License-Identifier: BSD-3-Clause
// Random collectives on random communicators: made from one another in random ways, intra and inter, with and
// without topologies; several at a time in all forms, completed in different orders by different processes.
// usage: random rounds COUNT SEED; random seconds TIME [SEED]
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "coll/expect.hpp"
#include "coll/random/job.hpp"
#include "reference/rounds.hpp"

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
  const long rounds = randomized::run_rounds(argc, argv, [](uint64_t seed) { round(seed); });
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("%ld rounds, %ld comparisons in rank 0\n", rounds, expect::checks);
  expect::close();
  MPI_Finalize();
  return 0;
}
