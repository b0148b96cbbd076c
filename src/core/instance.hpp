// SPDX-License-Identifier: BSD-3-Clause
// Instance: owns all state of the library in this process; api/ holds the only global pointer to it.
// Threading: one lock, taken by api/ only with MPI_THREAD_MULTIPLE. It is released around user callbacks and
// between rounds of waiting.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/failure.hpp"
#include "core/gpu_use.hpp"
#include "core/instance_lock.hpp"
#include "core/process_table.hpp"
#include "core/recent_handles.hpp"
#include "core/request.hpp"
#include "core/waits.hpp"
#include "launch/launch.hpp"
#include "transport/am/handlers.hpp"

namespace weft::transport {
class Network;
namespace shm {
class Shm;
}
}  // namespace weft::transport

namespace weft::core {

class MemoryRegistry;
class ProgressThread;
class RemoteMemory;

/// Something that progresses when polled: transports, device copies, running schedules.
class Poller {
 public:
  virtual ~Poller() = default;
  /// Returns whether anything progressed.
  virtual bool poll() = 0;
  /// Returns whether poll() has nothing to do until this process starts an operation.
  [[nodiscard]] virtual bool idle() const { return false; }
};

/// Base of state that an upper layer attaches to the process, kept until traffic has ended and mappings are
/// closed.
struct RetainedState {
  virtual ~RetainedState() = default;
};

class Instance {
 public:
  explicit Instance(std::unique_ptr<launch::Exchange> exchange);
  ~Instance();
  Instance(const Instance&) = delete;

  /// Polls everything once. Returns whether anything progressed. A recursive call does nothing.
  bool progress();
  /// The wait of one thread. `awaited`: null if other events than the request's completion end it.
  struct Wait {
    Wait(Instance& owner, const WaitTarget& what, const Request* request)
        : instance(owner), awaited(request), target(what), call(owner.waits.current()) {}
    ~Wait() {
      if (seen_ns != since_ns) [[unlikely]]
        WaitPublisher::count(call, target, (seen_ns != 0 ? seen_ns : monotonic_ns()) - since_ns);
      if (record != nullptr) [[unlikely]]
        instance.waits.withdraw(*record);
      if (counted) --instance.waiting_threads_;
      if (instance.leader_ == this) instance.leader_ = nullptr;
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    Instance& instance;
    const Request* const awaited;
    const WaitTarget target;
    const MpiCall call;
    uint64_t since_ns = 0;                 ///< its start, or 0 before kTimedRounds idle rounds
    uint64_t seen_ns = 0;                  ///< its last time; 0: a long wait, whose end reads the clock
    wait_table::Record* record = nullptr;  ///< of a published wait
    unsigned idle_rounds = 0;
    bool counted = false;             ///< in waiting_threads_
    Wait* next = nullptr;             ///< follower
    std::atomic<uint32_t> signal{0};  ///< set when a follower is removed from the list and woken
  };
  /// Called after a round of polling without progress. Spins first, then yields the core; if ranks outnumber
  /// cores, yields a few times and then sleeps until another rank notifies this one.
  void idle(Wait& wait);
  /// For calls that poll once (MPI_Test, MPI_Iprobe): polls. If nothing progressed and ranks outnumber cores,
  /// yields the core, without the lock, or sleeps if the program only polls.
  void poll_once(const WaitTarget& target);
  /// Returns whether an exception ended progress(): messages that it processed may be lost.
  [[nodiscard]] bool progress_interrupted() const { return progress_interrupted_; }
  /// Returns whether all pollers are idle.
  [[nodiscard]] bool nothing_in_flight() const;
  void add(Poller& poller);
  void remove(Poller& poller);

  /// Returns the number of a process's host: equal numbers mean the same host.
  [[nodiscard]] int host_of(ProcessId process) const {
    if (!processes.in_own_job(process)) [[unlikely]]
      return processes.host_of(process);
    const auto& hosts = exchange->job().host_of_rank;
    return hosts.empty() ? 0 : hosts[process];
  }
  /// Returns whether a process is on this host, reachable through shared memory.
  [[nodiscard]] bool same_host(ProcessId process) const { return host_of(process) == host; }
  /// Watches a process of this host whose segment is mapped, by its pid.
  void watch(ProcessId process);

  /// Returns the first of `n` consecutive context ids, unique among all processes of connected jobs.
  ContextId new_contexts(uint32_t n = 1);
  /// Runs `function` (a user callback) without the instance lock.
  template <class F>
  decltype(auto) unlocked(F&& function) {
    Unlocked guard(*this);
    return function();
  }
  struct Unlocked {
    explicit Unlocked(Instance& owner)
        : instance(owner), call(owner.waits.current()), locked(owner.threaded) {
      if (locked)
        instance.release();
      else
        ++instance.unlocked_;
    }
    ~Unlocked() {
      if (locked)
        instance.lock.lock();
      else
        --instance.unlocked_;
      instance.waits.restore(call);
    }
    Instance& instance;
    const MpiCall call;
    const bool locked;  // `threaded` at construction: MPI_Session_init may set it meanwhile
  };

  /// Whether a call that holds no lock runs a user callback: the callback may not start threads that poll.
  [[nodiscard]] bool in_unlocked_callback() const { return unlocked_ != 0; }

