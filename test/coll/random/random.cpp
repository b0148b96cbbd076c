// SPDX-License-Identifier: BSD-3-Clause
// Random collectives on random communicators: chains of derived communicators, intra and inter, with and
// without topologies; several concurrent calls in all forms, completed in different orders by different
// processes. usage: random rounds COUNT SEED; random seconds TIME [SEED]
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

/// Runs all jobs concurrently; each process completes them in its own order.
void run(const std::vector<Job*>& jobs, expect::FieldCopies& copies, int rank, void (Job::*begin)()) {
  if (jobs.empty()) return;
  std::vector<Job*> order = jobs;
  std::rotate(order.begin(), order.begin() + rank % static_cast<int>(order.size()), order.end());
  for (Job* job : jobs) job->load();
  copies.upload();
  for (Job* job : jobs) (job->*begin)();
  for (Job* job : order) job->complete();
  copies.download();
  for (Job* job : jobs) job->compare();
}

void work(const Team& team, Draw& draw) {
  expect::FieldCopies copies;  // of all buffers of the jobs
  std::vector<std::unique_ptr<Job>> made;
  std::vector<Job*> all, persistent;
  for (int n = 1 + draw.below(4); n > 0; --n) {
    made.push_back(std::make_unique<Job>(team, draw));
    all.push_back(made.back().get());
    if (made.back()->persistent()) persistent.push_back(made.back().get());
  }
  run(all, copies, team.rank, &Job::begin);
  run(persistent, copies, team.rank, &Job::restart);
  for (Job* job : persistent) job->free();
}

/// Derives a chain of communicators and runs jobs on each.
void round(uint64_t seed) {
  Draw draw(seed);
  std::vector<Team> chain{randomized::world_team()};
  for (int length = 1 + draw.below(5); length > 0; --length) {
    chain.push_back(derive(chain.back(), draw));
    if (!chain.back().exists()) break;
    // From here on, members of one communicator draw equal numbers, other communicators different numbers.
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
  expect::init_memory();
  MPI_Init(&argc, &argv);
  const long rounds = randomized::run_rounds(argc, argv, [](uint64_t seed) { round(seed); });
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("%ld rounds, %ld comparisons in rank 0\n", rounds, expect::checks);
  expect::close();
  MPI_Finalize();
  return 0;
}
