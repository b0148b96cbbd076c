// SPDX-License-Identifier: BSD-3-Clause
// Queue: the operations of one process group on one GPU. They have one order, also across streams, captured
// or not: each stream waits for the operation before, unless a capture begins or ends between the two.
// Contains nothing of Python. Threading: any thread, without Python's lock.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace weft::torch {

/// The functions of the CUDA driver and of weft.h that a queue calls, found by the caller, so that the module
/// depends on neither library and tests can replace each function.
#define WEFT_TORCH_FUNCTIONS(F)                                                                   \
  F(cuCtxGetCurrent, (void** context))                                                            \
  F(cuCtxPushCurrent_v2, (void* context))                                                         \
  F(cuCtxPopCurrent_v2, (void** context))                                                         \
  F(cuEventCreate, (void** event, unsigned flags))                                                \
  F(cuEventDestroy_v2, (void* event))                                                             \
  F(cuEventRecord, (void* event, void* stream))                                                   \
  F(cuEventQuery, (void* event))                                                                  \
  F(cuStreamWaitEvent, (void* stream, void* event, unsigned flags))                               \
  F(cuStreamIsCapturing, (void* stream, int* status))                                             \
  F(cuStreamGetCaptureInfo_v2,                                                                    \
    (void* stream, int* status, uint64_t* id, void* graph, void* dependencies, void* count))      \
  F(MPIX_Comm_is_revoked, (void* comm, int* flag))                                                \
  F(MPIX_Stream_comm_redirect, (void* comm, void* stream))                                        \
  F(MPIX_Bcast_enqueue_c, (void* buffer, int64_t count, void* type, int root, void* comm))        \
  F(MPIX_Allreduce_enqueue_c,                                                                     \
    (const void* send, void* recv, int64_t count, void* type, void* op, void* comm))              \
  F(MPIX_Reduce_scatter_block_enqueue_c,                                                          \
    (const void* send, void* recv, int64_t count, void* type, void* op, void* comm))              \
  F(MPIX_Allgather_enqueue_c, (const void* send, int64_t send_count, void* send_type, void* recv, \
                               int64_t recv_count, void* recv_type, void* comm))                  \
  F(MPIX_Alltoall_enqueue_c, (const void* send, int64_t send_count, void* send_type, void* recv,  \
                              int64_t recv_count, void* recv_type, void* comm))

struct Functions {
#define WEFT_X(name, parameters) int(*name) parameters;
  WEFT_TORCH_FUNCTIONS(WEFT_X)
#undef WEFT_X
};

constexpr long long kByte = 583;  ///< MPI_BYTE of the standard ABI
constexpr int kErrComm = 5;       ///< MPI_ERR_COMM there

/// One call of MPI; the fields that its function has.
struct Call {
  enum class Function : uint8_t { bcast, allreduce, allgather, reduce_scatter_block, alltoall };
  Function function;
  const void* send;
  void* recv;
  int64_t count;
  void* type;
  void* op;
  int root;
};

/// Events of CUDA that are used again. They may outlive the queue.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(const Functions& functions) : functions_(functions) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  /// Returns an event that returns to the pool with the last reference; null: the driver refuses.
  [[nodiscard]] std::shared_ptr<void> take();
  /// Destroys the events, now or with their last reference.
  void close();

 private:
  void give_back(void* event);

  const Functions functions_;
  std::mutex mutex_;
  bool closed_ = false;
  std::vector<void*> free_;
};
using Event = std::shared_ptr<void>;

/// An operation that may be in progress. `name` and `keep` are the caller's; keep may be null.
struct Watched {
  Event event;
  double deadline, begin;  ///< CLOCK_MONOTONIC, seconds
  void* name;
  void* keep;
};

/// Of a function of CUDA or of MPI; 0: success. At most one is set.
struct Outcome {
  int cuda = 0, mpi = 0;
  [[nodiscard]] bool ok() const { return cuda == 0 && mpi == 0; }
};

