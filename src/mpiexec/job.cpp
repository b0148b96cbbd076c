// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/job.hpp"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>

#include "mpiexec/processes.hpp"

namespace weft::mpiexec {

namespace {

/// How often a terminal in the background is looked at again, in milliseconds.
constexpr int kTerminalPause = 300;
constexpr int kTimeoutExitCode = 124;  // as timeout(1)
constexpr int kLostOutputExitCode = 1, kDeafExitCode = 1;
/// Seconds that the ranks have after the first SIGTERM before they are killed.
constexpr double kTerminationGrace = 5;
/// A second SIGTERM kills when it comes so many seconds after the first: timeout(1) sends two at once.
constexpr double kRepeatGap = 0.5;
/// Seconds that the reader of mpiexec's output has after the ranks were killed.
constexpr double kOutputGrace = 1;

std::vector<int> pmi_sockets(const std::vector<Channels>& channels) {
  std::vector<int> fds;
  for (const Channels& own : channels) fds.push_back(own.pmi);
  return fds;
}

std::vector<int> program_sizes(const std::vector<RankPlan>& plans) {
  std::vector<int> sizes(static_cast<size_t>(plans.back().program) + 1);
  for (const RankPlan& plan : plans) ++sizes[static_cast<size_t>(plan.program)];
  return sizes;
}

}  // namespace

Job::Job(const std::vector<RankPlan>& plans, const std::vector<Channels>& channels, const std::string& job_id,
         SentinelHandle sentinel, TerminalInput& input, Output& output, double timeout)
    : plans_(plans),
      channels_(channels),
      sentinel_(sentinel),
      input_(input),
      output_(output),
      server_(pmi_sockets(channels), program_sizes(plans), job_id, *this),
      ranks_(plans.size()),
      living_(plans.size()),
      timeout_(timeout),
      deadline_(timeout > 0 ? now() + timeout : 0) {}

Status Job::open() {
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);  // take_over() blocked what is ours to handle
  sigdelset(&blocked, SIGCHLD);
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return cannot("open an epoll descriptor", errno);
  signal_fd_ = ::signalfd(-1, &blocked, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signal_fd_ < 0) return cannot("open a descriptor for signals", errno);
  bool watched = watch(sentinel_.control, control, EPOLLIN) && watch(signal_fd_, signals, EPOLLIN) &&
                 watch(output_.done_fd(), Job::output, EPOLLIN);
  for (size_t i = 0; i < channels_.size() && watched; ++i)
    watched = watch(channels_[i].pmi, static_cast<int>(i), EPOLLIN);
  if (!watched) return cannot("watch a descriptor", errno);
  return {};
}

Job::~Job() {
  for (int fd : {epoll_, signal_fd_, sentinel_.control})
    if (fd >= 0) ::close(fd);
}

bool Job::watch(int fd, int source, unsigned events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<uint64_t>(static_cast<int64_t>(source));
  return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

int Job::run() {
  while (!gone_ || !drained_) {
    watch_terminal();
    epoll_event events[64];
    const int count = ::epoll_wait(epoll_, events, 64, patience());
    if (count < 0 && errno != EINTR) return give_up(cannot("wait for events", errno));
    for (int i = 0; i < count; ++i) dispatch(static_cast<int>(static_cast<int64_t>(events[i].data.u64)));
    check_time();
  }
  if (!failure_) return output_.lost() ? kLostOutputExitCode : 0;
  if (!failure_->text.empty()) say(failure_->text);
  return failure_->exit_code;
}

int Job::give_up(const Error& why) {
  say(why.message());
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);  // nobody reads signals any more: SIGTERM ends us
  if (sentinel_.control >= 0) end_sentinel(sentinel_);
  return kDeafExitCode;
}

