// SPDX-License-Identifier: BSD-3-Clause
// Job: worlds that running processes spawn, the names that they publish, and processes that have lost their
// descriptor.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "base/local_socket.hpp"
#include "launch/cpus.hpp"
#include "mpiexec/job.hpp"
#include "mpiexec/mpir.hpp"
#include "mpiexec/other_mpi.hpp"
#include "mpiexec/plan_file.hpp"
#include "mpiexec/processes.hpp"

namespace weft::mpiexec {
namespace {

/// Processes that the supervisor starts at once: their events fit its socket, so that no side waits for the
/// other.
constexpr int kMaxStarting = 16;

}  // namespace

void Job::on_spawn(int process, launch::SpawnRequest request, launch::Values values) {
  Status started;
  if (terminating_)
    started = Error(Errc::spawn, "the job is being ended");
  else
    started = start_world(process, request, std::move(values));
  if (started.ok()) return start_processes();
  World& requester = *world_of(process);
  launch::Spawned none;
  none.problem = started.error().message();
  requester.server.reply_spawn(process - requester.first, none);
}

Status Job::start_world(int requester, const launch::SpawnRequest& request, launch::Values values) {
  const std::string id = unique_job_id();
  auto plans = plan_spawned(request, id, defaults_, busy());
  if (!plans) return std::move(plans).error();
  const int processes = static_cast<int>(plans->size());
  auto channels = open_later_channels(processes);
  if (!channels) return std::move(channels).error();
  const int universe = std::max(alive_ + processes, static_cast<int>(launch::allowed_cpus().size()));
  auto world = std::make_unique<World>(next_world_, next_process_, std::move(*plans), std::move(*channels),
                                       id, listener(), universe, std::move(values));
  for (int rank = 0; rank < processes; ++rank)
    if (!watch(world->channels[static_cast<size_t>(rank)].pmi, world->first + rank, EPOLLIN)) {
      for (const Channels& own : world->channels)
        for (const int fd : {own.output, own.error}) ::close(fd);
      return system_call_error("watch a descriptor", errno);
    }
  world->requester = requester;
  world->unreported = processes;
  output_.add(output_sources(world->channels, world->number));
  for (int rank = 0; rank < processes; ++rank) to_start_.push_back(world->first + rank);
  alive_ += processes;
  next_process_ += processes;
  ++next_world_;
  if (examination_ == 0) examination_ = now() + kFirstExaminationSeconds;
  worlds_.push_back(std::move(world));
  return {};
}

Busy Job::busy() const {
  Busy busy;
  for (const auto& world : worlds_)
    for (size_t rank = 0; rank < world->plans.size(); ++rank) {
      if (world->ranks[rank].exited) continue;
      const RankPlan& plan = world->plans[rank];
      busy.cpus.insert(plan.cpus.begin(), plan.cpus.end());
      for (const size_t gpu : plan.gpus) {
        busy.gpus.resize(std::max(busy.gpus.size(), gpu + 1));
        ++busy.gpus[gpu];
      }
    }
  return busy;
}

void Job::start_processes() {
  while (!to_start_.empty() && starting_ < kMaxStarting) {
    const int process = to_start_.front();
    to_start_.pop_front();
    World& world = *world_of(process);
    const auto rank = static_cast<size_t>(process - world.first);
    Channels& channels = world.channels[rank];
    ++starting_;
    const int plan = write_plan(world.plans[rank]);
    const Command command{Command::start, process};
    const int descriptors[kStartDescriptors] = {plan, channels.child_output, channels.child_error,
                                                channels.child_pmi};
    const bool sent =
        plan >= 0 && supervisor_.control >= 0 &&
        local_socket::send(supervisor_.control, std::as_bytes(std::span(&command, 1)), descriptors);
    const int error = errno;
    if (plan >= 0) ::close(plan);
    close_child_ends(channels);
    if (sent) continue;
    // No supervisor will report its end.
    on_started(world, process, system_call_error("start a process", error).message());
    on_exit(process, 0, true);
  }
}

void Job::on_started(World& world, int process, const std::string& problem) {
  --starting_;
  if (!problem.empty()) {
    world.rank_of(process).not_started = true;
    if (world.problem.empty()) world.problem = problem;
  }
  if (--world.unreported == 0) reply(world);
  start_processes();
}

// Either all processes of a request are started, or none.
void Job::reply(World& world) {
  launch::Spawned spawned;
  spawned.problem = world.problem;
  for (const World::Rank& rank : world.ranks) {
    if (!world.problem.empty()) break;
    spawned.started.push_back(true);
    spawned.pids.push_back(rank.pid);
  }
  if (world.problem.empty())
    publish_worlds();
  else
    cancel(world);
  const int process = std::exchange(world.requester, -1);
  if (World* const requester = world_of(process); requester != nullptr)
    requester->server.reply_spawn(process - requester->first, spawned);
}

void Job::cancel(World& world) {
  world.cancelled = true;
  for (int rank = 0; rank < world.size(); ++rank)
    if (const World::Rank& one = world.ranks[static_cast<size_t>(rank)]; !one.not_started && !one.exited)
      command(Command::end, world.first + rank);
}

void Job::publish_worlds() const {
  std::vector<PublishedProcess> processes;
  for (const auto& world : worlds_)
    for (size_t rank = 0; rank < world->plans.size(); ++rank)  // a singleton that is served has no plan
      if (!world->cancelled && world->unreported == 0)
        processes.push_back(
            {world->plans[rank].argv[0], world->ranks[rank].pid, world->number, static_cast<int>(rank)});
  publish_processes(std::move(processes));
}

void Job::join_processes() {
  for (const PmiListener::Request& request : pmi_listener_.take()) {
    World* const world = world_of(request.process);
    const bool watched =
        world != nullptr && watch(request.fd, kJoined + static_cast<int64_t>(request.process), EPOLLIN);
    if (!watched || !world->server.join(request.process - world->first, request.fd, request.pid))
      ::close(request.fd);
  }
}

void Job::watch_names() {
  if (names_watched_ || names_.descriptor() < 0) return;
  names_watched_ = watch(names_.descriptor(), name_requests, EPOLLIN);
}

}  // namespace weft::mpiexec
