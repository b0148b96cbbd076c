// SPDX-License-Identifier: BSD-3-Clause
#include "core/instance.hpp"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/futex.hpp"
#include "base/log.hpp"
#include "base/relax_core.hpp"
#include "base/scope.hpp"
#include "base/stream_wait.hpp"
#include "core/memory_registry.hpp"
#include "core/progress_thread.hpp"
#include "core/remote_memory.hpp"
#include "device/memory.hpp"
#include "transport/shm/shm.hpp"

namespace weft::core {
namespace {

/// The rank of StreamWait::waits().
int awaited_rank(const WaitTarget& target) {
  using wait_table::What;
  if (target.request == nullptr && target.operands == nullptr) return StreamWait::kNoMessage;
  const Operands operands = target.request != nullptr ? target.request->operands() : *target.operands;
  if (operands.what != What::send && operands.what != What::receive && operands.what != What::probe)
    return StreamWait::kNoMessage;
  return operands.rank < 0 ? StreamWait::kAnyRank : operands.rank;
}

const config::Adjustable adjustable{"progress.spin"};
config::Size spin{
    "progress.spin",
    2000,
    0,
    1 << 30,
    "Number of idle polling rounds before a waiting rank yields its core; with more ranks awake than cores "
    "always 4. Larger values lower the latency of long waits, smaller ones leave the core to other "
    "processes.",
    "waiting ranks share their cores with other work (smaller) or have the cores to themselves "
    "(larger)"};

constexpr long kMaxSleepNs = 1'000'000;  // some events cause no wake-up, such as capacity in a full queue
constexpr long kPollSleepNs = 20'000;    // events that cause no wake-up: messages of other hosts, GPU copies
// If ranks outnumber cores, the peer rarely runs at this moment, and a yield that runs nobody takes as long
// as ten rounds, after which the rank looks again.
constexpr unsigned kRoundsBeforeYield = 4;
constexpr uint64_t kSwitchNs = 1'000;       // a yield that runs no other process takes less
constexpr uint64_t kLongYieldNs = 200'000;  // a longer yield means that other processes keep the core
constexpr unsigned kMaxIdleYields = 8, kMaxYields = 64;
constexpr uint32_t kTightPollsBeforeSleep = 16;  // of a program that does nothing but poll
constexpr uint64_t kTightPollNs = 2'000;         // longer between two polls: the program computes
constexpr int kMaxLockTries = 64;
constexpr unsigned kArmedRounds = 1u << 31;  // more rounds: the wake-up is armed
constexpr unsigned kTimedOut = 1u << 30;  // added after a sleep that nobody ended, until something progresses
// A wait whose sleep has timed out sleeps longer, and without yields in between, so that many waiting ranks
// leave the cores to others: for a part of its age, by which it may end late, and so long that all ranks of a
// machine together wake up once in kWakeUpIntervalNs; where events come without a wake-up, once in
// kPollIntervalNs. A wake-up takes about 25 us.
constexpr uint64_t kAgePerSleep = 32;
constexpr uint64_t kWakeUpIntervalNs = 500'000;
constexpr uint64_t kPollIntervalNs = 200'000;
constexpr uint64_t kLongestSleepNs = 100'000'000;
constexpr uint64_t kStepsPerSleep = 10;  // where events come without a wake-up
static_assert(kLongestSleepNs < wait_table::kObsoleteNs / 2);
constexpr unsigned kTimedRounds = 64;  // idle rounds of a wait between two readings of the clock
// Calls of progress() per reading of the clock, which takes 25 ns. Idle rounds of a long wait read it anyway.
constexpr uint32_t kRoundsPerLook = 64;
constexpr uint64_t kReservedDescriptors = 32;  // left to the program when ranks are watched

log::SlowPath unwatched("core.unwatched_processes",
                        "the death of a process of this host is noticed by the launcher only");

/// Returns false if ranks that do not sleep outnumber the cores of this host.
inline bool has_core(const Instance& instance) {
  return !instance.oversubscribed ||
         (instance.notified_when_idle && instance.shm != nullptr && !instance.shm->crowded());
}

bool sleep_timed_out(unsigned rounds) { return (rounds & kTimedOut) != 0; }

/// Returns the longest sleep of a wait in ns. `least`: of its first sleeps.
long sleep_limit(const Instance& instance, const Instance::Wait& wait, long least) {
  if (!sleep_timed_out(wait.idle_rounds)) return least;
  const auto members = instance.shm != nullptr ? static_cast<int>(instance.shm->members().size()) : 1;
  const auto ranks = static_cast<uint64_t>(std::max(members, instance.exchange->job().machine_size));
  const auto together = [ranks](uint64_t interval, uint64_t shortest) {
    return std::clamp(ranks * interval, shortest, kLongestSleepNs);
  };
  // Steps of a transfer that end without a wake-up, of GPUs and networks, must not each wait for long.
  const uint64_t most = least < kMaxSleepNs
                            ? together(kPollIntervalNs, kStepsPerSleep * static_cast<uint64_t>(least))
                            : together(kWakeUpIntervalNs, kMaxSleepNs);
  const uint64_t age = monotonic_ns() - wait.since_ns;
  return static_cast<long>(std::clamp(age / kAgePerSleep, static_cast<uint64_t>(least), most));
}

}  // namespace

Instance::Instance(std::unique_ptr<launch::Exchange> start)
    : exchange(std::move(start)),
      processes(JobId::of(exchange->job().id), static_cast<uint32_t>(exchange->job().size)),
      self(processes.intern(kOwnJob, static_cast<uint32_t>(exchange->job().rank))),
      size(processes.job_size(kOwnJob)),
      host(host_of(self)),
      memory(std::make_unique<MemoryRegistry>(*this)) {
  WEFT_ASSERT(self < size);  // N5
}

Instance::~Instance() {
  progress_thread.reset();
  // Both may be in pollers_.
  remote_memory_.reset();
  memory.reset();
}

RemoteMemory& Instance::remote_memory() {
  if (remote_memory_ == nullptr) remote_memory_ = std::make_unique<RemoteMemory>(*this);
  return *remote_memory_;
}

/// Sets `polling_` during progress(). Records an exception (std::bad_alloc).
struct Instance::PollScope {
  explicit PollScope(Instance& owner) : instance(owner) { instance.polling_ = true; }
  ~PollScope() {
    instance.polling_ = false;
    if (!finished) instance.progress_interrupted_ = true;
  }
  PollScope(const PollScope&) = delete;
  PollScope& operator=(const PollScope&) = delete;
  Instance& instance;
  bool finished = false;
};

bool Instance::progress() {
  if (polling_) return false;
  bool progressed = false;
  {
    PollScope scope(*this);
    for (size_t i = 0; i < pollers_.size(); ++i)
      if (pollers_[i] != nullptr) progressed |= pollers_[i]->poll();
    if (removed_) {
      pollers_.erase(std::remove(pollers_.begin(), pollers_.end(), nullptr), pollers_.end());
      removed_ = false;
    }
    scope.finished = true;
  }
  if (++rounds_ % kRoundsPerLook == 0) [[unlikely]]
    progressed |= look_for_failures(monotonic_ns());
  progressed_ |= progressed;
  return progressed;
}

// The first look only notes the time: start-up and short programs pay nothing.
bool Instance::look_for_failures(uint64_t now) {
  gpu_use.look(*this);
  if (shm == nullptr) return failures.look(now);
  if (!watching_) [[unlikely]] {
    if (watch_from_ns_ == 0) watch_from_ns_ = now + FailureDetector::kLookIntervalNs;
    if (now < watch_from_ns_) return false;
    watch_local_processes();
  }
  const uint32_t deaths = shm->deaths().load(std::memory_order_relaxed);
  const bool told = deaths != deaths_;
  // Ranks that sleep look after each sleep.
  const uint64_t early = oversubscribed ? FailureDetector::kLookIntervalNs - kMaxSleepNs : 0;
  if (!told && !failures.due(now + early)) [[likely]]
    return false;
  deaths_ = deaths;
  std::vector<ProcessId> departed;
  bool failed = failures.look_now(now, &departed);
  for (const ProcessId process : departed) failed |= report_departed(process);
  // The others would notice it up to kLookIntervalNs later, and agreements wait for them.
  if (failed && !told) {
    deaths_ = shm->deaths().fetch_add(1, std::memory_order_relaxed) + 1;
    for (const ProcessId process : shm->members())
      if (process != self) shm->notify(process);
  }
  return shm->skip_dead_tickets([this](ProcessId rank) { return failures.failed(rank); }) != 0 || failed;
}

/// A process of another job that has left MPI and ended answers nobody who still has a communicator with it.
/// Returns true if it counts as failed. Ranks of this job end together: MPI_Finalize is collective.
bool Instance::report_departed(ProcessId process) {
  if (processes.in_own_job(process) || processes.references(process) <= 1) return false;
  failures.report(process, Error(Errc::proc_aborted, "it has left MPI without MPI_Comm_disconnect"));
  return true;
}

void Instance::watch_local_processes() {
  watching_ = true;
  const auto members = shm->members();
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) == 0 &&
      descriptors.rlim_cur < members.size() + kReservedDescriptors)
    return unwatched.hit(std::to_string(members.size()) + " ranks of this host need a descriptor each, and " +
                         std::to_string(descriptors.rlim_cur) + " are allowed: raise ulimit -n");
  for (const ProcessId process : members)
    if (process != self) watch(process);
}

