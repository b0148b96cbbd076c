// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/mps_monitor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <set>

#include "base/local_socket.hpp"
#include "base/text_file.hpp"
#include "mpiexec/processes.hpp"
#include "mpiexec/report.hpp"
#include "mpiexec/tool.hpp"

namespace weft::mpiexec {

namespace {

constexpr const char* kMonitorName = "weft-mps";
/// Pause in microseconds between two questions whether the daemon answers.
constexpr unsigned kMpsAskIntervalUs = 20000;
/// Seconds in which the processes of a daemon that has quit must end before they are killed.
constexpr double kMpsGraceSeconds = 0.5;
/// Seconds that mpiexec waits for a report of the monitor beyond the monitor's own limits.
constexpr double kMonitorReserveSeconds = 15;
constexpr size_t kMaxReportBytes = 4096;
/// Attempts to send a report while the kernel has no memory for it.
constexpr int kMaxReportAttempts = 1000;

/// Report of the monitor to mpiexec: this byte, then a text.
enum Report : char {
  kReady = 'r',   ///< the daemon answers
  kFailed = 'f',  ///< it could not be started; the text is the reason
  kNotice = 'n',  ///< the text is for the user, at the end of the job
  kEnded = 'e'    ///< nothing is left
};

/// The process itself. It is the subreaper of the daemon, which forks twice, and of its servers.
class Monitor {
 public:
  Monitor(const MpsDaemonPlan& plan, MpsFolder& folder, int socket)
      : plan_(plan), folder_(folder), socket_(socket) {}
  [[noreturn]] void run();

 private:
  void report(Report kind, const std::string& text = {}) const;
  /// Runs the control program with this command; an empty one starts the daemon. While the daemon starts, the
  /// program is killed when the job is over.
  [[nodiscard]] ToolResult control(const std::string& command, double timeout) const;
  [[nodiscard]] Status start_daemon();
  /// Returns an error if the daemon has ended before it answers.
  [[nodiscard]] Status wait_for_answer(double deadline);
  /// Returns the error of a daemon that did not start.
  [[nodiscard]] Error start_error(const std::string& problem) const;
  [[nodiscard]] Error timeout_error() const;
  /// Returns the last line of the daemon's log, for messages; empty: none.
  [[nodiscard]] std::string log_line() const;
  /// Waits for the end of the job.
  void wait_for_job();
  /// Reaps the processes that have ended. Returns false if no child is left.
  bool reap();
  [[noreturn]] void end();

