// SPDX-License-Identifier: BSD-3-Clause
// Instance: owns all state of the library in this process; api/ holds the only global pointer to it.
// Threading: one lock, taken by api/ only with MPI_THREAD_MULTIPLE. It is released around user callbacks and
// between rounds of waiting.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/failure.hpp"
#include "core/process_table.hpp"
#include "core/request.hpp"
#include "launch/launch.hpp"

namespace weft::p2p {
class Engine;
}

namespace weft::transport::shm {
class Shm;
}

namespace weft::core {

/// Something that progresses when polled: transports, device copies, running schedules.
class Poller {
 public:
  virtual ~Poller() = default;
  /// Returns whether anything progressed.
  virtual bool poll() = 0;
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
  /// The event that ends a wait. A wait for `request` is woken by completed requests only; another polling thread
  /// completes them.
  enum class Waiting { request, anything };
  /// Called after a round of polling without progress. Spins first, then yields the core if the wait is long
  /// or ranks outnumber cores. If other processes keep the core, sleeps until another rank notifies this one.
  /// `request` or `comm`: the object of the wait, published for `weft hang`; both may be null.
  void idle(unsigned& idle_rounds, Waiting waiting = Waiting::anything, const Request* request = nullptr,
            const Communicator* comm = nullptr);
  /// Yields the core if ranks outnumber cores; for calls that poll once (MPI_Test, MPI_Iprobe).
  void yield_if_oversubscribed() const;
  /// Returns whether an exception ended progress(): messages that it processed may be lost.
  [[nodiscard]] bool progress_interrupted() const { return progress_interrupted_; }
  void add(Poller& poller);
  void remove(Poller& poller);

  /// Returns whether a process is on this host, reachable through shared memory.
  [[nodiscard]] bool same_host(ProcessId process) const {
    return exchange->job().same_host(static_cast<int>(process), static_cast<int>(self));
  }

  /// Returns the first of `n` consecutive context ids, unique among all processes.
  ContextId new_contexts(uint32_t n = 1);
  /// Runs `function` (a user callback) without the instance lock.
  template <class F>
  decltype(auto) unlocked(F&& function) {
    Unlocked guard(*this);
    return function();
  }
  struct Unlocked {
    explicit Unlocked(Instance& owner) : instance(owner), locked(owner.threaded) {
      if (locked) instance.release();
    }
    ~Unlocked() {
      if (locked) instance.lock.lock();
    }
    Instance& instance;
    const bool locked;  // `threaded` at construction: MPI_Session_init may set it meanwhile
  };

  /// Releases the lock and wakes threads whose requests have completed.
  void release() {
    if (followers_ != 0 || has_leader_) [[unlikely]]
      wake_waiting();
    lock.unlock();
  }

  std::unique_ptr<launch::Exchange> exchange;
  ProcessTable processes;
  const ProcessId self;
  const uint32_t size;  ///< processes in MPI_COMM_WORLD
  FailureDetector failures;
  bool oversubscribed = false;  ///< more ranks than cores on this host
  bool sleep_when_idle =
      false;              ///< oversubscribed: long waits sleep until a rank of this host notifies this one
  bool threaded = false;  ///< MPI_THREAD_MULTIPLE was granted: calls take `lock`
  std::mutex lock;
  Ref<Communicator> world, self_comm;  ///< null outside the world model
  p2p::Engine* engine = nullptr;       ///< created by p2p::create()
  transport::shm::Shm* shm = nullptr;  ///< shared memory with the ranks of this host, owned by the engine
  std::unique_ptr<RetainedState> gpu_regions;  ///< of collectives: coll/gpu

 private:
  /// Notices processes of this host that have ended, and reports them. Returns true if one has failed.
  /// `now`: ns of monotonic_ns().
  bool look_for_failures(uint64_t now);
  void watch_local_processes();
  void yield_core(unsigned& idle_rounds) const;
  void update_wait_record(unsigned rounds, const Request* request, const Communicator* comm);
  void publish_wait(const Request* request, const Communicator* comm) const;
  void sleep_as_thread(Waiting waiting);
  void wake_waiting();
  std::vector<Poller*> pollers_;
  struct PollScope;
  bool polling_ = false, removed_ = false, progress_interrupted_ = false;
  bool watching_ = false;       ///< the other ranks of this host are watched
  uint32_t rounds_ = 0;         ///< calls of progress()
  uint64_t watch_from_ns_ = 0;  ///< start of watching; 0: no look yet
  uint32_t next_context_ = 1;
  // Leader and followers among threads in a long wait: the leader polls for all, followers sleep. Under the
  // lock.
  bool has_leader_ = false;
  uint32_t followers_ = 0, unspecific_followers_ = 0;
  uint64_t finished_at_wake_ = 0;  ///< Request::finished() when followers were last woken
  bool progressed_ = false;        ///< since then; wakes followers that wait for anything
  std::atomic<uint32_t> wake_ups_{0};
  uint64_t idle_since_ns_ = 0;  ///< start of the current long wait; 0: none
  bool wait_published_ = false;
};

/// Progresses until `done()` returns true. `request`, `comm`: as in Instance::idle().
template <class Done>
void wait_until(Instance& instance, Done&& done, Instance::Waiting waiting = Instance::Waiting::anything,
                const Request* request = nullptr, const Communicator* comm = nullptr) {
  for (unsigned idle_rounds = 0; !done();) {
    if (instance.progress())
      idle_rounds = 0;
    else
      instance.idle(idle_rounds, waiting, request, comm);
  }
}

/// Progresses until the request is complete.
inline void wait(Instance& instance, const Request& request) {
  wait_until(
      instance, [&] { return request.complete(); }, Instance::Waiting::request, &request);
}

}  // namespace weft::core
