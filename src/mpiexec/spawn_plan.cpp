// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/spawn_plan.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "launch/cpus.hpp"
#include "launch/spawn_info.hpp"
#include "mpiexec/hosts.hpp"
#include "mpiexec/placement.hpp"

namespace weft::mpiexec {
namespace {

using launch::SpawnProgram;
using launch::value_of;

Error spawn_error(const Error& why) { return Error(Errc::spawn, why.message()); }

Status check_host(const launch::Values& info) {
  const std::string* list = value_of(info, {"host", "add-host"});
  if (list == nullptr) return {};
  std::vector<Host> hosts;
  if (Status added = add_host_list(hosts, "the info key host", *list); !added.ok())
    return spawn_error(added.error());
  for (const Host& host : hosts)
    if (!is_this_host(host.name))
      return Error(Errc::spawn,
                   "host = " + host.name +
                       " is another host: Weft's mpiexec starts processes on its own host; start the "
                       "job with prterun or Hydra");
  return {};
}

Status check_architecture(const launch::Values& info) {
  const std::string* wanted = value_of(info, {"arch"});
  utsname system{};
  if (wanted == nullptr || ::uname(&system) != 0 || *wanted == system.machine) return {};
  return Error(Errc::spawn, "arch = " + *wanted + ", and this host has " + system.machine);
}

/// Finds a command without a folder: in the folders of the info key `path`, by the variable PATH, then in the
/// directory of the new process.
std::string locate(const std::string& command, const std::string* path, const std::string& directory) {
  if (command.find('/') != command.npos) return command;
  if (path != nullptr)
    if (std::string found = find_on_path(command, *path); found != command) return found;
  const char* const search = std::getenv("PATH");
  if (find_on_path(command, search != nullptr ? search : "") != command) return command;
  const std::string own = directory + "/" + command;
  return ::access(own.c_str(), X_OK) == 0 ? own : command;
}

Result<Program> make_program(const SpawnProgram& spawned, const Options& defaults) {
  WEFT_TRY(check_host(spawned.info));
  WEFT_TRY(check_architecture(spawned.info));
  Program program;
  program.ranks = spawned.processes;
  if (!defaults.programs.empty()) program.variables = defaults.programs.front().variables;
  program.directory = launch::directory_of(spawned.info, program.directory);
  auto variables = launch::variables_of(spawned.info);
  if (!variables) return std::move(variables).error();
  program.variables.insert(program.variables.end(), variables->begin(), variables->end());
  if (const std::string* handler = value_of(spawned.info, {"mpi_initial_errhandler"}))
    program.variables.emplace_back("WEFT_ERRORS_INITIAL", *handler);
  program.argv.push_back(locate(spawned.command, value_of(spawned.info, {"path"}), program.directory));
  program.argv.insert(program.argv.end(), spawned.arguments.begin(), spawned.arguments.end());
  return program;
}

/// Without the cores that running processes are bound to, if the others suffice.
Topology without_busy(Topology topology, const std::set<int>& busy, size_t processes) {
  const auto is_busy = [&](const Core& core) {
    return std::any_of(core.cpus.begin(), core.cpus.end(), [&](int cpu) { return busy.contains(cpu); });
  };
  const auto busy_cores = std::count_if(topology.cores.begin(), topology.cores.end(), is_busy);
  if (topology.cores.size() - static_cast<size_t>(busy_cores) >= processes)
    std::erase_if(topology.cores, is_busy);
  return topology;
}

}  // namespace

Result<std::vector<RankPlan>> plan_spawned(const launch::SpawnRequest& request, const std::string& job_id,
                                           const SpawnDefaults& defaults, const Busy& busy) {
  int64_t processes = 0;
  for (const SpawnProgram& spawned : request.programs) processes += spawned.processes;
  if (processes > kMaxRanks)
    return Error(Errc::spawn, std::to_string(processes) + " processes: at most " + std::to_string(kMaxRanks) +
                                  " can be started");
  Options options = defaults.options;
  options.programs.clear();
  for (const SpawnProgram& spawned : request.programs) {
    auto program = make_program(spawned, defaults.options);
    if (!program) return std::move(program).error();
    options.programs.push_back(std::move(*program));
    if (const std::string* map = value_of(spawned.info, {"map_by"}))
      if (Status set = set_map(options, "the info key map_by", *map); !set.ok())
        return spawn_error(set.error());
    if (const std::string* bind = value_of(spawned.info, {"bind_to"}))
      if (Status set = set_bind(options, "the info key bind_to", *bind); !set.ok())
        return spawn_error(set.error());
  }
  const Topology topology = without_busy(read_topology({}, launch::allowed_cpus(), needs_gpus(options)),
                                         busy.cpus, static_cast<size_t>(options.ranks()));
  auto bindings = plan_bindings(options, topology, gpu_variables(), busy.gpus);
  if (!bindings) return spawn_error(bindings.error());
  auto plans = plan_ranks(options, *bindings, job_id, defaults.library_directory, defaults.environment);
  for (RankPlan& plan : plans) {
    if (!plan.other_mpi.empty())
      return Error(Errc::spawn, "'" + plan.argv[0] + "' is linked with another MPI (" + plan.other_mpi +
                                    "): build it with Weft's mpicc");
    plan.environment.push_back("PMI_SPAWNED=1");
  }
  return plans;
}

}  // namespace weft::mpiexec
