// SPDX-License-Identifier: BSD-3-Clause
// WaitPublisher: publishes the MPI calls of this process and what they wait for (base/wait_table.hpp).
// Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>

#include "base/wait_table.hpp"
#include "core/request.hpp"

namespace weft::transport::shm {
class Shm;
}

namespace weft::core {

class Communicator;

/// An MPI call: address of its name, and its first communicator argument or null.
struct MpiCall {
  uint64_t name = 0;
  Communicator* comm = nullptr;
};

/// The event that a wait is for: a request, the arguments of a probe, or an event of a window.
struct WaitTarget {
  const Request* request = nullptr;
  const Operands* operands = nullptr;
  Communicator* comm = nullptr;  ///< of the operands
};

/// An unexpected message that a receive or probe may have been meant for.
struct SimilarMessage {
  int source = 0, tag = 0;  ///< `source`: rank in `comm`
  uint64_t bytes = 0;
  const Communicator* comm = nullptr;
};
/// Returns whether there is one; `wanted`: the operands of a receive or probe on `comm` that nothing matches.
using FindSimilar = bool (*)(const Operands& wanted, const Communicator& comm, SimilarMessage& found);

class WaitPublisher {
 public:
  WaitPublisher() = default;
  WaitPublisher(const WaitPublisher&) = delete;
  WaitPublisher& operator=(const WaitPublisher&) = delete;
  ~WaitPublisher();

  /// Begin and end of an MPI call of the thread that holds the instance lock.
  void enter(const char* name) {
    comm_ = nullptr;
    table_->call.store(reinterpret_cast<uintptr_t>(name), std::memory_order_relaxed);
    table_->calls.store(table_->calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void set_communicator(Communicator& comm) { comm_ = &comm; }
  void leave(const char* name) {
    table_->call.store(reinterpret_cast<uintptr_t>(name) | wait_table::kReturned, std::memory_order_relaxed);
  }
  /// The current call; restored by a thread that has released the lock meanwhile.
  [[nodiscard]] MpiCall current() const { return {table_->call.load(std::memory_order_relaxed), comm_}; }
  void restore(const MpiCall& call) {
    table_->call.store(call.name, std::memory_order_relaxed);
    comm_ = call.comm;
  }

  /// From now on publishes in `table`, or, if it is null, in memory of this process alone.
  void open(wait_table::Table* table, int rank, int size);
  /// Publishes whether this process has left MPI, and whether several threads may call it.
  void set_state(bool left, bool threaded) {
    table_->left.store(left ? 1 : 0, std::memory_order_relaxed);
    table_->threaded.store(threaded ? 1 : 0, std::memory_order_relaxed);
  }

  /// The table in which this process publishes.
  [[nodiscard]] wait_table::Table& table() { return *table_; }

  /// Counts this thread among the threads that have called MPI.
  void count_thread() {
    if (thread_counted) return;
    thread_counted = true;
    table_->threads.store(table_->threads.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// Of the layer that matches messages.
  void set_find_similar(FindSimilar function) { find_similar_ = function; }

  /// Publishes a wait of one thread. `record`: of this wait, or null at first. `now`, `since`:
  /// monotonic_ns().
  void publish(wait_table::Record*& record, const MpiCall& call, const WaitTarget& target, uint64_t since,
               uint64_t now);
  /// The wait has ended.
  void withdraw(wait_table::Record& record);

  /// Adds `ns` to the counter of waits of this kind.
  static void count(const MpiCall& call, const WaitTarget& target, uint64_t ns);

  /// Counts an unsuccessful poll. Returns true if publish_poll() shall be called: for a few of them.
  [[nodiscard]] bool count_poll() {
    if (finished_at_poll_ != Request::finished()) {
      finished_at_poll_ = Request::finished();
      polls_ = 0;
      polls_since_ns_ = 0;
    }
    table_->records[0].calls.store(table_->calls.load(std::memory_order_relaxed), std::memory_order_relaxed);
    ++polls_;
    return polls_ > 1 && (polls_ % kPollsPerLook == 0 || (polls_ & (polls_ - 1)) == 0);
  }
  void publish_poll(const WaitTarget& target, uint64_t now);
  /// Notes since when the other ranks of the host make no calls. Called again and again in long waits.
  void observe(const transport::shm::Shm& shm, uint64_t now);

 private:
  static constexpr uint32_t kPollsPerLook = 64;
  void fill(wait_table::Record& record, const MpiCall& call, const WaitTarget& target, uint64_t since,
            uint64_t now) const;
  void look_for_similar(wait_table::Record& record, const Operands& wanted, const Communicator* comm,
                        uint64_t now) const;
  [[gnu::tls_model("initial-exec")]] static constinit thread_local bool thread_counted;

  wait_table::Table* table_ = &unpublished_;
  Communicator* comm_ = nullptr;                 // of the current call
  wait_table::Table unpublished_{};              // until open()
  wait_table::PrivateTable* private_ = nullptr;  // mapped
  int memory_ = -1;                              // descriptor of private_, kept for readers
  uint32_t used_ = 1;                            // records in use, as bits
  FindSimilar find_similar_ = nullptr;
  uint64_t finished_at_poll_ = 0, polls_since_ns_ = 0, next_observation_ns_ = 0;
  uint32_t polls_ = 0;
};

/// enter() and leave(), for calls whose entry point holds no lock.
struct PublishedCall {
  PublishedCall(WaitPublisher& publisher, const char* call, Communicator* comm = nullptr)
      : waits(publisher), name(call) {
    waits.enter(name);
    if (comm != nullptr) waits.set_communicator(*comm);
  }
  ~PublishedCall() { waits.leave(name); }
  PublishedCall(const PublishedCall&) = delete;
  PublishedCall& operator=(const PublishedCall&) = delete;
  WaitPublisher& waits;
  const char* const name;
};

}  // namespace weft::core
