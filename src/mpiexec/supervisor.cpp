// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <unordered_map>

#include "base/local_socket.hpp"
#include "launch/cpus.hpp"
#include "mpiexec/plan_file.hpp"
#include "mpiexec/processes.hpp"
#include "mpiexec/report.hpp"

namespace weft::mpiexec {

namespace {

constexpr const char* kProcessName = "weft-supervisor";

class Supervisor {
 public:
  Supervisor(const std::vector<RankPlan>& plans, const InheritedState& inherited,
             const launch::pmi::Address& job, int control)
      : plans_(plans), inherited_(inherited), job_(job), control_(control) {}
  [[noreturn]] void run(const std::vector<Channels>& channels);

 private:
  enum class Phase { running, finishing, terminating, killing };

  void start_ranks(const std::vector<Channels>& channels);
  /// Of a process, if this many run.
  [[nodiscard]] static Session session_of(size_t processes);
  void send_event(Event event);
  void report_failures();
  /// Starts a process of a later job.
  void start(int process, std::vector<int>& descriptors);
  /// Returns 0, or errno.
  int start(int process, const RankPlan& plan, const Channels& channels);
  /// Reports whether the processes have executed their programs, as far as it is known.
  void report_starts();
  bool report_start(int process, int reader);
  void read_command();
  void reap();
  void report_exit(pid_t pid, int status);
  /// Returns true if no signal of the supervisor caused the end of the rank.
  [[nodiscard]] bool ended_independently(pid_t pid, int status) const;
  void enter(Phase phase);
  /// Enters the next phase once the deadline of the current phase has passed.
  void check_deadline();
  /// Returns the milliseconds until the deadline; -1: none.
  [[nodiscard]] int poll_timeout_ms() const;
  [[noreturn]] void exit_after(Event last);

