// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/gpu_exec.hpp"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "mpiexec/options.hpp"
#include "mpiexec/report.hpp"

namespace weft::mpiexec {

Result<LocalRank> local_rank(const launch::Lookup& lookup) {
  struct Names {
    const char *rank, *ranks;
  };
  for (const Names names : {Names{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                            Names{"MPI_LOCALRANKID", "MPI_LOCALNRANKS"}}) {
    auto ranks = launch::read_int(lookup, names.ranks, 1, kMaxRanks);
    if (!ranks) return std::move(ranks).error();
    auto rank = launch::read_int(lookup, names.rank, 0, ranks->value_or(kMaxRanks) - 1);
    if (!rank) return std::move(rank).error();
    if (*rank && *ranks) return LocalRank{static_cast<size_t>(**rank), static_cast<size_t>(**ranks)};
  }
  return Error(Errc::unsupported,
               "--gpu-bind: the launcher of this process sets no local rank (OMPI_COMM_WORLD_LOCAL_RANK, "
               "MPI_LOCALRANKID). prterun sets it with --personality ompi.");
}

Result<std::vector<std::string>> gpus_of_rank(const std::string& value, const LocalRank& local,
                                              const Topology& topology, const GpuVariables& variables,
                                              std::string& description) {
  Options options;
  WEFT_TRY(set_gpu_bind(options, "--gpu-bind", value));
  std::vector<std::string> entries;
  if (!options.gpu_bind.assigns()) return entries;
  auto gpus = visible_gpus(topology.gpus, variables);
  if (!gpus) return std::move(gpus).error();
  // The cores of the other ranks are not known here, so only `closest` uses distances.
  const auto own_distances = gpu_distances(*gpus, topology, {});
  std::vector<std::vector<int>> distances;
  if (options.gpu_bind.kind == GpuBind::closest) distances.assign(local.ranks, own_distances);
  auto assigned = assign_gpus(options.gpu_bind, *gpus, local.ranks, distances);
  if (!assigned) return std::move(assigned).error();
  const std::vector<size_t>& own = (*assigned)[local.rank];
  for (const size_t gpu : own) entries.push_back((*gpus)[gpu].entry);
  if (options.report_bindings)
    description =
        "local rank " + std::to_string(local.rank) + ": " + describe_gpus(*gpus, own, own_distances);
  return entries;
}

Error exec_with_gpus(const std::vector<std::string>& words) {
  if (words.size() < 2)
    return Error(Errc::arg, std::string(kGpuExec) + " is used by mpiexec on several hosts");
  auto local = local_rank([](const char* name) { return std::getenv(name); });
  if (!local) return std::move(local).error();
  std::string description;
  const GpuVariables variables = gpu_variables();
  auto entries = gpus_of_rank(words[0], *local, read_topology({}, allowed_cpus()), variables, description);
  if (!entries) return std::move(entries).error();
  if (!description.empty()) print_message(description);
  if (!entries->empty()) {
    std::string list;
    for (const std::string& entry : *entries) list += (list.empty() ? "" : ",") + entry;
    if (variables.visible == nullptr) ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
    ::setenv("CUDA_VISIBLE_DEVICES", list.c_str(), 1);
    if (words[0].ends_with("rotate")) ::setenv("WEFT_LAUNCH_GPU_BIND", "rotate", 1);
  }
  std::vector<std::string> program(words.begin() + 1, words.end());
  std::vector<char*> argv;
  for (std::string& word : program) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return Error(Errc::other, "cannot start '" + program[0] + "' (" + std::strerror(errno) + ")");
}

}  // namespace weft::mpiexec