  const MpsDaemonPlan& plan_;
  MpsFolder& folder_;
  int socket_;
  int sigchld_fd_ = -1;
  std::vector<std::string> environment_{};
  std::set<pid_t> daemons_{};  // processes that belong to the daemon before it has a client
  bool ready_ = false;         // the daemon has answered
  bool lost_ = false;          // it has ended before the job
};

void Monitor::report(Report kind, const std::string& text) const {
  const std::string message = std::string(1, kind) + text.substr(0, kMaxReportBytes - 1);
  for (int attempt = 0; attempt < kMaxReportAttempts; ++attempt) {
    if (::send(socket_, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return;
    if (errno == EPIPE || errno == ECONNRESET) return;  // mpiexec is gone
    ::usleep(kPollRetryIntervalUs);
  }
}

ToolResult Monitor::control(const std::string& command, double timeout) const {
  const bool starts = command.empty();
  std::vector<std::string> argv{plan_.control};
  if (starts) argv.emplace_back("-d");
  return run_tool({argv, environment_, starts ? "" : command + "\n", timeout, ready_ ? -1 : socket_});
}

std::string Monitor::log_line() const {
  const auto text = read_text_file(folder_.log() + "/control.log", Errc::other);
  return text ? last_line(*text) : std::string();
}

Error Monitor::start_error(const std::string& problem) const {
  const std::string line = log_line();
  return Error(Errc::other, "--mps on: the MPS control daemon (" + plan_.control + " -d) " + problem +
                                (line.empty() ? "" : "; its log ends with: " + line));
}

Error Monitor::timeout_error() const {
  char text[64];
  snprintf(text, sizeof text, "does not answer within %g s", plan_.start_timeout);
  return start_error(text);
}

Status Monitor::start_daemon() {
  remove_stale_mps_folders(plan_.parent_folder);
  WEFT_TRY(folder_.create());
  environment_ = plan_.environment;
  environment_.push_back("CUDA_MPS_PIPE_DIRECTORY=" + folder_.pipe());
  environment_.push_back("CUDA_MPS_LOG_DIRECTORY=" + folder_.log());
  const double deadline = now() + plan_.start_timeout;
  const ToolResult started = control("", plan_.start_timeout);
  const std::string line = last_line(started.output);
  if (started.kind == ToolResult::expired) return timeout_error();
  if (!started.success())
    return start_error(started.kind == ToolResult::exited
                           ? "ends with exit code " + std::to_string(started.exit_code) +
                                 (line.empty() ? "" : ": " + line)
                           : "cannot be started");
  WEFT_TRY(wait_for_answer(deadline));
  for (const pid_t pid : descendants(::getpid())) daemons_.insert(pid);
  return {};
}

Status Monitor::wait_for_answer(double deadline) {
  while (true) {
    const double left = deadline - now();
    if (left <= 0) return timeout_error();
    const ToolResult answer = control("get_server_list", left);
    if (answer.success()) return {};
    if (answer.kind == ToolResult::stopped) return start_error("is not needed any more");
    if (!reap()) return start_error("ended at once");
    ::usleep(kMpsAskIntervalUs);
  }
}

bool Monitor::reap() {
  signalfd_siginfo ignored;
  while (::read(sigchld_fd_, &ignored, sizeof ignored) > 0) {
  }
  while (true) {
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid <= 0) return pid == 0;
    if (daemons_.erase(pid) == 0 || lost_) continue;
    lost_ = true;
    const std::string line = log_line();
    report(kNotice, "the MPS control daemon of the job (pid " + std::to_string(pid) +
                        ") ended before the job" + (line.empty() ? "" : "; its log ended with: " + line) +
                        ". Processes that started after that could not use the GPUs through it");
  }
}

void Monitor::wait_for_job() {
  while (true) {
    pollfd events[2] = {{socket_, POLLIN, 0}, {sigchld_fd_, POLLIN, 0}};
    if (::poll(events, 2, -1) < 0 && errno != EINTR) ::usleep(kPollRetryIntervalUs);
    if (events[1].revents != 0) reap();
    if (events[0].revents == 0) continue;
    // mpiexec sends nothing: it shuts its end down, or all processes that have it open have ended. The error
    // is ECONNRESET if they had unread reports.
    char byte;
    const ssize_t count = ::recv(socket_, &byte, 1, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return;
    ::usleep(kPollRetryIntervalUs);
  }
}

void Monitor::end() {
  daemons_.clear();  // it may end now
  if (ready_ && !lost_) {
    (void)control("quit", plan_.quit_timeout);  // if it fails, the daemon is killed below
    for (const double deadline = now() + kMpsGraceSeconds; reap() && now() < deadline;)
      ::usleep(kPollRetryIntervalUs);
  }
  const bool killed = kill_descendants(kKillTimeoutSeconds, {});
  if (!folder_.remove() || !killed)
    report(kNotice, "the MPS daemon of the job has left processes or files behind: see " + folder_.path());
  report(kEnded);
  ::_exit(0);
}

void Monitor::run() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_SETMASK, &child, nullptr);
  sigchld_fd_ = ::signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
  Status started;
  // A monitor that does not adopt the daemon could not end it.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || sigchld_fd_ < 0)
    started = system_call_error("watch the MPS control daemon", errno);
  else
    started = start_daemon();
  ready_ = started.ok();
  report(ready_ ? kReady : kFailed, ready_ ? "" : started.error().message());
  if (ready_) wait_for_job();
  end();
}

/// Keeps only the socket, and 0, 1 and 2 as /dev/null: readers of mpiexec's output do not wait for the
/// monitor.
int keep_descriptor(int socket) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (null < 0 || ::dup2(null, fd) < 0) ::_exit(1);
  if (socket != kStandardDescriptors && ::dup2(socket, kStandardDescriptors) < 0) ::_exit(1);
  ::fcntl(kStandardDescriptors, F_SETFD, FD_CLOEXEC);
  ::syscall(SYS_close_range, kStandardDescriptors + 1, ~0U, 0);
  return kStandardDescriptors;
}

[[noreturn]] void run_monitor(const MpsDaemonPlan& plan, MpsFolder& folder, int socket, pid_t parent,
                              char** argv) {
  ::setsid();  // Ctrl-C and kill -- -GROUP must not reach it
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGPIPE})
    ::signal(signal, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);  // a stopped monitor must notice the end of mpiexec
  if (::getppid() != parent) ::_exit(1);
  (void)!::chdir("/");  // a folder of the user may be unmounted while it runs
  rename_process(argv, kMonitorName);
  Monitor(plan, folder, keep_descriptor(socket)).run();
}

