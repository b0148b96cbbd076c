// SPDX-License-Identifier: BSD-3-Clause
// Job: what its processes do.
#include <unistd.h>

#include <algorithm>

#include "mpiexec/job.hpp"
#include "mpiexec/processes.hpp"
#include "mpiexec/waits.hpp"

namespace weft::mpiexec {
namespace {

/// Returns whether a job on this host is the world of an mpiexec.
bool is_world(const JobState& job, const World& world) {
  return std::any_of(world.ranks.begin(), world.ranks.end(), [&](const World::Rank& rank) {
    return !job.ranks.empty() && rank.pid == job.ranks.front().pid;
  });
}

/// Appends lines for the ranks of a world that `found` does not contain.
void append_others(const World& world, const std::set<int>& found, std::string& text) {
  for (int rank = 0; rank < world.size(); ++rank) {
    if (found.contains(rank)) continue;
    const PmiServer::Stage stage = world.server.stage(rank);
    const World::Rank& state = world.ranks[static_cast<size_t>(rank)];
    text += "\n  rank " + std::to_string(rank) + " (pid " + std::to_string(state.pid) + "): ";
    text += state.exited                                 ? "has ended"
            : stage == PmiServer::Stage::not_initialized ? "has not called MPI_Init"
            : stage == PmiServer::Stage::initialized ? "in MPI_Init, waits for ranks that have not called it"
                                                     : "has called MPI_Finalize";
  }
}

}  // namespace

bool Job::any_rank_handles(int signal) const {
  return std::any_of(worlds_.begin(), worlds_.end(), [&](const auto& world) {
    return std::any_of(world->ranks.begin(), world->ranks.end(), [&](const World::Rank& rank) {
      return rank.pid > 0 && !rank.exited && handles(rank.pid, signal);
    });
  });
}

void Job::print_waits() const {
  std::string text = "what the ranks do:";
  const std::vector<JobState> jobs = read_jobs(descendants(::getpid()));
  for (const auto& world : worlds_) {
    if (world->number != 0) text += "\n spawned job " + std::to_string(world->number) + ":";
    std::set<int> found;
    for (const JobState& job : jobs) {
      const bool own = is_world(job, *world);
      const bool spawned = std::any_of(std::next(worlds_.begin()), worlds_.end(),
                                       [&](const auto& other) { return is_world(job, *other); });
      // Programs that a rank has started are shown with the first job.
      if (!own && (spawned || world->number != 0)) continue;
      if (own || !job.singleton() || world->size() == 1)
        for (const RankState& rank : job.ranks) found.insert(rank.rank);
      for (const std::string& line : describe(job)) text += "\n  " + line;
    }
    append_others(*world, found, text);
  }
  print_message(text);
}

}  // namespace weft::mpiexec