void Instance::watch(ProcessId process) {
  const auto pid = shm->pid_of(process);
  const Status watched = pid ? failures.watch(process, *pid, shm->departed(process)) : pid.error().copy();
  if (!watched.ok()) unwatched.hit(watched.error().message());
}

void Instance::idle(Wait& wait) {
  unsigned& rounds = wait.idle_rounds;
  ++rounds;
  // A pause takes about 25 ns, a considerable part of a small message's latency, so it is issued only once in
  // kTimedRounds, for the sibling hardware thread. So is the clock, which times waits of some us: its reading
  // takes as long, so the end of such a wait is its last timed round.
  if (rounds < spin && !threaded && has_core(*this)) [[likely]] {
    if (rounds % kTimedRounds == 0) {
      wait.seen_ns = monotonic_ns();
      if (wait.since_ns == 0) wait.since_ns = wait.seen_ns;
      relax_core();
    }
    return;
  }
  const bool locked = threaded;  // MPI_Session_init may set it meanwhile
  if (locked && !wait.counted) {
    wait.counted = true;
    ++waiting_threads_;
  }
  const bool crowded = oversubscribed || waiting_threads_ > cores;
  const unsigned first = oversubscribed ? kRoundsBeforeYield : crowded ? 1 : static_cast<unsigned>(spin);
  if (rounds > first && rounds != 1) publish_wait(wait);
  if (rounds > kArmedRounds) {
    // The same wait continues.
    if (!locked) {
      rounds = sleep(sleep_limit(*this, wait, longest_sleep())) ? 1 : kTimedOut + 1;
      return;
    }
    sleep_as_thread(wait);
    waits.restore(wait.call);
    return;
  }
  if (locked && crowded && wait.awaited != nullptr) {
    if (leader_ != nullptr && leader_ != &wait) {
      follow(wait);
      waits.restore(wait.call);
      return;
    }
    leader_ = &wait;
  }
  if (locked) release();
  if (rounds >= first)
    leave_core(rounds);
  else
    relax_core();
  if (!locked) return;
  relock(rounds >= first);
  waits.restore(wait.call);
}

