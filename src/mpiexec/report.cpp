// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/report.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "mpiexec/hosts.hpp"

namespace weft::mpiexec {

namespace {

const char* signal_hint(int signal, bool core_dumped) {
  switch (signal) {
    case SIGSEGV:
    case SIGABRT:
    case SIGFPE:
    case SIGILL:
      if (core_dumped)
        return "\n  Its last output is above. gdb PROGRAM CORE shows its variables (where systemd keeps core "
               "files: coredumpctl gdb).";
      return "\n  Its last output is above. For more than the backtrace use ulimit -c unlimited, or build "
             "with -g "
             "-fsanitize=address.";
    case SIGBUS:
      return "\n  A common cause is a full file system or /dev/shm behind mapped memory: check df -h.";
    case SIGKILL:
      return "\n  If no user killed it, the host probably ran out of memory: check dmesg.";
    case SIGXCPU:
      return "\n  It exceeded its CPU time limit: check ulimit -t.";
    default:
      return "";
  }
}

/// Returns " to PATH" if the core file is where the kernel's pattern puts it; "" with other patterns.
std::string core_file(pid_t pid, const std::string& directory) {
  std::string pattern, uses_pid;
  std::getline(std::ifstream("/proc/sys/kernel/core_pattern"), pattern);
  std::getline(std::ifstream("/proc/sys/kernel/core_uses_pid"), uses_pid);
  const std::string number = std::to_string(pid);
  if (const size_t at = pattern.find("%p"); at != pattern.npos)
    pattern.replace(at, 2, number);
  else if (uses_pid == "1")
    pattern += "." + number;
  if (pattern.empty() || pattern.find_first_of("%|") != pattern.npos) return "";
  std::filesystem::path path = std::filesystem::path(directory) / pattern;
  std::error_code error;
  path = std::filesystem::absolute(path, error);
  return std::filesystem::exists(path, error) ? " to " + path.string() : "";
}

const char* start_hint(int error, const std::string& program) {
  if (error == ENOENT && program.find('/') == program.npos && ::access(program.c_str(), X_OK) == 0)
    return " The current directory contains it: prefix its name with ./.";
  if (error == ENOENT && program.find('/') == program.npos) return " No directory of PATH contains it.";
  if (error == ENOENT && ::access(program.c_str(), F_OK) == 0)
    return " The file exists: does the interpreter in its first line?";
  if (error == EACCES) return " Is it a file with execute permission (chmod +x)?";
  if (error == EAGAIN) return " Is the process limit reached (ulimit -u)?";
  return "";
}

/// Exit code of a program that the dynamic linker cannot link, at its start or at the first call of a
/// function.
constexpr int kLinkFailure = 127;

}  // namespace

std::string rank_text(int rank, pid_t pid) {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + " on " + host_name() + ")";
}

Failure describe_exit(const std::string& rank, pid_t pid, int status, const std::string& directory) {
  if (!WIFSIGNALED(status)) {
    const int code = WEXITSTATUS(status);
    const char* const hint =
        code == kLinkFailure ? ". The dynamic linker uses it for a missing symbol or library: `weft run-info "
                               "PROGRAM` lists the symbols of MPI that Weft lacks."
                             : "";
    return {code, rank + " exited with code " + std::to_string(code) + hint, true};
  }
  const int signal = WTERMSIG(status);
  return {128 + signal,
          rank + " was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) +
              (WCOREDUMP(status) ? ", core dumped" + core_file(pid, directory) + ")" : ")") +
              signal_hint(signal, WCOREDUMP(status)),
          false};
}

Failure describe_abort(const std::string& rank, int code, const std::string& message) {
  const int exit_code = code & 0xff;
  return {
      exit_code == 0 ? 1 : exit_code,
      rank + " aborted the job with code " + std::to_string(code) + (message.empty() ? "" : ": " + message),
      true};
}

std::string gpu_hint(const RankPlan& plan, size_t local_rank) {
  if (plan.visible_gpus == 0 || local_rank < plan.visible_gpus) return {};
  const std::string number = std::to_string(local_rank);
  return "\n  If it reported an invalid device ordinal (cudaErrorInvalidDevice): --gpu-bind shows it " +
         (plan.visible_gpus == 1 ? "one GPU, its device 0"
                                 : std::to_string(plan.visible_gpus) + " GPUs, its devices from 0") +
         ", and its local rank is " + number +
         ". Select device LOCAL_RANK % count of cudaGetDeviceCount, or use --gpu-bind none.";
}

Failure describe_start_failure(const Event& event, int rank, const RankPlan& plan) {
  const std::string why = std::string(" (") + std::strerror(event.detail) + ").";
  switch (event.value) {
    case StartFailure::directory:
      return {126, "cannot enter the directory '" + plan.directory + "' given with -wdir" + why, false};
    case StartFailure::binding:
      return {126,
              "cannot bind rank " + std::to_string(rank) + " to cpus " + format_cpu_list(plan.cpus) + why +
                  " Try --bind-to none.",
              false};
    default:
      return {event.detail == ENOENT ? 127 : 126,
              "cannot start '" + plan.argv[0] + "'" + why + start_hint(event.detail, plan.argv[0]), false};
  }
}

Error system_call_error(const std::string& action, int error) {
  const char* const remedy =
      error == EMFILE ? ". Start fewer processes, or raise the limit (ulimit -n)." : "";
  return Error(Errc::other, "cannot " + action + " (" + std::strerror(error) + ")" + remedy);
}

void print_message(const std::string& text) {
  const std::string line = "mpiexec: " + text + "\n";
  std::fflush(stdout);
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace weft::mpiexec
