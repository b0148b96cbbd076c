// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/guard.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "launch/environment.hpp"
#include "mpiexec/hosts.hpp"
#include "mpiexec/options.hpp"
#include "mpiexec/plan.hpp"
#include "mpiexec/processes.hpp"
#include "mpiexec/report.hpp"
#include "mpiexec/spawn.hpp"
#include "mpiexec/supervisor.hpp"

namespace weft::mpiexec {

namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
constexpr int kUsageCode = 2, kNotStartedCode = 126, kNotFoundCode = 127, kLostCode = 1;

/// Progress of the rank, as the supervisor has reported it.
struct Progress {
  int connection = -1;    ///< of the rank to its launcher; -1: none
  bool ends_job = false;  ///< a signal that kills the rank ends the job
  pid_t pid = 0;
  int exit_code = kLostCode;
  std::optional<StartFailure> failure;
  bool over = false;  ///< nothing is left
  bool lost = false;  ///< the supervisor was killed
};

/// The launcher's connection of the rank, which it inherits; -1 if there is none (PMIx).
int inherited_connection() {
  const char* text = std::getenv("PMI_FD");
  const auto fd = text != nullptr ? launch::parse_int(text, 0, INT_MAX) : std::nullopt;
  return fd && ::fcntl(*fd, F_GETFD) >= 0 ? *fd : -1;
}

/// The rank's ends of its channels: duplicates of what this process has inherited.
std::optional<Channels> inherited_channels() {
  Channels channels;
  const auto duplicate = [](int fd) { return ::fcntl(fd, F_DUPFD_CLOEXEC, kStandardDescriptors); };
  // Hydra gives each rank a pipe, which only rank 0 reads and which never ends for the others.
  const char* rank = std::getenv("PMI_RANK");
  const bool reads = rank == nullptr || std::strcmp(rank, "0") == 0;
  channels.child_input = reads ? duplicate(STDIN_FILENO) : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  channels.child_output = duplicate(STDOUT_FILENO);
  channels.child_error = duplicate(STDERR_FILENO);
  if (channels.child_input < 0 || channels.child_output < 0 || channels.child_error < 0) return std::nullopt;
  channels.child_pmi = inherited_connection();
  return channels;
}

/// "rank 3 (pid 4711 on node1)".
std::string name_of(pid_t pid) {
  for (const char* variable : {"PMI_RANK", "PMIX_RANK"})
    if (const char* text = std::getenv(variable))
      if (const auto rank = launch::parse_int(text, 0, kMaxRanks)) return rank_text(*rank, pid);
  return "process " + std::to_string(pid) + " on " + host_name();
}

/// Reports that the rank was killed, and asks a PMI launcher to end the job.
void report_failure(const Progress& progress, const Failure& failure) {
  print_message(failure.text);
  const std::string command = "cmd=abort exitcode=" + std::to_string(failure.exit_code) + "\n";
  if (progress.ends_job && progress.connection >= 0)
    static_cast<void>(
        ::send(progress.connection, command.data(), command.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

/// Handles one event of the supervisor.
void read_event(int control, Progress& progress) {
  Event event{};
  const ssize_t n = ::recv(control, &event, sizeof event, 0);
  if (n < 0 && errno == EINTR) return;
  if (n != sizeof event) {
    progress.over = progress.lost = true;
    return;
  }
  if (event.kind == Event::started) {
    progress.pid = event.value;
  } else if (event.kind == Event::not_started) {
    progress.failure = StartFailure{event.process, event.value, event.detail};
  } else if (event.kind == Event::exited) {
    const Failure failure = describe_exit(name_of(progress.pid), progress.pid, event.value, "");
    progress.exit_code = event.value == 0 ? 0 : failure.exit_code;
    if (WIFSIGNALED(event.value)) report_failure(progress, failure);
    const Command finish{Command::finish, 0};
    if (::send(control, &finish, sizeof finish, MSG_NOSIGNAL) < 0) progress.over = true;
  }
  if (event.kind == Event::all_exited || event.kind == Event::unkillable) progress.over = true;
}

void forward_signals(int signals, int control) {
  signalfd_siginfo info;
  while (::read(signals, &info, sizeof info) == sizeof info) {
    const Command command{Command::signal, static_cast<int>(info.ssi_signo)};
    static_cast<void>(::send(control, &command, sizeof command, MSG_NOSIGNAL));
  }
}

void supervise(const SupervisorHandle& supervisor, Progress& progress) {
  sigset_t forwarded;
  sigemptyset(&forwarded);
  for (const int signal : kForwarded) sigaddset(&forwarded, signal);
  ::sigprocmask(SIG_BLOCK, &forwarded, nullptr);
  const int signals = ::signalfd(-1, &forwarded, SFD_NONBLOCK | SFD_CLOEXEC);
  while (!progress.over) {
    pollfd events[] = {{supervisor.control, POLLIN, 0}, {signals, POLLIN, 0}};
    if (::poll(events, 2, -1) < 0) continue;
    if (events[1].revents != 0) forward_signals(signals, supervisor.control);
    if (events[0].revents != 0) read_event(supervisor.control, progress);
  }
}

}  // namespace

int guard(const std::vector<std::string>& given, char** argv, char** environment) {
  const bool continues = !given.empty() && given[0] == kGuardContinues;
  const std::vector<std::string> words(given.begin() + (given.empty() ? 0 : 1), given.end());
  if (words.empty() || (!continues && given[0] != kGuardEnds)) {
    print_message(std::string(kGuard) + " is used by mpiexec on several hosts");
    return kUsageCode;
  }
  // The launcher's process on this host is the parent: without it nobody would end the rank.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // adopts the children of the rank if the supervisor is killed
  auto channels = inherited_channels();
  prepare_descriptors();
  const InheritedState inherited = InheritedState::save_and_replace();
  if (!channels) {
    print_message(std::string("cannot duplicate a descriptor (") + std::strerror(errno) + ")");
    return kNotStartedCode;
  }
  Progress progress;
  progress.ends_job = !continues;
  if (channels->child_pmi >= 0)
    progress.connection = ::fcntl(channels->child_pmi, F_DUPFD_CLOEXEC, kStandardDescriptors);
  RankPlan plan;
  plan.argv = words;
  for (char** entry = environment; *entry != nullptr; ++entry)
    if (channels->child_pmi < 0 || std::strncmp(*entry, "PMI_FD=", 7) != 0)
      plan.environment.emplace_back(*entry);
  std::vector<RankPlan> plans{std::move(plan)};
  std::vector<Channels> own{*channels};
  PmiListener none;
  auto supervisor = start_supervisor(plans, own, none, inherited, argv);
  if (!supervisor) {
    print_message(supervisor.error().message());
    return kNotStartedCode;
  }
  // The rank alone holds its output: the launcher reads end of file when the rank and its children are gone.
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) ::dup2(null, fd);
  ::close(null);
  supervise(*supervisor, progress);
  if (!kill_descendants(kKillTimeoutSeconds, {})) print_message("some processes cannot be killed");
  if (progress.lost)  // only now: the launcher kills this process at once
    report_failure(progress,
                   {kLostCode, "the supervisor of " + name_of(progress.pid) + " was killed", false});
  if (progress.failure) {
    print_message("cannot start '" + words[0] + "' (" + std::strerror(progress.failure->error) + ")");
    return progress.failure->error == ENOENT ? kNotFoundCode : kNotStartedCode;
  }
  return progress.exit_code;
}

}  // namespace weft::mpiexec
