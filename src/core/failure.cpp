// SPDX-License-Identifier: BSD-3-Clause
#include "core/failure.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/counters.hpp"
#include "base/events.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "core/context_ids.hpp"

namespace weft::core {
namespace {

counters::Counter failures("core.process_failures", counters::Unit::events,
                           "Processes that have ended without leaving the job");

events::Event peer_failed("core.process_failed", "A process is found to have ended without leaving the job",
                          {{"process", events::Type::number}});

constexpr int kEvents = 64;  // ended processes handled by one look

Error death(pid_t pid) {
  return Error(Errc::proc_aborted,
               "pid " + std::to_string(pid) + " on this host has ended without MPI_Finalize");
}

Error departure(pid_t pid) {
  return Error(Errc::proc_aborted, "pid " + std::to_string(pid) + " on this host has left the job by exit()");
}

}  // namespace

FailureDetector::~FailureDetector() {
  if (epoll_ >= 0) ::close(epoll_);
}

Status FailureDetector::watch(ProcessId process, pid_t pid, const std::atomic<uint32_t>& departed) {
  WEFT_ASSERT(!watched_.contains(process));  // E1
  auto watch = ProcessWatch::open(pid);
  if (!watch) return std::move(watch).error();
  if (watch->descriptor() < 0) {
    const uint32_t how = departed.load(std::memory_order_acquire);
    if (how == 0) report_death(process, death(pid));
    if (how == kLeftJob) leaves(process, departure(pid));
    return {};
  }
  if (epoll_ < 0) epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = process;
  if (epoll_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, watch->descriptor(), &event) != 0)
    return Error(Errc::unsupported,
                 "processes cannot be watched (epoll: " + std::string(std::strerror(errno)) +
                     "): their death is noticed by the launcher only");
  watched_.emplace(process, Watched{std::move(*watch), pid, &departed});
  return {};
}

void FailureDetector::unwatch(ProcessId process) {
  watched_.erase(process);  // closing the pidfd also removes it from the epoll set
}

void FailureDetector::report(ProcessId process, const Error& why) {
  if (!failed_.emplace(process, why.message()).second) return;
  const trace::Range range("core.process_failed");
  order_.push_back(process);
  ++changes_;
  failures.add();
  unwatch(process);
  log::write(log::Level::info, "process %u has failed: %s", process, why.message().c_str());
  if (peer_failed.wanted()) [[unlikely]]
    peer_failed.raise({process});
  for (const Observer& observer : observers_) observer(process, why);
}

void FailureDetector::report_later(ProcessId process, const Error& why) {
  ended_.try_emplace(process, why.copy());
  next_look_ = 0;
}

void FailureDetector::leaves(ProcessId process, const Error& why) {
  if (!failed(process)) leaving_.try_emplace(process, Leaving{monotonic_ns() + kLeaveGraceNs, why.copy()});
}

/// Reports the processes whose grace has ended. Returns true if there are any.
bool FailureDetector::report_left(uint64_t now) {
  std::vector<ProcessId> due;
  for (const auto& [process, leaving] : leaving_)
    if (now >= leaving.due_ns) due.push_back(process);
  for (const ProcessId process : due) report(process, leaving_.extract(process).mapped().why);
  return !due.empty();
}

void FailureDetector::forget(ProcessId process) {
  unwatch(process);
  ended_.erase(process);
  leaving_.erase(process);
  failed_.erase(process);
  std::erase(order_, process);
}

bool FailureDetector::look_now(uint64_t now, std::vector<ProcessId>* departed) {
  next_look_ = now + kLookIntervalNs;
  bool any = false;
  for (const auto& [process, why] : std::exchange(ended_, {})) {
    if (watched_.contains(process) || failed(process)) continue;  // its pidfd says so soon, or has said so
    any = true;
    report_death(process, why);
  }
  if (!leaving_.empty()) any |= report_left(now);
  if (watched_.empty()) return any;
  epoll_event events[kEvents];
  const int ended = ::epoll_wait(epoll_, events, kEvents, 0);
  for (int i = 0; i < ended; ++i) {
    const ProcessId process = events[i].data.u32;
    const auto at = watched_.find(process);
    if (at == watched_.end()) continue;
    const uint32_t how = at->second.departed->load(std::memory_order_acquire);
    if (how != 0) {
      if (how == kLeftJob) leaves(process, departure(at->second.pid));
      unwatch(process);
      if (how != kLeftJob && departed != nullptr) departed->push_back(process);
      continue;
    }
    any = true;
    report_death(process, death(at->second.pid));
  }
  return any;
}

void FailureDetector::report_death(ProcessId process, const Error& why) {
  if (first_death_ns_ == 0) first_death_ns_ = monotonic_ns();
  report(process, why);
}

const std::string& FailureDetector::reason_of(ProcessId process) const {
  const auto at = failed_.find(process);
  WEFT_ASSERT(at != failed_.end());  // E3
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

Status FailureDetector::check_now(Communicator& comm) {
  if (revoked(comm)) return revoked_error(comm);
  Status alive = check(comm.needed());
  if (alive.ok() && comm.inter()) alive = check(*comm.remote_group);
  return alive.ok() && comm.part_of != nullptr ? check_now(*comm.part_of) : std::move(alive);
}

bool FailureDetector::revoked(Communicator& comm) {
  if (!comm.revoked && !unknown_revoked_.empty() && unknown_revoked_.erase(comm.id) != 0) revoke(comm);
  return comm.revoked;
}

Error FailureDetector::revoked_error(const Communicator& comm) {
  return Error(Errc::revoked, (comm.name.empty() ? "the communicator" : comm.name) +
                                  " is revoked (MPIX_Comm_revoke): make a new one by MPIX_Comm_shrink");
}

bool FailureDetector::revoke(Communicator& comm) {
  if (std::exchange(comm.revoked, true)) return false;
  const trace::Range range("core.revoke");
  ++changes_;
  log::write(log::Level::info, "communicator %llx is revoked", static_cast<unsigned long long>(comm.id));
  for (const RevokeObserver& observer : revoke_observers_) observer(comm);
  std::vector<Ref<Communicator>> parts;
  Communicator::slab().for_each([&](Communicator& other) {
    if (other.part_of == &comm) parts.push_back(Ref<Communicator>::share(&other));
  });
  for (const auto& part : parts) revoke(*part);
  return true;
}

void FailureDetector::make_part(Communicator& part, Communicator& whole) {
  part.part_of = &whole;
  part.has_handle = false;
  if (revoked(whole)) revoke(part);
}

void FailureDetector::revoke_everywhere(Communicator& comm) {
  if (std::exchange(comm.part_of, nullptr) != nullptr) comm.revoked = false;
  revoke(comm);
}

bool FailureDetector::revoke(ContextId id) {
  Ref<Communicator> known;
  Communicator::slab().for_each([&](Communicator& comm) {
    if (comm.id == id) known = Ref<Communicator>::share(&comm);
  });
  if (known) return revoke(*known);
  if (!remember_context(unknown_revoked_, id)) return false;
  ++changes_;
  return true;
}

std::vector<ProcessId> FailureDetector::failed_in(const Communicator& comm) const {
  std::vector<ProcessId> members;
  for (const ProcessId process : order_)
    if (comm.group->rank_of(process) >= 0 || (comm.inter() && comm.remote_group->rank_of(process) >= 0))
      members.push_back(process);
  return members;
}

}  // namespace weft::core
