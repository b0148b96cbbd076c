// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/tool.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "mpiexec/processes.hpp"

namespace weft::mpiexec {

namespace {

/// Milliseconds between two looks at the process while its output is open.
constexpr int kToolPollMs = 5;
constexpr int kToolReadsAtOnce = 32;  // more than a pipe holds; a tool may write without pause
/// A tool may be in a call of the driver that a signal does not end.
constexpr double kToolKillSeconds = 2;
constexpr unsigned kToolKillPauseUs = 2000;

std::vector<char*> tool_pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

[[noreturn]] void exec_tool(const Tool& tool, int input, int output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  sigset_t none;
  sigemptyset(&none);
  for (int signal = 1; signal < SIGRTMIN; ++signal)
    if (signal != SIGKILL && signal != SIGSTOP) ::signal(signal, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::dup2(input, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
      ::dup2(output, STDERR_FILENO) < 0)
    ::_exit(127);
  std::vector<char*> argv = tool_pointers(tool.argv), environment = tool_pointers(tool.environment);
  ::execve(argv[0], argv.data(), environment.data());
  ::_exit(127);
}

/// The running tool. Its end is observed by waitpid(): a daemon that it starts may hold its output open.
class RunningTool {
 public:
  RunningTool(pid_t pid, int output) : pid_(pid), output_(output) {}
  RunningTool(const RunningTool&) = delete;
  RunningTool& operator=(const RunningTool&) = delete;
  ~RunningTool() { ::close(output_); }

  ToolResult wait(double deadline, int stop);

 private:
  /// Appends what has been written; false: end of file.
  bool read();
  ToolResult end(ToolResult::Kind why);

  pid_t pid_;
  int output_;
  std::string text_{};
};

bool RunningTool::read() {
  char buffer[4096];
  for (int i = 0; i < kToolReadsAtOnce; ++i) {
    const ssize_t count = ::read(output_, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 && errno == EAGAIN;
    text_.append(buffer, std::min(static_cast<size_t>(count), kMaxToolOutput - text_.size()));
  }
  return true;
}

ToolResult RunningTool::end(ToolResult::Kind why) {
  ::kill(pid_, SIGKILL);
  for (const double until = now() + kToolKillSeconds; now() < until; ::usleep(kToolKillPauseUs)) {
    const pid_t ended = ::waitpid(pid_, nullptr, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno != EINTR)) break;
  }
  return {why, 0, text_};
}

ToolResult RunningTool::wait(double deadline, int stop) {
  bool open = true;
  while (true) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) return {ToolResult::failed, 0, text_};
    if (open) open = read();
    if (ended == pid_)
      return WIFEXITED(status) ? ToolResult{ToolResult::exited, WEXITSTATUS(status), text_}
                               : ToolResult{ToolResult::failed, 0, text_};
    if (now() >= deadline) return end(ToolResult::expired);
    pollfd events[2] = {{open ? output_ : -1, POLLIN, 0}, {stop, POLLIN, 0}};
    ::poll(events, 2, kToolPollMs);
    if ((events[1].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return end(ToolResult::stopped);
    char byte;
    if ((events[1].revents & POLLIN) != 0 && ::recv(stop, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
      return end(ToolResult::stopped);
  }
}

}  // namespace

ToolResult run_tool(const Tool& tool) {
  int input[2], output[2];
  if (::pipe2(input, O_CLOEXEC) != 0) return {};
  if (::pipe2(output, O_CLOEXEC) != 0) {
    ::close(input[0]);
    ::close(input[1]);
    return {};
  }
  const bool written =
      ::write(input[1], tool.input.data(), tool.input.size()) == static_cast<ssize_t>(tool.input.size()) &&
      ::fcntl(output[0], F_SETFL, O_NONBLOCK) == 0;
  ::close(input[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = written ? ::fork() : -1;
  if (pid == 0) exec_tool(tool, input[0], output[1], parent);
  ::close(input[0]);
  ::close(output[1]);
  if (pid < 0) {
    ::close(output[0]);
    return {};
  }
  return RunningTool(pid, output[0]).wait(now() + tool.timeout, tool.stop);
}

std::string last_line(const std::string& text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string::npos) return {};
  const size_t before = text.find_last_of('\n', last);
  return text.substr(before == std::string::npos ? 0 : before + 1,
                     last - (before == std::string::npos ? 0 : before + 1) + 1);
}

}  // namespace weft::mpiexec