class Queue {
 public:
  /// `own`: the stream of asynchronous operations, into which `comm` puts its operations at first. Uses the
  /// current context of the thread.
  Queue(const Functions& functions, void* comm, void* own);
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// An operation between begin() and end(), which hold the lock of the queue.
  struct Operation {
    void* stream;
    bool captured;
    bool any;  ///< a call has been made, so that the operation may be in the stream in part
  };
  /// Makes the calls in `current`, or, if asynchronous and `current` is not captured, in the own stream
  /// behind it. Keeps the lock if any call has been made, which end() releases in the same thread.
  [[nodiscard]] Outcome begin(void* current, bool asynchronous, const Call* calls, size_t count,
                              Operation& operation);
  /// Ends the operation that begin() has begun. Sets `event`, its end in its stream, and `watch`: the caller
  /// wakes the thread that calls retire(). `watched.event` is set here; ignored for captured operations.
  [[nodiscard]] Outcome end(const Operation& operation, Watched watched, Event& event, bool& watch);

  /// Lets the stream wait for the operation.
  [[nodiscard]] Outcome wait(void* stream, const Event& event);
  /// Returns whether the event is complete. Errors of CUDA are set in `outcome`.
  [[nodiscard]] bool complete(const Event& event, Outcome& outcome) const;
  /// Returns whether the latest operation outside of captures is complete.
  [[nodiscard]] bool idle(Outcome& outcome);
  /// Moves the operations that are complete, in their order, to `done`: what collect() moves, too.
  [[nodiscard]] Outcome retire(std::vector<Watched>& done);
  /// Moves the operations that needs_look() has found complete to `done`, for a caller that has Python's
  /// lock.
  void collect(std::vector<Watched>& done);
  /// Moves all operations to `done`, complete or not: of a queue that nobody uses any more.
  void forget(std::vector<Watched>& done);
  /// Returns whether the thread that watches must act: operations take long, the communicator may have
  /// failed, CUDA has, or complete operations have waited for collect().
  [[nodiscard]] bool needs_look(double now);
  /// Returns whether operations are watched, and copies the oldest of them.
  [[nodiscard]] bool oldest(Watched& found);
  /// The number of operations that are watched.
  [[nodiscard]] size_t watched();
  /// Whether graphs have operations of the queue.
  [[nodiscard]] bool has_captured() const { return has_captured_.load(std::memory_order_relaxed); }
  /// The lock of the communicator, for calls of MPI beside the queue. The same thread releases it.
  void lock() { mutex_.lock(); }
  [[nodiscard]] bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }
  /// The end of the queue, whose operations are complete: the communicator returns to the own stream. Under
  /// the lock.
  [[nodiscard]] Outcome close();

 private:
  class InContext;
  [[nodiscard]] Outcome order(void* current, bool asynchronous, Operation& operation);
  [[nodiscard]] Outcome order_captured(void* current);
  [[nodiscard]] Outcome find_complete(std::vector<Watched>& done);
  [[nodiscard]] bool may_have_failed();
  [[nodiscard]] int make(const Call& call) const;

  const Functions functions_;
  void* const comm_;
  void* const own_;
  void* context_ = nullptr;
  const std::shared_ptr<EventPool> pool_;
  std::mutex mutex_;             ///< of the members up to captured_
  void* target_;                 ///< where the communicator puts operations
  Event begin_;                  ///< recorded again for each operation: a wait refers to the record before it
  Event last_;                   ///< the end of the latest operation outside of captures,
  void* last_stream_ = nullptr;  ///< and its stream
  struct {
    uint64_t id;
    void* stream;
    Event event;
  } captured_{};  ///< the latest captured operation
  std::atomic<bool> has_captured_{false};
  std::mutex watched_mutex_;
  std::deque<Watched> watched_;
  std::vector<Watched> complete_;  ///< found by needs_look(), until collect()
  double complete_since_ = 0;      ///< when the first of them was found
  std::atomic<bool> has_complete_{false};
  bool unchecked_ = false;  ///< operations have ended since may_have_failed(); of the watching thread alone
  bool closed_ = false;     ///< under mutex_
};

/// Now, by the clock of Python's time.monotonic(), in seconds.
[[nodiscard]] double now();

}  // namespace weft::torch