/// Takes the lock for a thread that waits. A thread that sleeps for the lock costs the thread that polls a
/// system call per round, so the thread tries for a while first.
void Instance::relock(bool yield) {
  for (int tries = 0; tries < kMaxLockTries; ++tries) {
    if (lock.try_lock()) return;
    if (yield)
      ::sched_yield();
    else
      relax_core();
  }
  lock.lock();
}

void Instance::publish_wait(Wait& wait) {
  const uint64_t now = monotonic_ns();
  if (wait.since_ns == 0) wait.since_ns = now;
  wait.seen_ns = 0;
  look_for_failures(now);
  if (now - wait.since_ns < wait_table::kPublishNs) return;
  waits.publish(wait.record, wait.call, wait.target, wait.since_ns, now);
  if (StreamWait* const stream = StreamWait::current(); stream != nullptr)
    stream->waits(awaited_rank(wait.target), now);
  if (shm != nullptr) waits.observe(*shm, now);
}

/// Yields the core. If ranks outnumber cores, arms the wake-up when yielding does not run other ranks (they
/// are in other scheduling groups, or other processes compute) or has done so for long: the next round
/// sleeps.
void Instance::leave_core(unsigned& rounds) const {
  if (!oversubscribed) return static_cast<void>(::sched_yield());
  if (sleep_timed_out(rounds)) {
    arm();
    rounds = kArmedRounds + kTimedOut;
    return;
  }
  const uint64_t before = monotonic_ns();
  ::sched_yield();
  const uint64_t time = monotonic_ns() - before;
  if (time >= kSwitchNs && time < kLongYieldNs && rounds < kRoundsBeforeYield + kMaxYields) return;
  if (time < kSwitchNs && rounds < kRoundsBeforeYield + kMaxIdleYields) return;
  arm();  // the caller looks once more
  rounds = kArmedRounds;
}

long Instance::longest_sleep() const {
  return notified_when_idle && !device::available() ? kMaxSleepNs : kPollSleepNs;
}

