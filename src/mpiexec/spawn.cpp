// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/spawn.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace weft::mpiexec {

namespace {

constexpr unsigned kCloseRangeCloexec = 4;  // CLOSE_RANGE_CLOEXEC, linux/close_range.h, Linux 5.11

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

bool bind_self(const std::vector<int>& cpus) {
  const size_t count = static_cast<size_t>(*std::max_element(cpus.begin(), cpus.end())) + 1;
  cpu_set_t* set = CPU_ALLOC(count);
  const size_t bytes = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(bytes, set);
  for (int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, set);
  const bool bound = ::sched_setaffinity(0, bytes, set) == 0;
  CPU_FREE(set);
  return bound;
}

[[noreturn]] void fail(int fd, StartFailure failure) {
  // A write below PIPE_BUF bytes is atomic. If it fails, the exit code still reports the failure.
  (void)!::write(fd, &failure, sizeof failure);
  ::_exit(127);
}

/// dup2 clears close-on-exec, except if source and target are equal: clear the flag with fcntl then. Returns
/// false and sets errno on failure.
bool duplicate_to(int source, int target) {
  if (source == target) return ::fcntl(target, F_SETFD, 0) == 0;
  return ::dup2(source, target) == target;
}

/// The variables by which the process finds its PMI socket. A job without a name is another launcher's, which
/// has only the descriptor.
std::vector<std::string> pmi_variables(int process, int fd, launch::pmi::Address job) {
  if (job.name.empty()) return {"PMI_FD=" + std::to_string(fd)};
  job.process = process;
  job.descriptor = fd;
  job.inherited = launch::pmi::socket_number(fd);
  return {"PMI_FD=" + std::to_string(fd), launch::pmi::kAddressVariable + ("=" + job.text())};
}

[[noreturn]] void exec_child(int rank, const RankPlan& plan, Session session, const Channels& channels,
                             const InheritedState& inherited, const launch::pmi::Address& job, pid_t parent,
                             int failure_fd) {
  // If the supervisor is killed, no other process kills the rank.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail(failure_fd, {rank, StartFailure::program, errno});
  if (::getppid() != parent) ::_exit(127);
  if (session == Session::own)
    ::setsid();
  else
    ::setpgid(0, 0);
  const int pmi = launch::pmi::descriptor_below(inherited.descriptors());
  if (failure_fd == pmi) failure_fd = ::fcntl(failure_fd, F_DUPFD_CLOEXEC, pmi + 1);
  // The other ends may have the number `pmi`, so that it is the last.
  if (!duplicate_to(channels.child_input, STDIN_FILENO) ||
      !duplicate_to(channels.child_output, STDOUT_FILENO) ||
      !duplicate_to(channels.child_error, STDERR_FILENO) ||
      (channels.child_pmi >= 0 && !duplicate_to(channels.child_pmi, pmi)))
    fail(failure_fd, {rank, StartFailure::program, errno});
  if (!plan.cpus.empty() && !bind_self(plan.cpus)) fail(failure_fd, {rank, StartFailure::binding, errno});
  if (!plan.directory.empty() && ::chdir(plan.directory.c_str()) != 0)
    fail(failure_fd, {rank, StartFailure::directory, errno});
  std::vector<std::string> variables = plan.environment;
  if (channels.child_pmi >= 0)
    for (std::string& variable : pmi_variables(rank, pmi, job)) variables.push_back(std::move(variable));
  std::vector<char*> argv = pointers(plan.argv), environment = pointers(variables);
  environ = environment.data();  // execvp searches PATH of the rank's environment
  inherited.restore();
  ::execvp(argv[0], argv.data());
  fail(failure_fd, {rank, StartFailure::program, errno});
}

}  // namespace

InheritedState InheritedState::save_and_replace() {
  InheritedState state;
  sigemptyset(&state.ignored_);
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      sigaddset(&state.ignored_, signal);
  }
  sigset_t handled;
  sigemptyset(&handled);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD})
    if (signal == SIGCHLD || signal == SIGCONT || !state.ignored(signal)) sigaddset(&handled, signal);
  ::signal(SIGCHLD, SIG_DFL);
  ::sigprocmask(SIG_BLOCK, &handled, &state.mask_);
  for (int signal : {SIGPIPE, SIGXFSZ, SIGTTIN, SIGTTOU}) ::signal(signal, SIG_IGN);
  ::getrlimit(RLIMIT_NOFILE, &state.descriptors_);
  rlimit raised = state.descriptors_;
  raised.rlim_cur = raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return state;
}

void InheritedState::restore() const {
  for (int signal = 1; signal < SIGRTMIN; ++signal)
    if (signal != SIGKILL && signal != SIGSTOP) ::signal(signal, ignored(signal) ? SIG_IGN : SIG_DFL);
  ::setrlimit(RLIMIT_NOFILE, &descriptors_);
  ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
}

pid_t spawn(int process, const RankPlan& plan, Session session, const Channels& channels,
            const InheritedState& inherited, const launch::pmi::Address& job, int failure_fd) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) exec_child(process, plan, session, channels, inherited, job, parent, failure_fd);
  return pid;
}

void prepare_descriptors() {
  int fd;
  do {
    // Read-only: a write to a standard output that was closed at the start must fail instead of losing data.
    fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  } while (fd >= 0 && fd < kStandardDescriptors);
  if (fd >= 0) ::close(fd);
  if (::syscall(SYS_close_range, kStandardDescriptors, ~0U, kCloseRangeCloexec) == 0) return;
  // Kernels before Linux 5.11 have no CLOSE_RANGE_CLOEXEC.
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int count = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 65536));
  for (fd = kStandardDescriptors; fd < count; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

}  // namespace weft::mpiexec
