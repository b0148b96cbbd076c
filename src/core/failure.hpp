// SPDX-License-Identifier: BSD-3-Clause
// Failure detector: learns that a process has died and tells the layers that wait for it. Processes of this
// host are watched by pidfd; networks and the launcher report the others. Threading: under the instance lock.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/process_watch.hpp"
#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/group.hpp"

namespace weft::core {

class FailureDetector {
 public:
  /// Called once for each process that has failed, after failed() returns true; outside of any delivery.
  using Observer = std::function<void(ProcessId, const Error& why)>;
  /// Called once for each communicator that is revoked, after its `revoked` is set; maybe inside of a
  /// delivery.
  using RevokeObserver = std::function<void(Communicator&)>;

  static constexpr uint32_t kLeftJob = 2;

  FailureDetector() = default;
  FailureDetector(const FailureDetector&) = delete;
  FailureDetector& operator=(const FailureDetector&) = delete;
  ~FailureDetector();

  /// Watches a process of this host; reports it at once if it has ended already. `departed`: a word that the
  /// process sets before it ends regularly, to kLeftJob if it leaves the job, and to another value than 0 if
  /// it needs and owes nothing more; it outlives the detector. Errc::unsupported if the kernel or the
  /// container has no pidfd for it.
  [[nodiscard]] Status watch(ProcessId process, pid_t pid, const std::atomic<uint32_t>& departed);
  void unwatch(ProcessId process);
  /// A network or the launcher says that a process cannot be reached any more. Later reports of it have no
  /// effect.
  void report(ProcessId process, const Error& why);

  /// A process has left the job, or may have: it is reported kLeaveGraceNs later, by look(). So operations
  /// that it has completed, such as the last barrier, complete here, too, although other processes are
  /// slower.
  void leaves(ProcessId process, const Error& why);

  /// A process of this host was found to have ended, during a delivery, where observers must not be called:
  /// looks at the next opportunity, and reports the process then if it is not watched.
  void report_later(ProcessId process, const Error& why);

  /// Forgets a process of another job that is no longer known: its index may be used again.
  void forget(ProcessId process);

  void add(Observer observer) { observers_.push_back(std::move(observer)); }
  void on_revoked(RevokeObserver observer) { revoke_observers_.push_back(std::move(observer)); }

  /// Revokes a communicator and its parts. Returns false if it was revoked before.
  bool revoke(Communicator& comm);
  /// The same by context id; the communicator may still be under construction here, or freed.
  bool revoke(ContextId id);

  /// The id of a communicator has become known here: revokes it if that was learnt before.
  void known(Communicator& comm) {
    if (!unknown_revoked_.empty()) [[unlikely]]
      (void)revoked(comm);
  }

  /// Makes `part` a communicator for steps of operations on `whole`, with which it is revoked: at once if
  /// `whole` has been revoked already, or before it was known here.
  void make_part(Communicator& part, Communicator& whole);
  /// Revokes a communicator on all ranks. A part, which may have been revoked here with its whole while other
  /// ranks have completed the operation, is none any more.
  void revoke_everywhere(Communicator& comm);

  /// Returns whether look() would look.
  [[nodiscard]] bool due(uint64_t now) const { return now >= next_look_; }
  /// Looks for ended processes if the last look is kLookIntervalNs old. Returns true if one has failed.
  /// `now`: ns of monotonic_ns().
  bool look(uint64_t now) {
    if (now < next_look_) [[likely]]
      return false;
    return look_now(now);
  }
  /// The same whenever the last look was. Adds watched processes that have ended after they had left MPI to
  /// `departed`, if given.
  bool look_now(uint64_t now, std::vector<ProcessId>* departed = nullptr);
  /// Time between two looks, in ns. Together with the interval at which a waiting rank calls look(), it
  /// bounds the time until a failure is noticed.
  static constexpr uint64_t kLookIntervalNs = 10'000'000;
  static constexpr uint64_t kLeaveGraceNs = 500'000'000;

  [[nodiscard]] bool any_failed() const { return !failed_.empty(); }
  /// Number of failed processes and of revocations so far; grows only.
  [[nodiscard]] size_t changes() const { return changes_; }
  /// When the first ended process of this host was noticed, in ns of monotonic_ns(); 0: none has ended. Any
  /// thread may call it.
  [[nodiscard]] uint64_t first_death_ns() const { return first_death_ns_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool failed(ProcessId process) const { return any_failed() && failed_.contains(process); }
  /// A process of the group that has failed.
  [[nodiscard]] std::optional<ProcessId> first_failed(const Group& group) const;
  /// Errc::proc_aborted, with the reason, if a process of the group has failed.
  [[nodiscard]] Status check(const Group& group) const;
  /// Errc::revoked, or Errc::proc_aborted if a process of either group has failed.
  [[nodiscard]] Status check(Communicator& comm) {
    if (changes_ == 0) [[likely]]
      return {};
    return check_now(comm);
  }
  /// Returns whether the communicator, is revoked: maybe before it was known here.
  [[nodiscard]] bool revoked(Communicator& comm);
  [[nodiscard]] static Error revoked_error(const Communicator& comm);
  /// The failed processes of both groups, in the order of their detection: a later result begins with an
  /// earlier one.
  [[nodiscard]] std::vector<ProcessId> failed_in(const Communicator& comm) const;
  [[nodiscard]] Error error_of(ProcessId process) const;
  /// Why the process has failed. Precondition: failed(process).
  [[nodiscard]] const std::string& reason_of(ProcessId process) const;

 private:
  struct Watched {
    ProcessWatch watch;
    pid_t pid;
    const std::atomic<uint32_t>* departed;
  };
  struct Leaving {
    uint64_t due_ns;  // of monotonic_ns()
    Error why;
  };
  void report_death(ProcessId process, const Error& why);
  bool report_left(uint64_t now);
  [[nodiscard]] Status check_now(Communicator& comm);

  int epoll_ = -1;
  uint64_t next_look_ = 0;
  std::atomic<uint64_t> first_death_ns_{0};
  std::unordered_map<ProcessId, Watched> watched_;
  std::unordered_map<ProcessId, std::string> failed_;  // with the reason
  std::unordered_map<ProcessId, Error> ended_;         // of report_later()
  std::unordered_map<ProcessId, Leaving> leaving_;     // of leaves()
  std::vector<ProcessId> order_;                       // failed processes by time of detection
  std::unordered_set<ContextId> unknown_revoked_;      // revoked before the communicator is known here
  size_t changes_ = 0;
  std::vector<Observer> observers_;
  std::vector<RevokeObserver> revoke_observers_;
};

}  // namespace weft::core
