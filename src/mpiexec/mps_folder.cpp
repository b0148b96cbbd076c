// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/mps_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "launch/environment.hpp"

namespace weft::mpiexec {

namespace {

constexpr const char* kMpsFolderPrefix = "weft-mps-";
constexpr std::string_view kMpsPrograms = "nvidia-cuda-mps-";
constexpr int kMpsRandomLetters = 6;
constexpr int kMpsKillRounds = 100;  // at most: a daemon may start a server while it is being killed
constexpr unsigned kMpsKillPauseUs = 2000;

std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr)
    names.emplace_back(entry->d_name);
  return names;
}

/// The beginning of the names of this host's folders. The locks of a folder on NFS or Lustre may not be seen
/// by other hosts.
std::string prefix_of_host() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char tag[16];
  std::snprintf(tag, sizeof tag, "%04x-", static_cast<unsigned>(std::hash<std::string>()(boot) & 0xffff));
  return std::string(kMpsFolderPrefix) + tag;
}

bool is_mps_program(const std::string& pid) {
  std::ifstream command("/proc/" + pid + "/cmdline");
  std::string program;
  std::getline(command, program, '\0');
  return std::string_view(program).substr(program.rfind('/') + 1).starts_with(kMpsPrograms);
}

/// The daemon and its servers with this pipe folder. Other processes may have inherited the variable: a batch
/// job that a rank has submitted, a terminal server.
std::vector<pid_t> processes_of_pipe(const std::string& pipe) {
  const std::string variable = "CUDA_MPS_PIPE_DIRECTORY=" + pipe;
  std::vector<pid_t> found;
  for (const std::string& name : entries_of("/proc")) {
    const auto pid = launch::parse_int(name, 1, INT_MAX);
    if (!pid || *pid == ::getpid() || !is_mps_program(name)) continue;
    std::ifstream environment("/proc/" + name + "/environ");
    for (std::string entry; std::getline(environment, entry, '\0');)
      if (entry == variable) found.push_back(*pid);
  }
  return found;
}

/// Returns a descriptor of the locked folder; negative: another process has locked it, or it is gone.
int lock_mps_folder(const std::string& path, int operation) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat by_fd {
  }, by_path{};
  int locked;
  while ((locked = ::flock(fd, operation)) != 0 && errno == EINTR) {
  }
  // A folder may have been removed as stale between its creation and its lock.
  if (locked == 0 && ::fstat(fd, &by_fd) == 0 && ::lstat(path.c_str(), &by_path) == 0 &&
      by_fd.st_ino == by_path.st_ino && by_fd.st_dev == by_path.st_dev && by_fd.st_uid == ::geteuid())
    return fd;
  ::close(fd);
  return -1;
}

Error folder_error(const std::string& folder) {
  return Error(Errc::other, "--mps on: cannot create a folder in " + folder + " (" + std::strerror(errno) +
                                "): set TMPDIR to a local folder that you may write");
}

/// Ends the processes with this pipe folder. Returns false if one is left.
bool kill_processes_of_pipe(const std::string& pipe) {
  for (int round = 0; round < kMpsKillRounds; ++round) {
    const std::vector<pid_t> left = processes_of_pipe(pipe);
    if (left.empty()) return true;
    for (const pid_t pid : left) ::kill(pid, SIGKILL);
    ::usleep(kMpsKillPauseUs);
  }
  return false;
}

}  // namespace

MpsFolder::~MpsFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void MpsFolder::choose(const std::string& parent) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  std::random_device random;
  path_ = parent + "/" + prefix_of_host();
  for (int i = 0; i < kMpsRandomLetters; ++i) path_ += kLetters[random() % kLetters.size()];
}

Status MpsFolder::create() {
  do {
    if (::mkdir(path_.c_str(), S_IRWXU) != 0) {
      Error error = folder_error(path_);
      path_.clear();  // it may be another's
      return error;
    }
    if (share()) break;
    if (::rmdir(path_.c_str()) == 0) return folder_error(path_);
  } while (errno == ENOENT);  // another job has removed the folder as stale before it was locked
  if (lock_ < 0) return folder_error(path_);
  for (const std::string& folder : {pipe(), log()})
    if (::mkdir(folder.c_str(), S_IRWXU) != 0) return folder_error(path_);
  return {};
}

bool MpsFolder::share() {
  lock_ = lock_mps_folder(path_, LOCK_SH);
  return lock_ >= 0;
}

bool MpsFolder::remove() {
  if (path_.empty()) return true;
  bool removed = kill_processes_of_pipe(pipe());
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  return removed && !error;
}

void remove_stale_mps_folders(const std::string& parent) {
  const std::string prefix = prefix_of_host();
  for (const std::string& name : entries_of(parent)) {
    if (!name.starts_with(prefix)) continue;
    const std::string path = parent + "/" + name;
    const int lock = lock_mps_folder(path, LOCK_EX | LOCK_NB);
    if (lock < 0) continue;
    (void)kill_processes_of_pipe(path + "/pipe");
    std::error_code error;
    std::filesystem::remove_all(path, error);
    ::close(lock);
  }
}

}  // namespace weft::mpiexec
