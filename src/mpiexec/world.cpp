// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/world.hpp"

#include <unistd.h>

#include <utility>

#include "mpiexec/report.hpp"

namespace weft::mpiexec {
namespace {

std::vector<int> pmi_sockets(const std::vector<Channels>& channels) {
  std::vector<int> fds;
  for (const Channels& own : channels) fds.push_back(own.pmi);
  return fds;
}

/// A singleton that this mpiexec serves has a channel and no plan.
std::vector<int> program_sizes(const std::vector<RankPlan>& plans) {
  if (plans.empty()) return {1};
  std::vector<int> sizes(static_cast<size_t>(plans.back().program) + 1);
  for (const RankPlan& plan : plans) ++sizes[static_cast<size_t>(plan.program)];
  return sizes;
}

}  // namespace

World::World(int world_number, int first_process, std::vector<RankPlan> rank_plans,
             std::vector<Channels> ends, std::string job_id, WorldListener& listener, int universe_size,
             launch::Values values)
    : number(world_number),
      first(first_process),
      plans(std::move(rank_plans)),
      channels(std::move(ends)),
      server(pmi_sockets(channels), program_sizes(plans), std::move(job_id), *this, universe_size,
             std::move(values)),
      ranks(channels.size()),
      alive(static_cast<int>(channels.size())),
      listener_(listener) {}

World::~World() {
  if (number == 0) return;
  for (Channels& own : channels) {
    close_child_ends(own);
    ::close(own.pmi);
  }
}

std::string World::text_of(int process) const {
  const std::string text = rank_text(process - first, rank_of(process).pid);
  return number == 0 ? text : text + " of spawned job " + std::to_string(number);
}

std::vector<Output::Source> output_sources(const std::vector<Channels>& channels, int spawned_job) {
  std::vector<Output::Source> sources;
  for (size_t rank = 0; rank < channels.size(); ++rank) {
    if (channels[rank].output < 0) continue;  // a singleton that this mpiexec serves
    sources.push_back({channels[rank].output, static_cast<int>(rank), false, spawned_job});
    sources.push_back({channels[rank].error, static_cast<int>(rank), true, spawned_job});
  }
  return sources;
}

}  // namespace weft::mpiexec
