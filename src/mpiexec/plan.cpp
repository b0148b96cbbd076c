// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/plan.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <map>

#include "launch/environment.hpp"
#include "mpiexec/elf.hpp"

namespace weft::mpiexec {

namespace {

constexpr const char* kLibrary = "libmpi_abi.so.1";

using Variables = std::map<std::string, std::string>;

/// The environment without what ties us to a launcher above us: our ranks belong to our job.
Variables inherited(char** environment) {
  Variables variables;
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals == 0 || equals == text.npos) continue;
    const std::string name = text.substr(0, equals);
    if (!launch::ties_to_launcher(name)) variables[name] = text.substr(equals + 1);
  }
  return variables;
}

void prepend_path(Variables& variables, const std::string& name, const std::string& directory) {
  std::string& value = variables[name];
  // An empty list must not gain an empty member: it would mean the current directory.
  value = value.empty() ? directory : directory + ":" + value;
}

/// Where exec will find the program, as far as can be told before.
std::string locate(const Program& program, const Variables& variables) {
  const std::string& name = program.argv[0];
  if (name.find('/') != name.npos)
    return name[0] == '/' || program.directory.empty() ? name : program.directory + "/" + name;
  auto path = variables.find("PATH");
  return path == variables.end() ? name : find_on_path(name, path->second);
}

/// Makes Weft's library the first that the program finds.
void prefer_our_library(Variables& variables, const Program& program, const std::string& directory) {
  if (directory.empty()) return;
  prepend_path(variables, "LD_LIBRARY_PATH", directory);
  // LD_PRELOAD reaches everything the program starts, so only where LD_LIBRARY_PATH cannot win; after what
  // the user preloads, which may be a profiler that overrides MPI_ functions.
  if (has_overriding_rpath(locate(program, variables), kLibrary)) {
    std::string& preload = variables["LD_PRELOAD"];
    preload += (preload.empty() ? "" : ":") + directory + "/" + kLibrary;
  }
}

void describe_rank(Variables& variables, int rank, int ranks, const std::string& job_id) {
  const std::string rank_text = std::to_string(rank), ranks_text = std::to_string(ranks);
  for (const char* name :
       {"PMI_RANK", "LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"})
    variables[name] = rank_text;
  for (const char* name :
       {"PMI_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    variables[name] = ranks_text;
  variables["PMI_FD"] = std::to_string(kPmiFd);
  variables["WEFT_JOB_ID"] = job_id;
}

Error no_descriptor(const char* what) {
  return Error(Errc::other, std::string("cannot open a ") + what + " for the ranks (" + std::strerror(errno) +
                                "). Start fewer processes, or raise the limit (ulimit -n).");
}

bool open_pair(int& ours, int& theirs) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  ours = ends[0];
  theirs = ends[1];
  return ::fcntl(ours, F_SETFL, O_NONBLOCK) == 0;
}

}  // namespace

std::string find_on_path(const std::string& name, const std::string& path) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string candidate = path.substr(begin, end - begin) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return name;
}

void prefer_our_library(Program& program, const std::string& library_directory) {
  Variables variables = inherited(environ), before;
  for (const auto& [name, value] : program.variables) variables[name] = value;
  before = variables;
  prefer_our_library(variables, program, library_directory);
  for (const auto& [name, value] : variables)
    if (before[name] != value) program.variables.emplace_back(name, value);
}

std::string library_directory() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return {};
  std::string directory(path, static_cast<size_t>(length));
  for (int level = 0; level < 2; ++level) directory.erase(std::min(directory.rfind('/'), directory.size()));
  directory += "/lib";
  return ::access((directory + "/" + kLibrary).c_str(), R_OK) == 0 ? directory : std::string();
}

std::vector<RankPlan> plan_ranks(const Options& options, const std::vector<Binding>& bindings,
                                 const std::string& job_id, const std::string& library_directory,
                                 char** environment) {
  const int ranks = options.ranks();
  std::vector<RankPlan> plans;
  for (const Program& program : options.programs) {
    Variables variables = inherited(environment);
    for (const auto& [name, value] : program.variables) variables[name] = value;
    const auto number = static_cast<int>(&program - options.programs.data());
    RankPlan plan{program.argv, {}, program.directory, {}, number};
    prefer_our_library(variables, program, library_directory);
    for (int i = 0; i < program.ranks; ++i) {
      const int rank = static_cast<int>(plans.size());
      describe_rank(variables, rank, ranks, job_id);
      plan.environment.clear();
      for (const auto& [name, value] : variables) plan.environment.push_back(name + "=" + value);
      plan.cpus = bindings[static_cast<size_t>(rank)].cpus;
      plans.push_back(plan);
    }
  }
  return plans;
}

Result<std::vector<Channels>> open_channels(int ranks) {
  std::vector<Channels> all(static_cast<size_t>(ranks));
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0) return no_descriptor("/dev/null");
  for (Channels& channels : all) {
    channels.child_input = &channels == &all.front() ? STDIN_FILENO : null;
    if (!open_pair(channels.output, channels.child_output) ||
        !open_pair(channels.error, channels.child_error))
      return no_descriptor("pipe");
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return no_descriptor("socket");
    channels.pmi = ends[0];
    channels.child_pmi = ends[1];
  }
  return all;
}

}  // namespace weft::mpiexec
