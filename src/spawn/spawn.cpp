// SPDX-License-Identifier: BSD-3-Clause
#include "spawn/spawn.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/process_watch.hpp"
#include "coll/bootstrap/group.hpp"
#include "core/instance.hpp"
#include "launch/spawn_info.hpp"
#include "spawn/port.hpp"

namespace weft::spawn {
namespace {

using core::Communicator;
using core::Instance;

constexpr size_t kMaxWatched =
    256;  // started processes that are watched until they connect: a descriptor each

/// Ends the root's wait for the new job when one of its processes has ended: none calls MPI_Init alone.
class StartWatch {
 public:
  explicit StartWatch(const std::vector<int>& pids) {
    for (size_t i = 0; i < std::min(pids.size(), kMaxWatched); ++i)
      if (auto watch = ProcessWatch::open(pids[i])) watches_.emplace_back(pids[i], std::move(*watch));
  }
  Status check() const {
    for (const auto& [pid, watch] : watches_)
      if (watch.ended())
        return Error(Errc::spawn,
                     "a spawned process (pid " + std::to_string(pid) +
                         ") has ended before its job has called MPI_Init: is it an MPI program?");
    return {};
  }

 private:
  std::vector<std::pair<int, ProcessWatch>> watches_;
};

struct Request {
  launch::SpawnRequest request;
  std::vector<int> wanted;  // maxprocs of each program
};

Result<Request> make_request(std::vector<Program> programs, std::string parent) {
  Request made;
  std::error_code unknown;  // then the launcher chooses
  made.request.directory = std::filesystem::current_path(unknown).string();
  made.request.parent_value = std::move(parent);
  for (Program& program : programs) {
    if (const std::string* file = launch::value_of(program.info, {"file"})) {
      auto values = read_info_file(*file);
      if (!values) return std::move(values).error();
      for (auto& value : *values)
        if (launch::value_of(program.info, {value.first}) == nullptr)
          program.info.push_back(std::move(value));
    }
    int processes = program.processes;
    if (const std::string* soft = launch::value_of(program.info, {"soft"})) {
      auto number = largest_of(*soft, processes);
      if (!number) return std::move(number).error();
      if (*number == 0)
        return Error(Errc::spawn,
                     "soft = " + *soft + " has no number from 1 to maxprocs = " + std::to_string(processes));
      processes = *number;
    }
    std::erase_if(program.info,
                  [](const auto& entry) { return entry.first == "file" || entry.first == "soft"; });
    made.wanted.push_back(program.processes);
    made.request.programs.push_back(
        {std::move(program.command), std::move(program.arguments), processes, std::move(program.info)});
  }
  return made;
}

/// The root's message to the other ranks before they connect to the new job.
struct Answer {
  std::string problem;  // empty: the job connects
  Started started;
};

Status broadcast(const coll::BootstrapGroup& group, int root, Answer& answer) {
  uint64_t sizes[] = {answer.problem.size(), answer.started.process.size(), answer.started.processes};
  WEFT_TRY(group.broadcast(sizes, sizeof sizes, root));
  answer.problem.resize(sizes[0]);
  answer.started.process.resize(sizes[1]);
  answer.started.processes = sizes[2];
  WEFT_TRY(group.broadcast(answer.problem.data(), sizes[0], root));
  return group.broadcast(answer.started.process.data(), sizes[1], root);
}

/// The root's part: opens a port for the new job, whose processes the launcher starts.
Result<launch::Spawned> start(Instance& instance, Result<std::vector<Program>> programs,
                              std::optional<p2p::Port>& port, Answer& answer) {
  if (!programs) return std::move(programs).error();
  auto opened = p2p::open_port(instance, default_reach(instance));
  if (!opened) return std::move(opened).error();
  port = std::move(*opened);
  auto made = make_request(std::move(*programs), port->name);
  if (!made) return std::move(made).error();
  for (const int wanted : made->wanted) answer.started.processes += static_cast<uint64_t>(wanted);
  auto spawned = instance.exchange->spawn(made->request);
  if (!spawned) return std::move(spawned).error();
  if (std::find(spawned->started.begin(), spawned->started.end(), true) == spawned->started.end())
    return Error(Errc::spawn, spawned->problem.empty() ? "no process was started" : spawned->problem);
  size_t next = 0;  // process of the new job
  for (size_t i = 0; i < made->wanted.size(); ++i)
    for (int process = 0; process < made->wanted[i]; ++process) {
      const bool asked = process < made->request.programs[i].processes;
      answer.started.process.push_back(asked && spawned->started[next] ? 1 : 0);
      next += asked ? 1 : 0;
    }
  return spawned;
}

/// Whether an error is of the communicator of the call, not of the new job.
bool of_communicator(const Error& error) {
  return error.code() == Errc::revoked || error.code() == Errc::proc_aborted;
}

}  // namespace

coll::NewCommunicator spawn(Communicator& local, int root, Result<std::vector<Program>> programs,
                            Started& started) {
  Instance& instance = local.instance;
  const coll::BootstrapGroup group(local, local.next_collective_tag());
  WEFT_TRY(instance.failures.check(local));  // before anything is started
  Answer answer;
  std::optional<p2p::Port> port;
  std::optional<StartWatch> watch;
  Status status;
  if (local.rank() == root) {
    auto spawned = start(instance, std::move(programs), port, answer);
    if (spawned)
      watch.emplace(spawned->pids);
    else
      status = std::move(spawned).error();
    if (!status.ok()) answer.problem = status.error().message();
  }
  coll::NewCommunicator made(nullptr);
  Status told = broadcast(group, root, answer);
  started = std::move(answer.started);
  if (status.ok()) status = std::move(told);
  if (status.ok() && !answer.problem.empty()) status = Error(Errc::spawn, answer.problem);
  // The started processes connect whatever has failed here: the root refuses them then.
  if (status.ok() || watch) {
    made = coll::accept_job(local, root, port ? port->number : 0, [&] { return watch->check(); });
    if (made)
      status = {};
    else if (status.ok())
      status =
          of_communicator(made.error()) ? made.error().copy() : Error(Errc::spawn, made.error().message());
  }
  if (port) p2p::close_port(instance, port->number);
  if (!status.ok()) return std::move(status).error();
  return made;
}

coll::NewCommunicator connect_parent(Communicator& world) {
  const auto port = world.instance.exchange->parent_value();
  if (!port) return nullptr;
  return coll::connect_job(world, 0, *port);
}

}  // namespace weft::spawn
