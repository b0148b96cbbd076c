// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/job.hpp"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "launch/cpus.hpp"
#include "mpiexec/mpir.hpp"
#include "mpiexec/other_mpi.hpp"
#include "mpiexec/processes.hpp"

namespace weft::mpiexec {

namespace {

/// Interval in milliseconds at which mpiexec checks whether it is in the terminal's foreground again.
constexpr int kTerminalPollMs = 300;
constexpr int kTimeoutExitCode = 124;  // as timeout(1)
constexpr int kOtherMpiExitCode = 1, kLostOutputExitCode = 1, kEventLoopFailedExitCode = 1;
/// Seconds between the first SIGTERM or SIGHUP and SIGKILL to the ranks.
constexpr double kSigtermTimeoutSeconds = 5;
/// Minimum seconds between two SIGTERM for the second to kill the ranks. timeout(1) sends two at once: to its
/// child and to the process group.
constexpr double kSigtermRepeatSeconds = 0.5;
/// Seconds between SIGKILL to the ranks and the exit of mpiexec with unread output.
constexpr double kOutputTimeoutSeconds = 1;

/// Number of processes that can run at once without sharing cores; at least those of the job.
int universe_size(int processes) {
  return std::max(processes, static_cast<int>(launch::allowed_cpus().size()));
}

}  // namespace

Job::Job(First first, SupervisorHandle supervisor, PmiListener& pmi_listener, TerminalInput& input,
         Output& output, const SpawnDefaults& defaults)
    : supervisor_(supervisor),
      pmi_listener_(pmi_listener),
      input_(input),
      output_(output),
      defaults_(defaults),
      next_process_(static_cast<int>(first.channels.size())),
      alive_(next_process_),
      continue_on_failure_(defaults.options.continue_on_failure),
      timeout_(defaults.options.timeout),
      deadline_(timeout_ > 0 ? now() + timeout_ : 0),
      start_(now()),
      examination_(start_ + kFirstExaminationSeconds) {
  worlds_.push_back(std::make_unique<World>(0, 0, std::move(first.plans), std::move(first.channels),
                                            std::move(first.id), listener(), universe_size(next_process_)));
  if (first.singleton > 0) first_world().ranks[0].pid = first.singleton;
}

Status Job::open() {
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);  // save_and_replace() blocked the signals to handle
  sigdelset(&blocked, SIGCHLD);
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return system_call_error("open an epoll descriptor", errno);
  signal_fd_ = ::signalfd(-1, &blocked, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signal_fd_ < 0) return system_call_error("open a descriptor for signals", errno);
  bool watched = watch(supervisor_.control, control, EPOLLIN) && watch(signal_fd_, signals, EPOLLIN) &&
                 watch(output_.done_fd(), Job::output, EPOLLIN) &&
                 watch(pmi_listener_.descriptor(), join_requests, EPOLLIN);
  const std::vector<Channels>& channels = first_world().channels;
  for (size_t i = 0; i < channels.size() && watched; ++i)
    watched = watch(channels[i].pmi, static_cast<int>(i), EPOLLIN);
  if (!watched) return system_call_error("watch a descriptor", errno);
  return {};
}

Job::~Job() {
  for (int fd : {epoll_, signal_fd_, supervisor_.control})
    if (fd >= 0) ::close(fd);
}

bool Job::watch(int fd, int64_t source, unsigned events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<uint64_t>(source);
  return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

int Job::run() {
  while (!all_exited_ || !output_drained_) {
    watch_terminal();
    epoll_event events[64];
    const int count = ::epoll_wait(epoll_, events, 64, poll_timeout_ms());
    if (count < 0 && errno != EINTR) return shut_down(system_call_error("wait for events", errno));
    for (int i = 0; i < count; ++i) dispatch(static_cast<int64_t>(events[i].data.u64));
    check_deadlines();
  }
  if (!failure_) return output_.lost() ? kLostOutputExitCode : 0;
  if (!failure_->text.empty()) print_message(failure_->text);
  return failure_->exit_code;
}

int Job::shut_down(const Error& cause) {
  print_message(cause.message());
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);  // signal_fd_ is not read: SIGTERM must end mpiexec
  if (supervisor_.control >= 0) stop_supervisor(supervisor_);
  return kEventLoopFailedExitCode;
}