  /// Releases the lock at the end of a call of the program.
  void leave() {
    if (progress_thread) [[unlikely]]
      wake_progress_thread();
    release();
  }
  /// Releases the lock and wakes threads whose requests have completed.
  void release() {
    wake_others();
    lock.unlock();
  }
  /// Under the lock: wakes threads whose requests have completed.
  void wake_others() {
    if (followers_ != nullptr || asleep_) [[unlikely]]
      wake_waiting();
  }

  std::unique_ptr<launch::Exchange> exchange;
  ProcessTable processes;
  const ProcessId self;
  const uint32_t size;  ///< processes in MPI_COMM_WORLD
  const int host;       ///< host_of(self)
  FailureDetector failures;
  bool oversubscribed = false;  ///< more ranks than cores on this host
  uint32_t cores = 1;           ///< this rank's share of the cores that it may use
  /// oversubscribed: the ranks of this host notify this one of nearly all events that it waits for.
  bool notified_when_idle = false;
  /// MPI_THREAD_MULTIPLE was granted, or there is a progress thread: calls take `lock`.
  bool threaded = false;
  InstanceLock lock;
  WaitPublisher waits;
  GpuUse gpu_use;
  std::unique_ptr<ProgressThread> progress_thread;  ///< null: none. Ended without holding `lock`
  transport::am::HandlerTable handlers;             ///< of all messages that this process receives
  transport::am::Sender* sender = nullptr;          ///< of active messages: of p2p, once created
  std::unique_ptr<MemoryRegistry> memory;           ///< mapped GPU memory of peers, and exports to them
  /// Access to memory of other processes; created at the first call, which is collective (remote_memory.hpp).
  [[nodiscard]] RemoteMemory& remote_memory();
  Ref<Communicator> world, self_comm;     ///< null outside the world model
  Poller* messaging = nullptr;            ///< point-to-point communication, created by p2p::create()
  transport::Network* network = nullptr;  ///< to other hosts, owned by p2p; null: all ranks on one host
  transport::shm::Shm* shm = nullptr;     ///< shared memory with the ranks of this host, owned by p2p
  // State of upper layers; each layer makes its own.
  std::unique_ptr<RetainedState> gpu_regions;      ///< of collectives: coll/gpu
  std::unique_ptr<RetainedState> gpu_streams;      ///< stream::Streams
  std::unique_ptr<RetainedState> window_messages;  ///< rma::Messages
  std::unique_ptr<RetainedState> fault_tolerance;  ///< ft::Service
  RecentHandles recent_windows;                    ///< of windows that entry points have found valid
  /// The processor may hold stores of operations on windows that no fence has ordered: rma/now.hpp.
  bool stores_unfenced = false;
  /// For the last messages of this process if it leaves the job; 0: the processes of the job must not
  /// (MPIX_Job_allow_exit).
  uint64_t exit_time_ns = 0;

 private:
  /// Notices processes of this host that have ended, and reports them. Returns true if one has failed.
  /// `now`: ns of monotonic_ns().
  bool look_for_failures(uint64_t now);
  bool report_departed(ProcessId process);
  void watch_local_processes();
  void leave_core(unsigned& idle_rounds) const;
  void arm() const;
  /// Sleeps until another rank notifies this one, at most `limit` ns. Precondition: arm(). Returns whether it
  /// was notified.
  bool sleep(long limit) const;
  [[nodiscard]] long longest_sleep() const;
  void publish_wait(Wait& wait);
  void leave_core_after_poll();
  void sleep_as_thread(Wait& wait);
  void follow(Wait& wait);
  void wake_waiting();
  void wake_progress_thread();
  void relock(bool yield);
  std::vector<Poller*> pollers_;
  std::unique_ptr<RemoteMemory> remote_memory_;
  struct PollScope;
  bool polling_ = false, removed_ = false, progress_interrupted_ = false;
  uint32_t unlocked_ = 0;       ///< callbacks of calls that hold no lock
  bool watching_ = false;       ///< the other ranks of this host are watched
  uint32_t rounds_ = 0;         ///< calls of progress()
  uint32_t deaths_ = 0;         ///< Shm::deaths() at the last look
  uint64_t watch_from_ns_ = 0;  ///< start of watching; 0: no look yet
  uint32_t next_context_ = 1;
  // Threads in long waits, and threads that wait for requests while threads outnumber cores: the leader polls
  // for all, followers sleep. Under the lock.
  Wait* leader_ = nullptr;
  Wait* followers_ = nullptr;      ///< oldest first
  bool asleep_ = false;            ///< a thread sleeps until another rank notifies this one
  uint32_t waiting_threads_ = 0;   ///< threads that have had an idle round
  uint32_t tight_polls_ = 0;       ///< poll_once() without progress or computation between
  uint64_t polled_ns_ = 0;         ///< end of the last of them
  uint64_t finished_at_wake_ = 0;  ///< Request::finished() when followers were last woken
  bool progressed_ = false;        ///< since then; wakes followers that wait for anything
};

/// Progresses until `done()` returns true. `target` is published in long waits. `awaited`: the request whose
/// completion alone ends the wait; another thread may complete it.
template <class Done>
void wait_until(Instance& instance, Done&& done, const WaitTarget& target = {},
                const Request* awaited = nullptr) {
  if (done()) return;
  for (Instance::Wait wait(instance, target, awaited); !done();) {
    if (instance.progress())
      wait.idle_rounds = 0;
    else
      instance.idle(wait);
  }
}

/// Progresses until the request is complete.
inline void wait(Instance& instance, const Request& request) {
  wait_until(
      instance, [&] { return request.complete(); }, {&request}, &request);
}

}  // namespace weft::core