void Job::dispatch(int source) {
  switch (source) {
    case control:
      return on_event();
    case signals: {
      signalfd_siginfo info{};
      while (::read(signal_fd_, &info, sizeof info) == sizeof info)
        on_signal(static_cast<int>(info.ssi_signo));
      return;
    }
    case Job::output:
      drained_ = true;
      ::epoll_ctl(epoll_, EPOLL_CTL_DEL, output_.done_fd(), nullptr);
      return;
    case terminal:
      return input_.read();
    case rank0_input:
      return input_.write();
    default:
      if (!server_.read(source))
        ::epoll_ctl(epoll_, EPOLL_CTL_DEL, channels_[static_cast<size_t>(source)].pmi, nullptr);
  }
}

void Job::on_event() {
  while (sentinel_.control >= 0) {
    Event event{};
    const ssize_t n = ::recv(sentinel_.control, &event, sizeof event, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n != sizeof event) return on_sentinel_lost();
    switch (event.kind) {
      case Event::started:
        ranks_[static_cast<size_t>(event.rank)].pid = event.value;
        break;
      case Event::not_started:
        fail(describe_start_failure(event, plans_[static_cast<size_t>(event.rank)]));
        break;
      case Event::exited:
        on_exit(event.rank, event.value);
        break;
      case Event::stuck:
        say(std::to_string(event.value) + " processes cannot be ended, such as pid " +
            std::to_string(event.detail) + ": they belong to another user, or hang in the kernel");
        [[fallthrough]];
      case Event::gone:
        gone_ = true;
        if (!failure_ && living_ > 0) failure_ = Failure{1, "the ranks were ended before they were done"};
        ::waitpid(sentinel_.pid, nullptr, 0);
        ::close(sentinel_.control);
        sentinel_.control = -1;
        output_.finish();
        break;
    }
  }
}

void Job::on_exit(int rank, int status) {
  // What the rank said before it ended is still in its socket, and explains its end better than its exit
  // code.
  (void)server_.read(rank);
  ranks_[static_cast<size_t>(rank)].exited = true;
  --living_;
  const PmiServer::Stage stage = server_.stage(rank);
  if (WIFSIGNALED(status) && forwarded_.count(WTERMSIG(status)) != 0) {
    fail({128 + WTERMSIG(status), ""});
  } else if (status != 0 && stage == PmiServer::Stage::finalized) {
    // It has left MPI in good order: nobody waits for it. The others end by themselves.
    if (!failure_) failure_ = failure_of(rank, status);
  } else if (status != 0) {
    fail(failure_of(rank, status));
  } else if (stage == PmiServer::Stage::initialized) {
    fail({1, rank_text(rank, pid_of(rank)) +
                 " exited without calling MPI_Finalize, which it must after MPI_Init"});
  } else {
    server_.rank_exited(rank);
  }
  if (living_ == 0 && !ending_) {
    ending_ = true;
    command(Command::finish);
  }
}

void Job::on_sentinel_lost() {
  // Its children are ours now (main() made us a subreaper too).
  ::close(sentinel_.control);
  sentinel_.control = -1;
  fail({1, "the process that watches over the ranks (pid " + std::to_string(sentinel_.pid) + ") was killed"});
  signal_descendants(SIGTERM);
  if (!kill_descendants(kGrace).empty()) say("some processes of the job cannot be ended");
  gone_ = true;
  output_.finish();
}

