// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "launch/environment.hpp"

namespace weft::mpiexec {

namespace {

/// Returns the parent of a process; 0 if the process has exited or is a zombie.
pid_t running_parent(const char* pid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%s/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (length <= 0) return 0;
  text[length] = '\0';
  // "pid (name) state ppid ...": the name may contain parentheses.
  const char* end = std::strrchr(text, ')');
  char state = 0;
  int parent = 0;
  if (end == nullptr || sscanf(end + 1, " %c %d", &state, &parent) != 2) return 0;
  return state == 'Z' || state == 'X' ? 0 : parent;
}

}  // namespace

double now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::vector<pid_t> descendants(pid_t ancestor) {
  std::unordered_multimap<pid_t, pid_t> children;
  std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr) {
    auto pid = launch::parse_int(entry->d_name, 1, INT_MAX);
    if (!pid) continue;
    if (pid_t parent = running_parent(entry->d_name)) children.emplace(parent, *pid);
  }
  std::vector<pid_t> found{ancestor};
  for (size_t i = 0; i < found.size(); ++i) {
    auto [begin, end] = children.equal_range(found[i]);
    for (auto child = begin; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

void signal_descendants(int signal, pid_t excluded) {
  for (pid_t pid : descendants(::getpid())) {
    if (pid == excluded) continue;
    ::kill(pid, signal);
    if (signal == SIGTERM) ::kill(pid, SIGCONT);
  }
}

std::vector<pid_t> kill_descendants(double seconds) {
  const double deadline = now() + seconds;
  while (true) {
    signal_descendants(SIGKILL);
    pid_t reaped;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return {};
    if (now() > deadline) return descendants(::getpid());
    ::usleep(2000);
  }
}

}  // namespace weft::mpiexec
