// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/sentinel.hpp"

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
#include <unordered_map>

#include "mpiexec/processes.hpp"

namespace weft::mpiexec {

namespace {

constexpr const char* kName = "weft-sentinel";
/// Seconds after which unkillable processes are given up.
constexpr double kKillLimit = 5;

class Sentinel {
 public:
  Sentinel(const std::vector<RankPlan>& plans, const Inherited& inherited, int control)
      : plans_(plans), inherited_(inherited), control_(control) {}
  [[noreturn]] void run(const std::vector<Channels>& channels);

 private:
  enum class Phase { running, finishing, terminating, killing };

  void start_ranks(const std::vector<Channels>& channels);
  void tell(Event event);
  void report_failures();
  void read_command();
  void reap();
  void enter(Phase phase);
  /// Moves on when the phase's time is over.
  void check_time();
  /// Milliseconds until check_time() has something to do; -1: for ever.
  [[nodiscard]] int patience() const;
  [[noreturn]] void leave(Event last);

  const std::vector<RankPlan>& plans_;
  const Inherited& inherited_;
  int control_;
  int failures_ = -1, failure_writer_ = -1;
  int children_changed_ = -1;
  std::unordered_map<pid_t, int> rank_of_;  // the living ones
  bool childless_ = false;
  bool orphaned_ = false;
  Phase phase_ = Phase::running;
  double deadline_ = 0;
};

void Sentinel::tell(Event event) {
  ssize_t sent;
  while ((sent = ::send(control_, &event, sizeof event, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  if (sent >= 0) return;
  // mpiexec is gone, or does not learn what it waits for: end everything; the end of this process tells it
  // then.
  orphaned_ = true;
  enter(Phase::terminating);
}

void Sentinel::start_ranks(const std::vector<Channels>& channels) {
  for (size_t i = 0; i < plans_.size(); ++i) {
    const int rank = static_cast<int>(i);
    const pid_t pid = spawn(rank, plans_[i], channels[i], inherited_, failure_writer_);
    if (pid < 0) {
      tell({Event::not_started, rank, StartFailure::program, errno});
      return;
    }
    rank_of_[pid] = rank;
    tell({Event::started, rank, pid, 0});
    if (orphaned_) return;
  }
}

void Sentinel::report_failures() {
  StartFailure failure;
  while (::read(failures_, &failure, sizeof failure) == sizeof failure)
    tell({Event::not_started, failure.rank, failure.stage, failure.error});
}

void Sentinel::enter(Phase phase) {
  if (phase <= phase_) return;
  phase_ = phase;
  deadline_ = now() + kGrace;
  if (phase == Phase::terminating) signal_descendants(SIGTERM);
}

void Sentinel::read_command() {
  Command command{};
  const ssize_t n = ::recv(control_, &command, sizeof command, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n != sizeof command) {
    orphaned_ = true;  // mpiexec is gone
    enter(Phase::terminating);
    return;
  }
  switch (command.kind) {
    case Command::signal:
      for (const auto& [pid, rank] : rank_of_) {
        ::kill(-pid, command.value);
        if (command.value == SIGTERM || command.value == SIGHUP) ::kill(-pid, SIGCONT);
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
  }
}

void Sentinel::reap() {
  signalfd_siginfo ignored;
  while (::read(children_changed_, &ignored, sizeof ignored) > 0) {
  }
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) {
      childless_ = pid < 0 && errno == ECHILD;
      return;
    }
    auto rank = rank_of_.find(pid);
    if (rank == rank_of_.end()) continue;  // an orphan that a rank left to us
    report_failures();
    tell({Event::exited, rank->second, status, 0});
    rank_of_.erase(rank);
  }
}

void Sentinel::check_time() {
  if (phase_ == Phase::running) return;
  if (childless_) leave({Event::gone, -1, 0, 0});
  if (phase_ != Phase::killing && now() >= deadline_) {
    const bool finishing = phase_ == Phase::finishing;
    enter(finishing ? Phase::terminating : Phase::killing);
  }
  if (phase_ != Phase::killing) return;
  const std::vector<pid_t> left = kill_descendants(kKillLimit);
  // The ranks' own ends went unreported: they were killed by us.
  if (left.empty()) leave({Event::gone, -1, 0, 0});
  leave({Event::stuck, -1, static_cast<int>(left.size()), left[0]});
}

int Sentinel::patience() const {
  if (phase_ == Phase::running) return -1;
  return static_cast<int>(std::ceil(std::max(0.0, deadline_ - now()) * 1000));
}

void Sentinel::leave(Event last) {
  tell(last);
  ::_exit(0);
}

void Sentinel::run(const std::vector<Channels>& channels) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  children_changed_ = ::signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
  int ends[2];
  if (children_changed_ < 0 || ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    tell({Event::not_started, 0, StartFailure::program, errno});
    leave({Event::gone, -1, 0, 0});
  }
  failures_ = ends[0];
  failure_writer_ = ends[1];
  start_ranks(channels);
  for (const Channels& own : channels)
    for (int fd : {own.child_output, own.child_error, own.child_pmi}) ::close(fd);
  if (channels[0].child_input > STDERR_FILENO) ::close(channels[0].child_input);
  // Keep no hold on mpiexec's own input and output: who waits for their end must not wait for us.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  ::close(null);
  while (true) {
    reap();
    check_time();
    pollfd events[] = {{orphaned_ ? -1 : control_, POLLIN, 0}, {children_changed_, POLLIN, 0}};
    if (::poll(events, 2, patience()) < 0 && errno != EINTR) {  // out of memory: look by hand meanwhile
      ::usleep(kPollPauseMicroseconds);
      events[0].revents = orphaned_ ? 0 : POLLIN;
    }
    if (events[0].revents != 0) read_command();
  }
}

/// Whoever kills "mpiexec" by name must not hit us too.
void rename_self(char** argv) {
  ::prctl(PR_SET_NAME, kName);
  char* end = argv[0] + std::strlen(argv[0]);
  for (char** next = argv + 1; *next != nullptr; ++next)
    if (*next == end + 1) end = *next + std::strlen(*next);
  const size_t room = static_cast<size_t>(end - argv[0]);
  std::memset(argv[0], 0, room);
  std::memcpy(argv[0], kName, std::min(room, std::strlen(kName)));
}

}  // namespace

void end_sentinel(SentinelHandle& sentinel) {
  ::close(sentinel.control);
  sentinel.control = -1;
  while (::waitpid(sentinel.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<SentinelHandle> start_sentinel(const std::vector<RankPlan>& plans, std::vector<Channels>& channels,
                                      const Inherited& inherited, char** argv) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return Error(Errc::other, std::string("cannot open a socket (") + std::strerror(errno) + ")");
  const pid_t pid = ::fork();
  if (pid < 0)
    return Error(Errc::other, std::string("cannot start a process (") + std::strerror(errno) +
                                  "). Is the limit on processes reached (ulimit -u)?");
  if (pid == 0) {
    ::setpgid(0, 0);  // out of reach of Ctrl-C and of kill -- -GROUP
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP})
      ::signal(signal, SIG_IGN);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::close(ends[0]);
    for (const Channels& own : channels)
      for (int fd : {own.input, own.output, own.error, own.pmi})
        if (fd >= 0) ::close(fd);
    rename_self(argv);
    Sentinel(plans, inherited, ends[1]).run(channels);
  }
  ::close(ends[1]);
  if (channels[0].child_input > STDERR_FILENO) ::close(channels[0].child_input);
  for (Channels& own : channels)
    for (int* fd : {&own.child_output, &own.child_error, &own.child_pmi}) {
      ::close(*fd);
      *fd = -1;
    }
  return SentinelHandle{pid, ends[0]};
}

}  // namespace weft::mpiexec
