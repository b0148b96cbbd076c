// SPDX-License-Identifier: BSD-3-Clause
#include "launch/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "launch/slurm_step.hpp"

namespace weft::launch {

namespace {

constexpr std::string_view kJobPrefixes[] = {"PMI_", "PMI2_", "PMIX_", "HYDI_"};
// Of Slurm's variables this one alone says that there are several processes; the others remain for srun and
// user scripts.
constexpr std::string_view kJobVariables[] = {"WEFT_JOB_ID",          "WEFT_JOB_PARENT",
                                              "WEFT_JOB_SOCKET",      "WEFT_LAUNCH_CONTINUE_ON_FAILURE",
                                              "WEFT_LAUNCH_GPU_BIND", "SLURM_STEP_NUM_TASKS"};
// Read by user code, also after MPI_Init, to choose a GPU.
constexpr std::string_view kRankPrefixes[] = {"OMPI_COMM_WORLD_"};
constexpr std::string_view kRankVariables[] = {"MPI_LOCALRANKID", "MPI_LOCALNRANKS", "LOCAL_RANK"};

bool starts_with_one_of(std::string_view text, std::span<const std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](auto prefix) { return text.starts_with(prefix); });
}

bool is_one_of(std::string_view text, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

constexpr const char* kRemedy =
    "Start the program with mpiexec, srun --mpi=pmix or prterun; WEFT_LAUNCH_SINGLETON=on runs one process "
    "alone.";

Error unreachable_launcher(const std::string& variable, const char* value, const char* why) {
  return Error(Errc::other, variable + "=" + value +
                                " implies several processes, but this process cannot reach the others (" +
                                why + "). " + kRemedy);
}

}  // namespace

bool implies_job(std::string_view variable) {
  return starts_with_one_of(variable, kJobPrefixes) || is_one_of(variable, kJobVariables);
}

bool is_launcher_variable(std::string_view variable) {
  return implies_job(variable) || starts_with_one_of(variable, kRankPrefixes) ||
         is_one_of(variable, kRankVariables);
}

Status check_launcher_reachable(const Lookup& lookup) {
  constexpr int kMost = 1 << 30;
  auto more_than_one = [&](const char* variable) -> const char* {
    const char* text = lookup(variable);
    if (text == nullptr || parse_int(text, 0, 1).has_value()) return nullptr;
    return parse_int(text, 2, kMost).has_value() ? text : nullptr;
  };
  if (const char* value = more_than_one("PMI_SIZE"))
    return unreachable_launcher("PMI_SIZE", value, "neither PMI_FD nor PMI_PORT is set");
  if (const char* value = lookup("PMIX_RANK"))
    return Error(Errc::other,
                 std::string("PMIX_RANK=") + value +
                     " is set, but PMIX_NAMESPACE is not: was it changed after the launcher set it? " +
                     kRemedy);
  if (const char* value = more_than_one("SLURM_STEP_NUM_TASKS");
      value != nullptr && !in_slurm_shell(lookup, ::getpid()))
    return unreachable_launcher(
        "SLURM_STEP_NUM_TASKS", value,
        "srun started this step without a PMI: srun --mpi=pmix or srun --mpi=pmi2 does; "
        "srun --mpi=list shows what there is");
  return {};
}

std::optional<int> parse_int(std::string_view text, int low, int high) {
  int value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    return std::nullopt;
  return value;
}

Result<std::optional<int>> read_int(const Lookup& lookup, const char* variable, int low, int high) {
  const char* text = lookup(variable);
  if (text == nullptr) return std::optional<int>();
  std::optional<int> value = parse_int(text, low, high);
  if (!value)
    return Error(Errc::other, std::string(variable) + "=" + text + " is not a number from " +
                                  std::to_string(low) + " to " + std::to_string(high) +
                                  ". Was it changed after the launcher set it?");
  return value;
}

}  // namespace weft::launch
