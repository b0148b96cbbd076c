// SPDX-License-Identifier: BSD-3-Clause
#include "launch/singleton/server.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/config.hpp"
#include "base/local_socket.hpp"
#include "launch/pmi/address.hpp"
#include "launch/pmi/client.hpp"

namespace weft::launch::singleton {
namespace {

config::Path mpiexec_path{
    "launch.mpiexec", "",
    "Path of the mpiexec that a process without a launcher starts for MPI_Comm_spawn or "
    "MPI_Publish_name. Empty: the one of this installation."};

/// The mpiexec beside the library: prefix/lib -> prefix/bin/mpiexec.
std::string find_mpiexec() {
  if (!mpiexec_path.value().empty()) return mpiexec_path.value();
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&find_mpiexec), &info) == 0 || info.dli_fname == nullptr) return {};
  char* const real = ::realpath(info.dli_fname, nullptr);
  if (real == nullptr) return {};
  std::string folder(real);
  std::free(real);
  for (int level = 0; level < 2; ++level) folder.erase(std::min(folder.rfind('/'), folder.size()));
  return folder + "/bin/mpiexec";
}

Error failed(const std::string& what, int error) {
  return Error(Errc::spawn,
               "a process that was started without mpiexec needs one to start further processes, "
               "and cannot " +
                   what + " (" + std::strerror(error) +
                   "): set WEFT_LAUNCH_MPIEXEC, or start the program with mpiexec -n 1");
}

/// Runs `mpiexec --serve FD`, whose first process only starts the server and ends, so that the program never
/// sees a child process.
int run(const std::string& path, int server_end, int fd) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, server_end, fd);
  std::string program = path, option = "--serve", number = std::to_string(fd);
  char* const argv[] = {program.data(), option.data(), number.data(), nullptr};
  pid_t pid = -1;
  int error = ::posix_spawn(&pid, path.c_str(), &actions, nullptr, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return error;
  int status = 0;
  const pid_t ended = local_socket::retry_on_eintr([&] { return ::waitpid(pid, &status, 0); });
  return ended == pid && status != 0 ? ECHILD : 0;
}

}  // namespace

Result<std::unique_ptr<Exchange>> start_server() {
  const std::string path = find_mpiexec();
  if (path.empty() || ::access(path.c_str(), X_OK) != 0) return failed("find it at '" + path + "'", errno);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return failed("open a socket", errno);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int fd = pmi::descriptor_below(limit.rlim_cur);  // as WEFT_LAUNCH_MPIEXEC may name a script
  // dup2 to the same number would leave the descriptor close-on-exec.
  const int server_end = ends[1] == fd ? ::fcntl(ends[1], F_DUPFD_CLOEXEC, fd + 1) : ends[1];
  const int error = run(path, server_end, fd);
  ::close(server_end);
  if (server_end != ends[1]) ::close(ends[1]);
  if (error == 0) return pmi::connect_to_server(ends[0]);
  ::close(ends[0]);
  return failed("start '" + path + "'", error);
}

}  // namespace weft::launch::singleton