void Instance::arm() const {
  if (shm != nullptr) shm->arm();
}

bool Instance::sleep(long limit) const {
  if (shm != nullptr) return shm->sleep(limit);
  const timespec time{0, limit};
  ::nanosleep(&time, nullptr);
  return false;
}

/// One thread sleeps on the rank's wake-up; when woken it polls for all threads and wakes the followers.
void Instance::sleep_as_thread(Wait& wait) {
  if (asleep_) {
    wait.idle_rounds = 1;
    return follow(wait);
  }
  const long limit = sleep_limit(*this, wait, longest_sleep());
  asleep_ = true;
  release();
  const bool notified = sleep(limit);
  lock.lock();
  asleep_ = false;
  wait.idle_rounds = notified ? 1 : kTimedOut + 1;
  progressed_ |= notified;
}

/// Sleeps until another thread completes the awaited request or leaves the lead.
void Instance::follow(Wait& wait) {
  Wait** end = &followers_;
  while (*end != nullptr) end = &(*end)->next;
  *end = &wait;
  wait.next = nullptr;
  wait.signal.store(0, std::memory_order_relaxed);
  release();
  futex_wait(wait.signal, 0, kMaxSleepNs);
  relock(true);
  if (wait.signal.load(std::memory_order_relaxed) != 0) return;
  for (Wait** link = &followers_; *link != nullptr; link = &(*link)->next) {
    if (*link != &wait) continue;
    *link = wait.next;
    break;
  }
}

/// Wakes the followers whose waits may have ended. Without a leader the oldest follower becomes the leader.
void Instance::wake_waiting() {
  const uint64_t finished = Request::finished();
  const bool completed = finished != finished_at_wake_, progressed = progressed_;
  bool lead = leader_ == nullptr && !asleep_;
  finished_at_wake_ = finished;
  progressed_ = false;
  if (asleep_ && completed && shm != nullptr) shm->notify_self();
  if (!completed && !progressed && !lead) return;
  for (Wait** link = &followers_; *link != nullptr;) {
    Wait& follower = **link;
    const bool ended = follower.awaited != nullptr ? follower.awaited->complete() : completed || progressed;
    if (!ended && !lead) {
      link = &follower.next;
      continue;
    }
    if (!ended && follower.awaited != nullptr) leader_ = &follower;
    lead = lead && ended;
    *link = follower.next;
    follower.signal.store(1, std::memory_order_relaxed);  // its thread goes on when the lock is released
    futex_wake(follower.signal);
  }
}

void Instance::poll_once(const WaitTarget& target) {
  if (progress()) {
    tight_polls_ = 0;
    return;
  }
  if (waits.count_poll()) [[unlikely]]
    waits.publish_poll(target, monotonic_ns());
  if (!has_core(*this)) leave_core_after_poll();
}

void Instance::leave_core_after_poll() {
  const bool tight = monotonic_ns() - polled_ns_ < kTightPollNs;
  tight_polls_ = tight ? tight_polls_ + 1 : 0;
  if (tight_polls_ >= kTightPollsBeforeSleep) {
    arm();
    if (!progress()) {
      const Unlocked guard(*this);
      sleep(kPollSleepNs);
    }
  } else if (!tight) {
    const Unlocked guard(*this);
    ::sched_yield();
  }
  polled_ns_ = monotonic_ns();
  look_for_failures(polled_ns_);  // kRoundsPerLook rounds with a sleep each may take a second
}

void Instance::wake_progress_thread() { progress_thread->wake_if_busy(); }

bool Instance::nothing_in_flight() const {
  return std::all_of(pollers_.begin(), pollers_.end(),
                     [](const Poller* poller) { return poller == nullptr || poller->idle(); });
}

void Instance::add(Poller& poller) { pollers_.push_back(&poller); }

void Instance::remove(Poller& poller) {
  const auto found = std::find(pollers_.begin(), pollers_.end(), &poller);
  if (found == pollers_.end()) return;
  if (polling_) {
    *found = nullptr;  // progress() is iterating over the list
    removed_ = true;
  } else {
    pollers_.erase(found);
  }
}

ContextId Instance::new_contexts(uint32_t n) {
  WEFT_ASSERT(next_context_ + n > next_context_);  // N7: the counter has not wrapped
  const ContextId creator = processes.first_creator(kOwnJob) + self;
  const ContextId first = creator << kCreatorShift | (static_cast<ContextId>(next_context_) * kContextStep);
  next_context_ += n;
  return first;
}

}  // namespace weft::core
