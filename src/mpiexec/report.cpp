// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/report.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "mpiexec/hosts.hpp"

namespace weft::mpiexec {

namespace {

const char* signal_hint(int signal) {
  switch (signal) {
    case SIGSEGV:
    case SIGABRT:
    case SIGFPE:
    case SIGILL:
      return "\n  Its last output is above. For a backtrace use ulimit -c unlimited, or build with -g "
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

}  // namespace

std::string rank_text(int rank, pid_t pid) {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + " on " + host_name() + ")";
}

Failure describe_exit(int rank, pid_t pid, int status) {
  if (!WIFSIGNALED(status)) {
    const int code = WEXITSTATUS(status);
    return {code, rank_text(rank, pid) + " exited with code " + std::to_string(code), true};
  }
  const int signal = WTERMSIG(status);
  return {128 + signal,
          rank_text(rank, pid) + " was killed by signal " + std::to_string(signal) + " (" +
              strsignal(signal) + (WCOREDUMP(status) ? ", core dumped)" : ")") + signal_hint(signal),
          false};
}

Failure describe_abort(int rank, pid_t pid, int code, const std::string& message) {
  const int exit_code = code & 0xff;
  return {exit_code == 0 ? 1 : exit_code,
          rank_text(rank, pid) + " aborted the job with code " + std::to_string(code) +
              (message.empty() ? "" : ": " + message),
          true};
}

Failure describe_start_failure(const Event& event, const RankPlan& plan) {
  const std::string why = std::string(" (") + std::strerror(event.detail) + ").";
  switch (event.value) {
    case StartFailure::directory:
      return {126, "cannot enter the directory '" + plan.directory + "' given with -wdir" + why, false};
    case StartFailure::binding:
      return {126,
              "cannot bind rank " + std::to_string(event.rank) + " to cpus " + format_cpu_list(plan.cpus) +
                  why + " Try --bind-to none.",
              false};
    default:
      return {event.detail == ENOENT ? 127 : 126,
              "cannot start '" + plan.argv[0] + "'" + why + start_hint(event.detail, plan.argv[0]), false};
  }
}

Error system_call_error(const std::string& action, int error) {
  return Error(Errc::other, "cannot " + action + " (" + std::strerror(error) + ")");
}

void print_message(const std::string& text) {
  const std::string line = "mpiexec: " + text + "\n";
  std::fflush(stdout);
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace weft::mpiexec