void Job::on_signal(int signal) {
  const bool repeated = forwarded_.count(signal) != 0;
  switch (signal) {
    case SIGTSTP:
      command(Command::signal, SIGTSTP);
      ::kill(::getpid(), SIGSTOP);  // SIGTSTP itself is blocked here
      return;
    case SIGCONT:
    case SIGUSR1:
    case SIGUSR2:
      if (signal != SIGCONT) forwarded_.insert(signal);
      return command(Command::signal, signal);
    default:
      break;
  }
  if (gone_) ::_exit(128 + signal);  // only output is left, and its reader does not read
  forwarded_.insert(signal);
  if (signal == SIGHUP || (repeated && signal == SIGINT) || (ending_ && signal == SIGINT)) {
    if (!failure_) failure_ = Failure{128 + signal, ""};
    ending_ = true;
    if (signal == SIGHUP) escalation_ = now() + kTerminationGrace;
    if (signal == SIGHUP) command(Command::signal, signal);
    return command(signal == SIGHUP ? Command::terminate : Command::kill);
  }
  if (signal == SIGTERM && repeated && now() - terminated_ >= kRepeatGap) return escalate();
  if (signal == SIGTERM && !repeated) {
    terminated_ = now();
    escalation_ = terminated_ + kTerminationGrace;
  }
  if (signal == SIGINT) say("interrupted; Ctrl-C once more kills the job");
  command(Command::signal, signal);
}

void Job::on_abort(int rank, int code, const std::string& message) {
  fail(describe_abort(rank, pid_of(rank), code, message));
}

void Job::on_failure(int rank, const std::string& problem) {
  fail({1, rank_text(rank, pid_of(rank)) + " " + problem});
}

Failure Job::failure_of(int rank, int status) const {
  // Output that is lost ends the ranks by SIGPIPE; Output has reported it.
  if (output_.lost() && WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) return {kLostOutputExitCode, ""};
  return describe_exit(rank, pid_of(rank), status);
}

void Job::fail(Failure failure) {
  if (!failure_) failure_ = std::move(failure);
  if (ending_) return;
  ending_ = true;
  command(Command::terminate);
}

void Job::command(Command::Kind kind, int value) {
  if (sentinel_.control < 0) return;
  const Command message{kind, value};
  // A full or closed socket: the sentinel ends everything, or is lost and on_event() learns it.
  (void)::send(sentinel_.control, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Job::escalate() {
  if (gone_) ::_exit(failure_ ? failure_->exit_code : 128 + SIGTERM);  // only its reader holds the output up
  if (!failure_) failure_ = Failure{128 + SIGTERM, ""};
  ending_ = true;
  ::kill(sentinel_.pid, SIGCONT);  // someone may have stopped it
  command(Command::kill);
  escalation_ = now() + kOutputGrace;
}

void Job::check_time() {
  if (escalation_ != 0 && now() >= escalation_) escalate();
  if (deadline_ == 0 || ending_ || now() < deadline_) return;
  char text[100];
  snprintf(text, sizeof text, "the job ran longer than %g s (--timeout) and was ended", timeout_);
  fail({kTimeoutExitCode, text});
}

void Job::watch_terminal() {
  const bool wanted = input_.wants_input(), blocked = input_.blocked_fd() >= 0;
  if (wanted != terminal_watched_) {
    if (wanted && !watch(STDIN_FILENO, terminal, EPOLLIN))
      return fail({1, cannot("watch standard input", errno).message()});
    if (!wanted) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, STDIN_FILENO, nullptr);
    terminal_watched_ = wanted;
  }
  if (blocked != rank0_watched_ && input_.active()) {
    if (blocked && !watch(input_.blocked_fd(), rank0_input, EPOLLOUT))
      return fail({1, cannot("watch the input of rank 0", errno).message()});
    if (!blocked) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, channels_[0].input, nullptr);
  }
  rank0_watched_ = blocked;
}

int Job::patience() const {
  double seconds = 1e6;
  if (deadline_ != 0 && !ending_) seconds = std::max(0.0, deadline_ - now());
  if (escalation_ != 0) seconds = std::min(seconds, std::max(0.0, escalation_ - now()));
  // Whether we are in the foreground changes without an event.
  if (input_.active() && !terminal_watched_ && !rank0_watched_)
    seconds = std::min(seconds, kTerminalPause / 1000.0);
  return seconds >= 1e6 ? -1 : static_cast<int>(std::ceil(seconds * 1000));
}

}  // namespace weft::mpiexec