  const std::vector<RankPlan>& plans_;
  const InheritedState& inherited_;
  const launch::pmi::Address& job_;
  int control_;
  int failure_reader_ = -1, failure_writer_ = -1;
  int sigchld_fd_ = -1;
  std::unordered_map<pid_t, int> process_of_;  // running processes
  std::vector<std::pair<int, int>> starting_;  // process, pipe that closes when it executes its program
  std::vector<pid_t> groups_;                  // process groups of all ranks; a leader's pid is its group
  std::set<pid_t> exiting_;                    // ranks that exited when the supervisor sent its first signal
  bool no_children_ = false;
  bool mpiexec_lost_ = false;  // mpiexec has exited, or an event could not be sent
  Phase phase_ = Phase::running;
  double deadline_ = 0;
};

void Supervisor::send_event(Event event) {
  ssize_t sent;
  while ((sent = ::send(control_, &event, sizeof event, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  if (sent >= 0 || mpiexec_lost_) return;
  // mpiexec has exited, or would wait for the lost event: terminate the job. mpiexec then detects the exit of
  // the supervisor.
  mpiexec_lost_ = true;
  enter(Phase::terminating);
}

// Ranks that outnumber the cores wait for each other, and have to hand over their cores.
Session Supervisor::session_of(size_t processes) {
  return processes > launch::allowed_cpus().size() ? Session::supervisor : Session::own;
}

void Supervisor::start_ranks(const std::vector<Channels>& channels) {
  const Session session = session_of(plans_.size());
  for (size_t i = 0; i < plans_.size(); ++i) {
    const int rank = static_cast<int>(i);
    const pid_t pid = spawn(rank, plans_[i], session, channels[i], inherited_, job_, failure_writer_);
    if (pid < 0) {
      send_event({Event::not_started, rank, StartFailure::program, errno});
      return;
    }
    process_of_[pid] = rank;
    groups_.push_back(pid);
    send_event({Event::started, rank, pid, 0});
    if (mpiexec_lost_) return;
  }
}

void Supervisor::report_failures() {
  StartFailure failure;
  while (::read(failure_reader_, &failure, sizeof failure) == sizeof failure)
    send_event({Event::not_started, failure.process, failure.stage, failure.error});
}

void Supervisor::start(int process, std::vector<int>& descriptors) {
  int error = EINVAL;
  if (descriptors.size() == kStartDescriptors && phase_ == Phase::running)
    if (const auto plan = read_plan(descriptors[0])) {
      Channels channels;
      channels.child_input = STDIN_FILENO;  // the supervisor's own is /dev/null
      channels.child_output = descriptors[1];
      channels.child_error = descriptors[2];
      channels.child_pmi = descriptors[3];
      error = start(process, *plan, channels);
    }
  for (const int descriptor : descriptors) ::close(descriptor);
  if (error != 0) send_event({Event::not_started, process, StartFailure::program, error});
}

int Supervisor::start(int process, const RankPlan& plan, const Channels& channels) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return errno;
  const pid_t pid =
      spawn(process, plan, session_of(process_of_.size() + 1), channels, inherited_, job_, ends[1]);
  const int error = errno;
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return error;
  }
  process_of_[pid] = process;
  groups_.push_back(pid);
  starting_.emplace_back(process, ends[0]);
  send_event({Event::started, process, pid, 0});
  return 0;
}

/// Returns false if the process has not reached its program yet.
bool Supervisor::report_start(int process, int reader) {
  StartFailure failure;
  const ssize_t n = ::read(reader, &failure, sizeof failure);
  if (n < 0) return false;
  if (n == sizeof failure)
    send_event({Event::not_started, process, failure.stage, failure.error});
  else
    send_event({Event::executed, process, 0, 0});
  ::close(reader);
  return true;
}

void Supervisor::report_starts() {
  std::erase_if(starting_, [this](const auto& one) { return report_start(one.first, one.second); });
}

void Supervisor::enter(Phase phase) {
  if (phase <= phase_) return;
  if (phase >= Phase::terminating && phase_ < Phase::terminating) {
    // The peers of a killed rank may abort before it is a zombie: its sockets close earlier.
    reap();
    for (const auto& [pid, rank] : process_of_)
      if (is_exiting(pid)) exiting_.insert(pid);
    if (phase <= phase_) return;  // reap() has entered it
  }
  phase_ = phase;
  deadline_ = now() + kGracePeriodSeconds;
  if (phase == Phase::terminating) signal_descendants(SIGTERM, groups_);
}

void Supervisor::read_command() {
  Command command{};
  pollfd event{control_, POLLIN, 0};
  if (::poll(&event, 1, 0) == 0) return;
  auto received = local_socket::receive(control_, std::as_writable_bytes(std::span(&command, 1)));
  if (!received || received->bytes != sizeof command) {
    mpiexec_lost_ = true;  // mpiexec closed the socket or exited
    enter(Phase::terminating);
    return;
  }
  switch (command.kind) {
    case Command::signal:
      for (const auto& [pid, rank] : process_of_) {
        const pid_t group = ::kill(-pid, 0) == 0 ? -pid : pid;  // until the rank leads its group
        ::kill(group, command.value);
        // SIGTSTP does not stop an orphaned process group (POSIX), which has no parent in its session.
        if (command.value == SIGTSTP) ::kill(group, SIGSTOP);
        if (command.value == SIGTERM || command.value == SIGHUP) ::kill(group, SIGCONT);
      }
      break;
    case Command::finish:
      enter(Phase::finishing);
      break;
    case Command::terminate:
      enter(Phase::terminating);
      break;
    case Command::kill:
      enter(Phase::killing);
      break;
    case Command::start:
      start(command.value, received->descriptors);
      break;
    case Command::end:
      for (const auto& [pid, process] : process_of_)
        if (process == command.value) ::kill(::kill(-pid, 0) == 0 ? -pid : pid, SIGKILL);
      break;
  }
}

void Supervisor::reap() {
  signalfd_siginfo ignored;
  while (::read(sigchld_fd_, &ignored, sizeof ignored) > 0) {
  }
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) {
      no_children_ = pid < 0 && errno == ECHILD;
      return;
    }
    report_exit(pid, status);
  }
}

bool Supervisor::ended_independently(pid_t pid, int status) const {
  if (phase_ < Phase::terminating || exiting_.count(pid) != 0) return true;
  return phase_ == Phase::terminating && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

void Supervisor::report_exit(pid_t pid, int status) {
  auto entry = process_of_.find(pid);
  if (entry == process_of_.end()) return;  // orphaned descendant of a rank
  const int process = entry->second;
  process_of_.erase(entry);
  report_failures();
  report_starts();
  // A later job leaves nothing behind: a program may start thousands of them.
  if (static_cast<size_t>(process) >= plans_.size()) std::erase(groups_, pid);
  send_event({Event::exited, process, status, ended_independently(pid, status)});
}

void Supervisor::check_deadline() {
  if (phase_ == Phase::running) return;
  if (no_children_) exit_after({Event::all_exited, -1, 0, 0});
  if (phase_ != Phase::killing && now() >= deadline_) {
    const bool finishing = phase_ == Phase::finishing;
    enter(finishing ? Phase::terminating : Phase::killing);
  }
  if (phase_ != Phase::killing) return;
  // Other exits of ranks in this phase are not reported: the supervisor killed them.
  const bool killed = kill_descendants(kKillTimeoutSeconds, groups_, [this](pid_t pid, int status) {
    if (exiting_.count(pid) != 0) report_exit(pid, status);
  });
  if (killed) exit_after({Event::all_exited, -1, 0, 0});
  const std::vector<pid_t> left = descendants(::getpid());
  exit_after({Event::unkillable, -1, static_cast<int>(left.size()), left.empty() ? 0 : left[0]});
}

int Supervisor::poll_timeout_ms() const {
  if (phase_ == Phase::running) return -1;
  return static_cast<int>(std::ceil(std::max(0.0, deadline_ - now()) * 1000));
}

void Supervisor::exit_after(Event last) {
  send_event(last);
  ::_exit(0);
}

void Supervisor::run(const std::vector<Channels>& channels) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigchld_fd_ = ::signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
  int ends[2];
  // A supervisor that does not adopt orphans would leave processes behind.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || sigchld_fd_ < 0 ||
      ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    send_event({Event::not_started, 0, StartFailure::program, errno});
    exit_after({Event::all_exited, -1, 0, 0});
  }
  failure_reader_ = ends[0];
  failure_writer_ = ends[1];
  start_ranks(channels);
  for (const Channels& own : channels)
    for (int fd : {own.child_output, own.child_error, own.child_pmi})
      if (fd >= 0) ::close(fd);
  if (!channels.empty() && channels[0].child_input > STDERR_FILENO) ::close(channels[0].child_input);
  // Release mpiexec's standard streams: a reader waiting for end of file must not wait for the supervisor.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  ::close(null);
  while (true) {
    reap();
    check_deadline();
    std::vector<pollfd> events{{mpiexec_lost_ ? -1 : control_, POLLIN, 0}, {sigchld_fd_, POLLIN, 0}};
    for (const auto& [process, reader] : starting_) events.push_back({reader, POLLIN, 0});
    // Out of memory: retry after a pause.
    if (::poll(events.data(), events.size(), poll_timeout_ms()) < 0 && errno != EINTR) {
      ::usleep(kPollRetryIntervalUs);
      events[0].revents = mpiexec_lost_ ? 0 : POLLIN;
    }
    if (!starting_.empty()) report_starts();
    if (events[0].revents != 0) read_command();
  }
}

}  // namespace

