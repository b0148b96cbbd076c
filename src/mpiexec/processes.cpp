// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/processes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "launch/environment.hpp"

namespace weft::mpiexec {

namespace {

constexpr unsigned kExitingFlag = 4;  // PF_EXITING, linux/sched.h

struct Stat {
  char state;
  pid_t parent;
  unsigned flags;
};

/// Returns fields of /proc/PID/stat; nothing if the process is gone, or without /proc.
std::optional<Stat> read_stat(const char* pid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%s/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  const ssize_t length = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (length <= 0) return std::nullopt;
  text[length] = '\0';
  // "pid (name) state ppid pgrp session tty tpgid flags ...": the name may contain parentheses.
  const char* end = std::strrchr(text, ')');
  Stat stat{};
  if (end == nullptr ||
      sscanf(end + 1, " %c %d %*d %*d %*d %*d %u", &stat.state, &stat.parent, &stat.flags) != 3)
    return std::nullopt;
  return stat;
}

bool is_running(const Stat& stat) { return stat.state != 'Z' && stat.state != 'X'; }

/// Returns true if a child of this process is in the process group, so that the group id is not reused.
bool has_child_in(pid_t group) {
  siginfo_t info{};
  return ::waitid(P_PGID, static_cast<id_t>(group), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

void send(pid_t target, int signal) {
  ::kill(target, signal);
  if (signal == SIGTERM) ::kill(target, SIGCONT);
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
    const auto stat = read_stat(entry->d_name);
    if (stat && is_running(*stat)) children.emplace(stat->parent, *pid);
  }
  std::vector<pid_t> found{ancestor};
  for (size_t i = 0; i < found.size(); ++i) {
    auto [begin, end] = children.equal_range(found[i]);
    for (auto child = begin; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

bool is_exiting(pid_t pid) {
  const auto stat = read_stat(std::to_string(pid).c_str());
  return stat && (!is_running(*stat) || (stat->flags & kExitingFlag) != 0);
}

bool handles(pid_t pid, int signal) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigCgt:"))
      return (std::strtoull(line.c_str() + sizeof "SigCgt:", nullptr, 16) >> (signal - 1) & 1) != 0;
  return false;
}

void signal_descendants(int signal, const std::vector<pid_t>& groups) {
  if (!read_stat("self")) {
    for (const pid_t group : groups)
      if (has_child_in(group)) send(-group, signal);
    return;
  }
  for (const pid_t pid : descendants(::getpid())) send(pid, signal);
}

bool kill_descendants(double seconds, const std::vector<pid_t>& groups,
                      const std::function<void(pid_t, int)>& on_exit) {
  const double deadline = now() + seconds;
  while (true) {
    signal_descendants(SIGKILL, groups);
    pid_t reaped;
    int status = 0;
    while ((reaped = ::waitpid(-1, &status, WNOHANG)) > 0) on_exit(reaped, status);
    if (reaped < 0 && errno == ECHILD) return true;
    if (now() > deadline) return false;
    ::usleep(2000);
  }
}

void rename_process(char** argv, const char* name) {
  ::prctl(PR_SET_NAME, name);
  char* end = argv[0] + std::strlen(argv[0]);
  for (char** next = argv + 1; *next != nullptr; ++next)
    if (*next == end + 1) end = *next + std::strlen(*next);
  const size_t capacity = static_cast<size_t>(end - argv[0]);
  std::memset(argv[0], 0, capacity);
  std::memcpy(argv[0], name, std::min(capacity, std::strlen(name)));
}

}  // namespace weft::mpiexec
