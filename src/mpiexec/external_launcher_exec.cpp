// SPDX-License-Identifier: BSD-3-Clause
// External launchers: detection on this host, and exec.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "launch/environment.hpp"
#include "launch/launcher_folder.hpp"
#include "mpiexec/external_launcher.hpp"
#include "mpiexec/hosts.hpp"
#include "mpiexec/plan.hpp"
#include "mpiexec/report.hpp"

namespace weft::mpiexec {

namespace {

/// Returns the path of an executable on PATH; empty if absent.
std::string find_executable(const std::string& name) {
  const char* path = std::getenv("PATH");
  const std::string found = find_on_path(name, path != nullptr ? path : "");
  return found.find('/') != found.npos ? found : "";
}

/// Returns the output and errors of a shell command; empty if it cannot be started.
std::string output_of(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1 </dev/null").c_str(), "re");
  if (pipe == nullptr) return {};
  std::string text;
  char bytes[1024];
  for (size_t n = 0; (n = std::fread(bytes, 1, sizeof bytes, pipe)) > 0;) text.append(bytes, n);
  ::pclose(pipe);
  return text;
}

/// Returns the preferred MPI plugin of srun that Weft supports and srun can load; empty if none. Debian's
/// Slurm lists pmix also where the plugin's library is missing (libpmix-dev): srun loads it before
/// --test-only, which starts nothing.
std::string slurm_mpi(const std::string& srun) {
  const std::string listed = output_of("'" + srun + "' --mpi=list");
  for (const std::string plugin : {"pmix", "pmi2"}) {
    if (listed.find(plugin) == listed.npos) continue;
    const std::string answer = output_of("'" + srun + "' --mpi=" + plugin + " --test-only true");
    if (answer.find("Invalid MPI type") == answer.npos) return plugin;
  }
  return {};
}

/// Returns true for variables whose values are valid only on this host or in this shell.
bool is_host_local_variable(const std::string& name) {
  constexpr const char* kNames[] = {"HOSTNAME", "HOST", "PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", "DISPLAY"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         name.starts_with("SSH_") || name.starts_with("PRTE_") || name.starts_with("SLURM_");
}

/// Returns the names of the environment variables to forward to the processes.
std::vector<std::string> forwarded_variables(char** environment) {
  std::vector<std::string> names;
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    if (name.empty() || name.size() == text.size() || name.find_first_of("()%") != name.npos) continue;
    if (!is_host_local_variable(name) && !launch::is_launcher_variable(name)) names.push_back(name);
  }
  return names;
}

/// Writes a text to a memfd and duplicates it to `descriptor`, which stays open across exec.
bool write_text(const std::string& text, int descriptor) {
  const int fd = ::memfd_create("weft-mpiexec", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return false;
  ::lseek(fd, 0, SEEK_SET);
  return ::dup2(fd, descriptor) == descriptor;  // dup2 clears close-on-exec
}

void unset_launcher_variables(char** environment) {
  // mpiexec may itself run inside a job, whose launcher variables must not reach the new job.
  std::vector<std::string> names;
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    if (launch::is_launcher_variable(name)) names.push_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

}  // namespace

Launchers find_launchers() {
  Launchers launchers;
  if (const char* job = std::getenv("SLURM_JOB_ID")) {
    launchers.job = job;
    launchers.srun = find_executable("srun");
    if (!launchers.srun.empty()) launchers.slurm_mpi = slurm_mpi(launchers.srun);
  }
  launchers.prterun = find_executable("prterun");
  launchers.hydra = find_executable("mpiexec.hydra");
  launchers.ssh =
      read_ssh_launcher(launch::launcher_folder([](const char* name) { return std::getenv(name); }));
  return launchers;
}

Error exec_external_launcher(const Options& options, const std::string& library_directory,
                             char** environment) {
  auto planned =
      plan_external_launcher(options, find_launchers(), library_directory, forwarded_variables(environment));
  if (!planned) return std::move(planned).error();
  print_message("starting the job with " + planned->launcher);
  unset_launcher_variables(environment);
  for (const auto& [name, value] : planned->variables) ::setenv(name.c_str(), value.c_str(), 1);
  for (size_t i = 0; i < planned->texts.size(); ++i)
    if (!write_text(planned->texts[i], kFirstTextFd + static_cast<int>(i)))
      return Error(Errc::other,
                   std::string("cannot pass a file to the launcher (") + std::strerror(errno) + ")");
  std::vector<char*> argv;
  for (std::string& word : planned->argv) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return Error(Errc::other, "cannot start '" + planned->argv[0] + "' (" + std::strerror(errno) + ")");
}

}  // namespace weft::mpiexec