void Job::dispatch(int64_t source) {
  switch (source) {
    case control:
      return on_supervisor_event();
    case signals: {
      signalfd_siginfo info{};
      while (::read(signal_fd_, &info, sizeof info) == sizeof info)
        on_signal(static_cast<int>(info.ssi_signo));
      return;
    }
    case Job::output:
      output_drained_ = true;
      ::epoll_ctl(epoll_, EPOLL_CTL_DEL, output_.done_fd(), nullptr);
      return;
    case terminal:
      return input_.read();
    case rank0_input:
      return input_.write();
    case name_requests:
      return names_.serve();
    case join_requests:
      return join_processes();
    default:
      break;
  }
  const bool joined = source >= kJoined;
  read_pmi(static_cast<int>(joined ? source - kJoined : source),
           joined ? PmiServer::joined : PmiServer::inherited);
}

void Job::read_pmi(int process, PmiServer::Path path) {
  World* const world = world_of(process);
  if (world == nullptr) return;
  const int rank = process - world->first;
  const bool open = world->server.read(rank, path);
  watch_names();
  if (open || path == PmiServer::joined) return;
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, world->channels[static_cast<size_t>(rank)].pmi, nullptr);
  // The supervisor does not know the singleton: the end of its connection is its end.
  if (world->number == 0 && world->plans.empty()) on_exit(process, 0, true);
}

World* Job::world_of(int process) {
  for (const auto& world : worlds_)
    if (world->contains(process)) return world.get();
  return nullptr;
}

void Job::on_supervisor_event() {
  while (supervisor_.control >= 0) {
    Event event{};
    const ssize_t n = ::recv(supervisor_.control, &event, sizeof event, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n != sizeof event) return on_supervisor_lost();
    World* const world = world_of(event.process);
    switch (event.kind) {
      case Event::started:
        world->rank_of(event.process).pid = event.value;
        if (world->number == 0 && event.process + 1 == world->first + world->size()) publish_worlds();
        break;
      case Event::executed:
        on_started(*world, event.process, "");
        break;
      case Event::not_started: {
        if (world->plans.empty()) {  // a singleton is served
          fail({1, "the supervisor of spawned processes cannot start", false});
          break;
        }
        const int rank = event.process - world->first;
        Failure failure = describe_start_failure(event, rank, world->plans[static_cast<size_t>(rank)]);
        if (world->number == 0) {
          fail(std::move(failure));
          break;
        }
        const bool forked = world->rank_of(event.process).pid > 0;  // then Event::exited follows
        on_started(*world, event.process, failure.text);
        if (!forked) on_exit(event.process, 0, true);
        break;
      }
      case Event::exited:
        on_exit(event.process, event.value, event.detail != 0);
        break;
      case Event::unkillable:
        print_message(event.value == 0
                          ? "some processes of the job cannot be found: is /proc mounted?"
                          : std::to_string(event.value) + " processes cannot be killed, such as pid " +
                                std::to_string(event.detail) +
                                ": they belong to another user, or hang in the kernel");
        [[fallthrough]];
      case Event::all_exited:
        all_exited_ = true;
        if (!failure_ && alive_ > 0)
          failure_ = Failure{1, "the ranks were terminated before they exited", false};
        ::waitpid(supervisor_.pid, nullptr, 0);
        ::close(supervisor_.control);
        supervisor_.control = -1;
        output_.finish();
        break;
    }
  }
}

void Job::on_exit(int process, int status, bool independent) {
  World& world = *world_of(process);
  World::Rank& rank = world.rank_of(process);
  // The sockets may still hold PMI commands such as abort, which explain the exit better than the exit code.
  for (const auto path : {PmiServer::inherited, PmiServer::joined})
    (void)world.server.read(process - world.first, path);
  if (rank.exited) return;
  rank.exited = true;
  --alive_;
  const PmiServer::Stage stage = world.server.stage(process - world.first);
  // A peer that lost its connection to a killed rank may abort before the supervisor reports that rank.
  if (WIFSIGNALED(status) && independent && terminating_ && failure_ && failure_->may_be_consequence)
    failure_.reset();
  if (rank.not_started || world.cancelled) {
    // The requester has got an error.
  } else if (WIFSIGNALED(status) && forwarded_.count(WTERMSIG(status)) != 0) {
    fail({128 + WTERMSIG(status), "", false});
  } else if (status != 0 && stage == PmiServer::Stage::finalized) {
    // After MPI_Finalize no rank depends on this one: record the exit code, let the others end normally.
    if (!failure_) failure_ = failure_of(world, process, status);
  } else if (status != 0) {
    fail_rank(world, process, failure_of(world, process, status));
  } else if (stage == PmiServer::Stage::initialized) {
    fail_rank(
        world, process,
        {1, world.text_of(process) + " exited without calling MPI_Finalize, which is required after MPI_Init",
         true});
  } else {
    // The other ranks go on: they are alone, too.
    if (!failure_ && stage == PmiServer::Stage::not_initialized && !rank.other_mpi.empty())
      failure_ =
          Failure{kOtherMpiExitCode,
                  world.text_of(process) + " has loaded another MPI (" + rank.other_mpi +
                      ") and not called Weft's MPI_Init, so each rank ran alone: build the program with "
                      "Weft's mpicc, or start it with the mpiexec of that MPI",
                  false};
    world.server.rank_exited(process - world.first);
  }
  if (--world.alive == 0 && world.number != 0)
    worlds_.remove_if([&](const auto& other) { return other.get() == &world; });
  if (alive_ == 0 && !terminating_) {
    terminating_ = true;
    command(Command::finish);
  }
}