void stop_supervisor(SupervisorHandle& supervisor) {
  ::close(supervisor.control);
  supervisor.control = -1;
  while (::waitpid(supervisor.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<SupervisorHandle> start_supervisor(const std::vector<RankPlan>& plans, std::vector<Channels>& channels,
                                          PmiListener& listener, const InheritedState& inherited,
                                          char** argv) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_call_error("open a socket", errno);
  const pid_t pid = ::fork();
  if (pid < 0)
    return Error(Errc::other, std::string("cannot start a process (") + std::strerror(errno) +
                                  "). Is the process limit reached (ulimit -u)?");
  if (pid == 0) {
    ::setsid();  // Ctrl-C and kill -- -GROUP must not reach it; ranks may share the session
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP})
      ::signal(signal, SIG_IGN);
    ::prctl(PR_SET_PDEATHSIG, SIGCONT);  // a stopped supervisor must notice the end of mpiexec
    ::close(ends[0]);
    listener.close();
    for (const Channels& own : channels)
      for (int fd : {own.input, own.output, own.error, own.pmi})
        if (fd >= 0) ::close(fd);
    rename_process(argv, kProcessName);
    Supervisor(plans, inherited, listener.address(), ends[1]).run(channels);
  }
  ::close(ends[1]);
  if (!channels.empty() && channels[0].child_input > STDERR_FILENO) ::close(channels[0].child_input);
  for (Channels& own : channels) close_child_ends(own);
  return SupervisorHandle{pid, ends[0]};
}

}  // namespace weft::mpiexec
