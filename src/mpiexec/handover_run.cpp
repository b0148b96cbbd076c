// SPDX-License-Identifier: BSD-3-Clause
// Handover, its hands: what is installed here, and the exec.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "launch/environment.hpp"
#include "mpiexec/handover.hpp"
#include "mpiexec/hosts.hpp"
#include "mpiexec/plan.hpp"
#include "mpiexec/report.hpp"

namespace weft::mpiexec {

namespace {

/// Empty: it is not there.
std::string installed(const std::string& name) {
  const char* path = std::getenv("PATH");
  const std::string found = find_on_path(name, path != nullptr ? path : "");
  return found.find('/') != found.npos ? found : "";
}

/// The best of srun's MPI plugins that Weft speaks.
std::string slurm_mpi(const std::string& srun) {
  FILE* pipe = ::popen(("'" + srun + "' --mpi=list 2>&1").c_str(), "re");
  if (pipe == nullptr) return {};
  std::string text;
  char bytes[1024];
  for (size_t n = 0; (n = std::fread(bytes, 1, sizeof bytes, pipe)) > 0;) text.append(bytes, n);
  ::pclose(pipe);
  for (const char* plugin : {"pmix", "pmi2"})
    if (text.find(plugin) != text.npos) return plugin;
  return {};
}

/// Variables of this host or this shell only, which would mislead the processes on others.
bool is_of_this_host(const std::string& name) {
  constexpr const char* kNames[] = {"HOSTNAME", "HOST", "PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", "DISPLAY"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         name.starts_with("SSH_") || name.starts_with("PRTE_") || name.starts_with("SLURM_");
}

/// Names of the variables that the user expects the processes to see.
std::vector<std::string> forwarded_variables(char** environment) {
  std::vector<std::string> names;
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    if (name.empty() || name.size() == text.size() || name.find_first_of("()%") != name.npos) continue;
    if (!is_of_this_host(name) && !launch::ties_to_launcher(name)) names.push_back(name);
  }
  return names;
}

/// Puts a text behind a descriptor that stays open in the launcher.
bool offer(const std::string& text, int descriptor) {
  const int fd = ::memfd_create("weft-mpiexec", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return false;
  ::lseek(fd, 0, SEEK_SET);
  return ::dup2(fd, descriptor) == descriptor;  // the copy does not close on exec
}

void leave_our_job(char** environment) {
  // Inside a job the launcher above us is not the one of the new job.
  std::vector<std::string> names;
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    if (launch::ties_to_launcher(name)) names.push_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

}  // namespace

Launchers find_launchers() {
  Launchers launchers;
  if (const char* job = std::getenv("SLURM_JOB_ID")) {
    launchers.job = job;
    launchers.srun = installed("srun");
    if (!launchers.srun.empty()) launchers.slurm_mpi = slurm_mpi(launchers.srun);
  }
  launchers.prterun = installed("prterun");
  launchers.hydra = installed("mpiexec.hydra");
  return launchers;
}

Error hand_over(const Options& options, const std::string& library_directory, char** environment) {
  auto planned =
      plan_handover(options, find_launchers(), library_directory, forwarded_variables(environment));
  if (!planned) return std::move(planned).error();
  say("handing over to " + planned->launcher);
  leave_our_job(environment);
  for (const auto& [name, value] : planned->variables) ::setenv(name.c_str(), value.c_str(), 1);
  for (size_t i = 0; i < planned->texts.size(); ++i)
    if (!offer(planned->texts[i], kFirstText + static_cast<int>(i)))
      return Error(Errc::other, std::string("cannot hand a host list over (") + std::strerror(errno) + ")");
  std::vector<char*> argv;
  for (std::string& word : planned->argv) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return Error(Errc::other, "cannot start '" + planned->argv[0] + "' (" + std::strerror(errno) + ")");
}

}  // namespace weft::mpiexec
