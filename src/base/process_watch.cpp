// SPDX-License-Identifier: BSD-3-Clause
#include "base/process_watch.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace weft {
namespace {

constexpr long kPidfdOpen = 434;  // the same on all architectures; older C libraries have no name for it

}  // namespace

Result<ProcessWatch> ProcessWatch::open(pid_t process) {
  const auto descriptor = static_cast<int>(::syscall(kPidfdOpen, process, 0));
  if (descriptor < 0 && errno != ESRCH)
    return Error(Errc::unsupported,
                 "process " + std::to_string(process) +
                     " cannot be watched (pidfd_open: " + std::strerror(errno) +
                     "): its death is noticed by the launcher only; run the ranks of a host in "
                     "one PID namespace");
  return ProcessWatch(descriptor);
}

ProcessWatch::~ProcessWatch() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool ProcessWatch::ended() const {
  pollfd wait{descriptor_, POLLIN, 0};
  return descriptor_ < 0 || ::poll(&wait, 1, 0) == 1;
}

}  // namespace weft
