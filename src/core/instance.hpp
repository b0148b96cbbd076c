// SPDX-License-Identifier: BSD-3-Clause
// Instance: owns all state of the library in this process. The one global pointer to it is in api/.
// Threading: one lock, taken by api/ only when MPI_THREAD_MULTIPLE was granted, released around user
// callbacks and between rounds of waiting.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/request.hpp"
#include "launch/launch.hpp"

namespace weft::p2p {
class Engine;
}

namespace weft::transport::shm {
class Shm;
}

namespace weft::core {

/// Something that advances when it is polled: transports, device copies, running schedules.
class Poller {
 public:
  virtual ~Poller() = default;
  /// Returns true when anything moved.
  virtual bool poll() = 0;
};

/// Base of what an upper layer keeps with the process until its traffic is over and its mappings are closed.
struct Kept {
  virtual ~Kept() = default;
};

class Instance {
 public:
  explicit Instance(std::unique_ptr<launch::Exchange> exchange);
  ~Instance();
  Instance(const Instance&) = delete;

  /// Advances everything once. Returns true when anything moved. Never recursive.
  bool progress();
  /// What a wait looks for decides who has to wake it: another thread that polls sees requests complete.
  enum class Waiting { request, anything };
  /// Waits a little, after a look that found nothing: spins first, offers the core when the wait is long or
  /// ranks outnumber cores. Where others then keep the core it sleeps until another rank has something for
  /// this one.
  /// `request` or `comm`, where there is one: what a long wait is for, shown to `weft hang`.
  void idle(unsigned& idle_rounds, Waiting waiting = Waiting::anything, const Request* request = nullptr,
            const Communicator* comm = nullptr);
  /// For calls that poll once (MPI_Test, MPI_Iprobe): gives the core away when ranks outnumber cores.
  void yield_if_crowded() const;
  void add(Poller& poller);
  void remove(Poller& poller);

  /// Whether a process is on this host: then there is shared memory with it.
  [[nodiscard]] bool same_host(ProcessId process) const {
    return exchange->job().same_host(static_cast<int>(process), static_cast<int>(self));
  }

  /// Reserves `n` consecutive context ids that no other process will ever make.
  ContextId new_contexts(uint32_t n = 1);
  /// Runs `function` without the instance lock (user callbacks).
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
    const bool locked;  // MPI_Session_init may set `threaded` meanwhile
  };

  /// Gives the lock back, and wakes the threads whose requests have completed meanwhile.
  void release() {
    if (followers_ != 0 || leading_) [[unlikely]]
      wake_waiting();
    lock.unlock();
  }

  std::unique_ptr<launch::Exchange> exchange;
  ProcessId self;
  uint32_t size;                ///< processes in MPI_COMM_WORLD
  bool oversubscribed = false;  ///< more ranks than cores on this host
  bool sleeps = false;          ///< then ranks that wait for long sleep until one of this host rings
  bool threaded = false;        ///< MPI_THREAD_MULTIPLE was granted: calls take `lock`
  std::mutex lock;
  Ref<Communicator> world, self_comm;  ///< null outside the world model
  p2p::Engine* engine = nullptr;       ///< made by p2p::create()
  transport::shm::Shm* shm = nullptr;  ///< of the ranks of this host, owned by the engine
  std::unique_ptr<Kept> gpu_scratch;   ///< of collectives: coll/gpu

 private:
  void offer_core(unsigned& idle_rounds) const;
  void show(unsigned rounds, const Request* request, const Communicator* comm);
  void publish(const Request* request, const Communicator* comm) const;
  void sleep_as_thread(Waiting waiting);
  void wake_waiting();
  std::vector<Poller*> pollers_;
  bool polling_ = false, removed_ = false;
  uint32_t next_context_ = 1;
  // Of the threads that wait for long, one leads: it polls for all. The others sleep. Under the lock.
  bool leading_ = false;
  uint32_t followers_ = 0, followers_of_anything_ = 0;
  uint64_t told_ = 0;     ///< Request::finished() when followers were woken last
  bool stirred_ = false;  ///< something moved since: for those that wait for anything
  std::atomic<uint32_t> wake_ups_{0};
  uint64_t quiet_since_ = 0;  ///< of the wait that lasts; 0: not long yet
  bool shown_ = false;
};

/// Progresses until `done()`. `request`, `comm`: as Instance::idle().
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
