// SPDX-License-Identifier: BSD-3-Clause
#include "transport/ofi/process_watch.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "transport/ofi/connection.hpp"

namespace weft::transport::ofi {

std::unique_ptr<ProcessWatch> ProcessWatch::open(pid_t process) {
  const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0 && errno != ESRCH) return nullptr;
  return std::unique_ptr<ProcessWatch>(new ProcessWatch(descriptor));
}

ProcessWatch::~ProcessWatch() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool ProcessWatch::dead() const {
  pollfd wait{descriptor_, POLLIN, 0};
  return descriptor_ < 0 || ::poll(&wait, 1, 0) == 1;
}

uint64_t own_machine() { return boot_and_namespace_id("/proc/self/ns/pid"); }

}  // namespace weft::transport::ofi