void Job::on_supervisor_lost() {
  // mpiexec, also a subreaper, has adopted the supervisor's children.
  ::close(supervisor_.control);
  supervisor_.control = -1;
  fail({1, "the supervisor of the ranks (pid " + std::to_string(supervisor_.pid) + ") was killed", false});
  signal_descendants(SIGTERM, groups());
  if (!kill_descendants(kKillTimeoutSeconds, groups()))
    print_message("some processes of the job cannot be killed");
  all_exited_ = true;
  output_.finish();
}

std::vector<pid_t> Job::groups() const {
  std::vector<pid_t> found;
  for (const auto& world : worlds_)
    if (!world->plans.empty())
      for (const World::Rank& rank : world->ranks)
        if (rank.pid > 0) found.push_back(rank.pid);
  return found;
}

void Job::on_signal(int signal) {
  const bool repeated = forwarded_.count(signal) != 0;
  switch (signal) {
    case SIGTSTP:
      command(Command::signal, SIGTSTP);
      ::kill(::getpid(), SIGSTOP);  // SIGTSTP is blocked in mpiexec
      return;
    case SIGUSR1:  // ranks without a handler would end
      print_waits();
      if (!any_rank_handles(signal)) return;
      [[fallthrough]];
    case SIGCONT:
    case SIGUSR2:
      if (signal != SIGCONT) forwarded_.insert(signal);
      return command(Command::signal, signal);
    default:
      break;
  }
  if (all_exited_) ::_exit(128 + signal);  // only output is left, and its reader is blocked
  forwarded_.insert(signal);
  if (signal == SIGHUP || (repeated && signal == SIGINT) || (terminating_ && signal == SIGINT)) {
    if (!failure_) failure_ = Failure{128 + signal, "", false};
    terminating_ = true;
    if (signal == SIGHUP) escalation_time_ = now() + kSigtermTimeoutSeconds;
    if (signal == SIGHUP) command(Command::signal, signal);
    return command(signal == SIGHUP ? Command::terminate : Command::kill);
  }
  if (signal == SIGTERM && repeated && now() - first_sigterm_time_ >= kSigtermRepeatSeconds)
    return escalate();
  if (signal == SIGTERM && !repeated) {
    first_sigterm_time_ = now();
    escalation_time_ = first_sigterm_time_ + kSigtermTimeoutSeconds;
  }
  if (signal == SIGINT) print_waits();
  if (signal == SIGINT) print_message("interrupted; press Ctrl-C again to kill the job");
  command(Command::signal, signal);
}

void Job::on_abort(int process, int code, const std::string& message) {
  World& world = *world_of(process);
  Failure failure = describe_abort(world.text_of(process), code, message);
  failure.text += gpu_hint_of(world, process);
  // In a job that continues, a spawned job ends alone: its parents may have died before it has reached them.
  if (!continue_on_failure_ || world.number == 0) return fail(std::move(failure));
  if (!failure_) failure_ = std::move(failure);
  cancel(world);
}

void Job::on_failure(int process, const std::string& problem) {
  fail({1, world_of(process)->text_of(process) + " " + problem, true});
}

Failure Job::failure_of(const World& world, int process, int status) const {
  // After lost output, which Output has reported, SIGPIPE kills the ranks.
  if (output_.lost() && WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE)
    return {kLostOutputExitCode, "", false};
  const auto rank = static_cast<size_t>(process - world.first);
  const std::string directory = world.plans.empty() ? "" : world.plans[rank].directory;
  Failure failure = describe_exit(world.text_of(process), world.ranks[rank].pid, status, directory);
  if (!WIFSIGNALED(status) || WTERMSIG(status) == SIGABRT) failure.text += gpu_hint_of(world, process);
  return failure;
}