/// Receives a report. Returns false if the monitor has ended, or has sent nothing until the deadline.
bool receive_report(int socket, double deadline, Report& kind, std::string& text) {
  char buffer[kMaxReportBytes];
  while (true) {
    const double left = deadline - now();
    pollfd event{socket, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&event, 1, static_cast<int>(std::ceil(left * 1000))) : 0;
    if (ready == 0) return false;
    const ssize_t count = ready < 0 ? -1 : ::recv(socket, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count == 0 || (ready > 0 && count < 0 && errno == ECONNRESET)) return false;
    if (count < 0) {
      ::usleep(kPollRetryIntervalUs);
      continue;
    }
    kind = static_cast<Report>(buffer[0]);
    text.assign(buffer + 1, static_cast<size_t>(count) - 1);
    return true;
  }
}

}  // namespace

Status MpsMonitor::start(const MpsDaemonPlan& plan, char** argv) {
  // Adopts the daemon if the monitor is killed.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return system_call_error("adopt orphaned processes", errno);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_call_error("open a socket", errno);
  folder_.choose(plan.parent_folder);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(ends[0]);  // close_range() is missing in Linux 5.8 and older: the monitor would be its own peer
    run_monitor(plan, folder_, ends[1], parent, argv);
  }
  const int error = errno;
  ::close(ends[1]);
  socket_ = ends[0];
  stop_timeout_ = plan.quit_timeout + kMonitorReserveSeconds;
  if (pid_ < 0) {
    ::close(socket_);
    socket_ = -1;
    return system_call_error("start a process", error);
  }
  Report kind = kEnded;
  std::string text;
  const double deadline = now() + plan.start_timeout + kMonitorReserveSeconds;
  const bool reported = receive_report(socket_, deadline, kind, text);
  if (reported && kind == kReady && folder_.share()) return {};
  const std::string more = stop();
  if (reported && kind == kFailed) return Error(Errc::other, text);
  if (reported) return Error(Errc::other, "--mps on: cannot lock " + folder_.path());
  return Error(Errc::other, "--mps on: the monitor of the MPS control daemon has ended" +
                                (more.empty() ? "" : ": " + more));
}

std::string MpsMonitor::stop() {
  if (socket_ < 0) return {};
  ::shutdown(socket_, SHUT_WR);
  std::string notices;
  Report kind = kNotice;
  std::string text;
  for (const double deadline = now() + stop_timeout_; kind != kEnded;) {
    if (!receive_report(socket_, deadline, kind, text)) break;
    if (kind == kNotice) notices += (notices.empty() ? "" : "; ") + text;
  }
  ::close(socket_);
  socket_ = -1;
  const bool ended = kind == kEnded;
  if (!ended) ::kill(pid_, SIGKILL);
  int status = 0;
  const pid_t reaped = local_socket::retry_on_eintr([&] { return ::waitpid(pid_, &status, 0); });
  if (ended) return notices;
  // If mpiexec has killed the monitor with all other processes of the job, the end of the daemon is no news.
  if (reaped != pid_) notices.clear();
  // mpiexec, also a subreaper, has adopted the processes of the monitor.
  const bool killed = kill_descendants(kKillTimeoutSeconds, {});
  if (!folder_.remove() || !killed)
    notices += (notices.empty() ? "" : "; ") +
               ("processes or files of the MPS daemon are left: see " + folder_.path());
  else if (reaped == pid_)
    notices += (notices.empty() ? "" : "; ") + std::string("the monitor of the MPS daemon (pid ") +
               std::to_string(pid_) + ") was killed";
  return notices;
}

}  // namespace weft::mpiexec
