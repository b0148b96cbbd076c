// SPDX-License-Identifier: BSD-3-Clause
#include "core/failure.hpp"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/counters.hpp"
#include "base/log.hpp"

namespace weft::core {
namespace {

counters::Counter failures("core.process_failures", counters::Unit::events,
                           "Processes that have ended without leaving the job");

constexpr long kPidfdOpen = 434;  // the same on all architectures; older C libraries have no name for it
constexpr int kEvents = 64;       // ended processes handled by one look

Error refused(const char* call, pid_t pid) {
  return Error(Errc::unsupported,
               "process " + std::to_string(pid) + " cannot be watched (" + call + ": " +
                   std::strerror(errno) +
                   "): its death is noticed by the launcher only; run the ranks of a host in "
                   "one PID namespace");
}

}  // namespace

FailureDetector::~FailureDetector() {
  for (const auto& [process, watched] : watched_) ::close(watched.pidfd);
  if (epoll_ >= 0) ::close(epoll_);
}

Status FailureDetector::watch(ProcessId process, pid_t pid, const std::atomic<uint32_t>& departed) {
  WEFT_ASSERT(!watched_.contains(process));
  if (epoll_ < 0) epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return refused("epoll_create1", pid);
  const int pidfd = static_cast<int>(::syscall(kPidfdOpen, pid, 0));
  if (pidfd < 0 && errno == ESRCH) {
    if (departed.load(std::memory_order_acquire) == 0) report_death(process, pid);
    return {};
  }
  if (pidfd < 0) return refused("pidfd_open", pid);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = process;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, pidfd, &event) != 0) {
    ::close(pidfd);
    return refused("epoll_ctl", pid);
  }
  watched_.emplace(process, Watched{pidfd, pid, &departed});
  return {};
}

void FailureDetector::unwatch(ProcessId process) {
  const auto at = watched_.find(process);
  if (at == watched_.end()) return;
  ::close(at->second.pidfd);  // this also removes it from the epoll set
  watched_.erase(at);
}

void FailureDetector::report(ProcessId process, const Error& why) {
  if (!failed_.emplace(process, why.message()).second) return;
  failures.add();
  unwatch(process);
  log::write(log::Level::info, "process %u has failed: %s", process, why.message().c_str());
  for (const Observer& observer : observers_) observer(process, why);
}

void FailureDetector::forget(ProcessId process) {
  unwatch(process);
  forgotten_ += failed_.erase(process);
}

bool FailureDetector::look_now(uint64_t now) {
  next_look_ = now + kLookIntervalNs;
  if (watched_.empty()) return false;
  epoll_event events[kEvents];
  const int ended = ::epoll_wait(epoll_, events, kEvents, 0);
  bool any = false;
  for (int i = 0; i < ended; ++i) {
    const ProcessId process = events[i].data.u32;
    const auto at = watched_.find(process);
    if (at == watched_.end()) continue;
    const Watched watched = at->second;
    if (watched.departed->load(std::memory_order_acquire) != 0) {
      unwatch(process);
      continue;
    }
    any = true;
    report_death(process, watched.pid);
  }
  return any;
}

void FailureDetector::report_death(ProcessId process, pid_t pid) {
  if (first_death_ns_ == 0) first_death_ns_ = monotonic_ns();
  report(process, Error(Errc::proc_aborted,
                        "pid " + std::to_string(pid) + " on this host has ended without MPI_Finalize"));
}

const std::string& FailureDetector::reason_of(ProcessId process) const {
  const auto at = failed_.find(process);
  WEFT_ASSERT(at != failed_.end());
  return at->second;
}

Error FailureDetector::error_of(ProcessId process) const {
  return Error(Errc::proc_aborted, "process " + std::to_string(process) + " has failed (" +
                                       reason_of(process) + "): look for its own last messages");
}

std::optional<ProcessId> FailureDetector::first_failed(const Group& group) const {
  for (const auto& [process, why] : failed_)
    if (group.rank_of(process) >= 0) return process;
  return std::nullopt;
}

Status FailureDetector::check(const Group& group) const {
  if (!any_failed()) [[likely]]
    return {};
  const auto process = first_failed(group);
  return process ? Status(error_of(*process)) : Status();
}

}  // namespace weft::core