std::string Job::gpu_hint_of(const World& world, int process) {
  const auto rank = static_cast<size_t>(process - world.first);
  return world.plans.empty() ? std::string() : gpu_hint(world.plans[rank], rank);
}

void Job::fail(Failure failure) {
  if (!failure_) failure_ = std::move(failure);
  if (terminating_) return;
  terminating_ = true;
  publish_abort(failure_->text);
  command(Command::terminate);
}

// The first failure determines exit code and text also of a job that continues. A rank in a PMI barrier
// cannot go on without the failed one: the barrier ends the job.
void Job::fail_rank(World& world, int process, Failure failure) {
  if (!continue_on_failure_) return fail(std::move(failure));
  if (!failure_) failure_ = std::move(failure);
  world.server.rank_exited(process - world.first);
}

void Job::command(Command::Kind kind, int value) {
  if (supervisor_.control < 0) return;
  const Command message{kind, value};
  // If the socket is full, the supervisor is already terminating; if closed, on_supervisor_event() detects
  // it. Without memory in the kernel, a lost command would leave the supervisor waiting.
  while (::send(supervisor_.control, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
         (errno == ENOBUFS || errno == ENOMEM || errno == EINTR))
    ::usleep(kPollRetryIntervalUs);
}

void Job::escalate() {
  // Only output is left, and its reader is blocked.
  if (all_exited_) ::_exit(failure_ ? failure_->exit_code : 128 + SIGTERM);
  if (!failure_) failure_ = Failure{128 + SIGTERM, "", false};
  terminating_ = true;
  ::kill(supervisor_.pid, SIGCONT);  // a stopped supervisor does not read commands
  command(Command::kill);
  escalation_time_ = now() + kOutputTimeoutSeconds;
}

void Job::examine_ranks() {
  bool waiting = false;
  for (const auto& world : worlds_)
    for (int i = 0; i < world->size(); ++i) {
      World::Rank& rank = world->ranks[static_cast<size_t>(i)];
      if (rank.exited || !rank.other_mpi.empty()) continue;
      if (world->server.stage(i) != PmiServer::Stage::not_initialized) continue;
      waiting = true;
      if (rank.pid > 0) rank.other_mpi = other_mpi_of(rank.pid);
    }
  const double age = now() - start_;
  examination_ = waiting && age < kLastExaminationSeconds ? start_ + age * kExaminationGrowth : 0;
}

void Job::check_deadlines() {
  if (examination_ != 0 && now() >= examination_) examine_ranks();
  if (escalation_time_ != 0 && now() >= escalation_time_) escalate();
  if (deadline_ == 0 || terminating_ || now() < deadline_) return;
  char text[100];
  print_waits();
  snprintf(text, sizeof text, "the job ran longer than %g s (--timeout) and was ended", timeout_);
  fail({kTimeoutExitCode, text, false});
}

void Job::watch_terminal() {
  const bool wanted = input_.wants_input(), blocked = input_.blocked_fd() >= 0;
  if (wanted != terminal_watched_) {
    if (wanted && !watch(STDIN_FILENO, terminal, EPOLLIN))
      return fail({1, system_call_error("watch standard input", errno).message(), false});
    if (!wanted) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, STDIN_FILENO, nullptr);
    terminal_watched_ = wanted;
  }
  if (blocked != rank0_watched_ && input_.active()) {
    if (blocked && !watch(input_.blocked_fd(), rank0_input, EPOLLOUT))
      return fail({1, system_call_error("watch the input of rank 0", errno).message(), false});
    if (!blocked) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, first_world().channels[0].input, nullptr);
  }
  rank0_watched_ = blocked;
}

int Job::poll_timeout_ms() const {
  double seconds = 1e6;
  if (deadline_ != 0 && !terminating_) seconds = std::max(0.0, deadline_ - now());
  if (examination_ != 0) seconds = std::min(seconds, std::max(0.0, examination_ - now()));
  if (escalation_time_ != 0) seconds = std::min(seconds, std::max(0.0, escalation_time_ - now()));
  // No event reports a change of the terminal's foreground process group.
  if (input_.active() && !terminal_watched_ && !rank0_watched_)
    seconds = std::min(seconds, kTerminalPollMs / 1000.0);
  return seconds >= 1e6 ? -1 : static_cast<int>(std::ceil(seconds * 1000));
}

}  // namespace weft::mpiexec
