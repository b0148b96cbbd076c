// SPDX-License-Identifier: BSD-3-Clause
// Messages of windows, for targets whose control block this process cannot map: synchronisation and
// accumulate operations, which the target executes; and queries of the memory attached to dynamic windows.
// Native byte order. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/instance.hpp"
#include "rma/gpu_accumulate.hpp"
#include "rma/retired_pages.hpp"
#include "rma/window.hpp"
#include "transport/am/handlers.hpp"
#include "transport/rma/id_table.hpp"

namespace weft::rma {

enum class Sync : uint8_t {
  lock_shared,
  lock_exclusive,
  unlock_shared,
  unlock_exclusive,
  granted,
  held,  ///< a lock that the receiver has requested: who holds it
  post,
  complete,
  detached,       ///< Peer::detached
  detached_query  ///< asks for it: the source had no window yet when the receiver may have sent it
};

/// The upper half of the block of transport/rma.
enum class WindowHandler : transport::am::HandlerId {
  sync = transport::am::kRmaHandlers + 8,
  query,
  key,
  accumulate,
  reply,
  kernel_put,
  kernel_flush
};

struct SyncMessage {
  WindowHandler handler;
  Sync what;
  uint16_t sharers;  ///< held: number of shared locks; 0: held exclusively
  int32_t holder;    ///< held: a rank that has the lock
  core::ContextId window;
};
/// Asks for the key of the attached memory that contains a range.
struct QueryMessage {
  WindowHandler handler;
  uint8_t unused[7];
  core::ContextId window;
  uint64_t address, length;
};
struct KeyMessage {
  WindowHandler handler;
  uint8_t found;        ///< 0: no attached memory contains the range
  uint8_t gpu_atomics;  ///< 1: see Peer::gpu_atomics
  uint8_t unused[5];
  core::ContextId window;
  transport::rma::Key key;
};
/// Part of an accumulate operation: whole elements. Followed by `runs` runs of the target memory, the packed
/// elements, and, for compare-and-swap, the packed elements to compare with.
struct AccumulateMessage {
  static constexpr uint8_t kCompareSwap = 255;
  static constexpr size_t kMaxBytes = 8192;  ///< of the message
  WindowHandler handler;
  uint8_t op;     ///< datatype::ReduceOp or kCompareSwap
  uint8_t basic;  ///< datatype::Basic
  uint8_t fetch;  ///< 1: the reply contains the value before
  uint32_t runs;
  core::ContextId window;
  transport::rma::Id operation;
  uint64_t position, bytes;  ///< of the elements in the packed stream
};
struct Run {
  uint64_t offset, length;  ///< from the window's base, or the address in a dynamic window
};
/// The value before follows.
struct ReplyMessage {
  enum Outcome : uint8_t { done, no_window, out_of_range, failed };
  WindowHandler handler;
  Outcome outcome;
  uint8_t unused[2];
  uint32_t length;
  transport::rma::Id operation;
  uint64_t position;
};

/// A put of a kernel of another host by its payload or stage, or a part of it; the data follow. Executed in
/// order.
struct KernelPutMessage {
  WindowHandler handler;
  uint8_t unused[3];
  uint32_t signal;  ///< index of a counter's word, plus 1, to which 1 is added; 0: none
  core::ContextId window;
  uint64_t offset, length;
};
/// Is answered when all earlier messages have been executed.
struct KernelFlushMessage {
  WindowHandler handler;
  uint8_t answer;  ///< 1: of the target
  uint8_t failed;  ///< in the answer, 1: the target could not execute a put or signal of the origin
  uint8_t unused[5];
  core::ContextId window;
  uint64_t number;  ///< of the flush, at its origin
};

/// An operation that is complete when its last part is.
class Operation : public transport::Completion {
 public:
  Operation(Window& window, Peer& peer, WindowRequest* request);
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  /// One more part; `outcome` of a part that is complete.
  void add_part() { ++parts_; }
  /// Whether one part is left.
  [[nodiscard]] bool last_part() const { return parts_ == 1; }
  /// Destroys the object with the last part.
  void finish_part(Status outcome);
  /// Keeps a datatype alive until completion; at most two.
  void hold(const datatype::Datatype& type);
  /// Makes room in `data` for `bytes` bytes, which are unpacked into the buffer on completion. After an error
  /// (no memory) the operation has ended.
  [[nodiscard]] Status receive_into(const p2p::Buffer& to, uint64_t bytes);

  std::vector<std::byte> data;                    ///< packed origin data, or the packed result
  transport::rma::Id id = transport::rma::kNoId;  ///< in Messages, of an operation by message
  Window& window;
  Peer& peer;
  transport::Completion* ended = nullptr;  ///< fired before the object is destroyed; null: nobody waits

 private:
  size_t parts_ = 1;  ///< the first is that of the issuing call
  WindowRequest* request_;
  p2p::Buffer to_{};
  bool has_result_ = false;
  const datatype::Datatype* types_[2] = {};  ///< held
  Status outcome_;
};

/// A rank that has a lock, and the number of shared locks; 0: it has the lock exclusively.
struct LockHolder {
  int rank = -1;  ///< -1: unknown or none
  uint32_t sharers = 0;
};
/// The holder of the lock of a control block. `known`: a rank that may hold a shared lock, looked at first.
[[nodiscard]] LockHolder holder_of(Control& control, int known, int ranks);

class Messages final : public core::RetainedState, private core::Poller {
 public:
  /// The messages of the process.
  [[nodiscard]] static Messages& of(core::Instance& instance);

  /// Slots of windows in which other processes post operations.
  [[nodiscard]] OperationSlots& slots() { return slots_; }
  /// Registered memory of freed windows.
  [[nodiscard]] RetiredPages& retired() { return retired_; }

  void add(Window& window) { windows_[window.comm->id] = &window; }
  void remove(Window& window);
  /// Peers reach `window` by messages: the progress thread, if any, keeps polling.
  void serve(Window& window);
  /// Waits until no kernel executes an operation of a peer on the window's memory.
  void await_updates(const Window& window);
  /// Ends the accumulate operations of a window that wait for replies.
  void abandon(const Window& window, const Error& why);
  /// The holder of a lock of `target` that was requested by message and not granted, as far as it is known.
  [[nodiscard]] LockHolder reported_holder(core::ContextId window, int target) const;
  void send_sync(const Window& window, const Peer& to, Sync what);
  /// Asks a peer for the key of its attached memory; Peer::queried becomes true.
  void send_query(const Window& window, Peer& to, uint64_t address, uint64_t length);
  /// Sends an accumulate operation in parts.
  void send_accumulate(Operation& operation, const Area& area, const Place& place, const std::byte* in,
                       const std::byte* compare, uint8_t op, datatype::Basic basic, bool fetch);
  /// Sends an accumulate operation on one element, at an offset from the target's base; the element before is
  /// in Operation::data on completion. Ends the issuing part of the operation.
  void send_atomic(Operation& operation, uint64_t offset, const std::byte* in, const std::byte* compare,
                   uint8_t op, datatype::Basic basic);

 private:
  explicit Messages(core::Instance& instance);
  bool poll() override;
  [[nodiscard]] bool idle() const override {
    return served_ == 0 && queue_.empty() && updates_.empty() && locks_.empty() && leaving_.empty();
  }
  struct Queued {
    core::ProcessId to;
    std::vector<std::byte> bytes;
  };
  /// An accumulate operation of a peer that kernels execute.
  struct Update {
    core::ProcessId source;
    AccumulateMessage message;
    std::unique_ptr<GpuUpdate> on_gpu;
  };
  /// Accumulate operations of peers on one window, in order.
  struct Updates {
    std::unique_ptr<Update> running;
    std::deque<Queued> waiting;  ///< for `running`, the accumulate lock or staging memory
    size_t waiting_bytes = 0;
  };
  struct LockRequest {
    core::ContextId window;
    core::ProcessId source;
    bool exclusive;
    int reported = -1;  ///< holder that the source has been told
  };
  void send(core::ProcessId to, std::vector<std::byte> message);
  template <class T>
  void send(core::ProcessId to, const T& message);
  [[nodiscard]] bool send_now(const Queued& message);
  static void count_stale();
  [[nodiscard]] Window* find(core::ContextId window, core::ProcessId source, int& rank) const;
  [[nodiscard]] bool grant(LockRequest& request);
  void report_holder(LockRequest& request, Control& control, int ranks);
  void note_holder(core::ContextId window, int target, const LockHolder& holder);
  void on_sync(core::ProcessId source, const SyncMessage& message);
  void on_query(core::ProcessId source, const QueryMessage& message);
  void on_key(core::ProcessId source, const KeyMessage& message);
  // accumulate_messages.cpp
  void on_accumulate(core::ProcessId source, const AccumulateMessage& message, size_t size);
  /// Executes the operation, or starts it as `running`. Returns false if another process holds the accumulate
  /// lock, or there is no staging memory: later.
  [[nodiscard]] bool execute(core::ProcessId source, const std::byte* message, size_t size,
                             std::unique_ptr<Update>& running);
  void answer(core::ProcessId to, const AccumulateMessage& message, const Status& done,
              std::vector<std::byte> before);
  [[nodiscard]] bool finished(Update& update);
  [[nodiscard]] bool advance(Updates& updates);
  bool poll_updates();
  /// Whether kernels execute an operation of a peer on the window's memory.
  [[nodiscard]] bool updating(core::ContextId window) const;
  void on_reply(core::ProcessId source, const ReplyMessage& message, size_t size);
  // kernel_messages.cpp
  void add_kernel_handlers();
  void on_kernel_put(core::ProcessId source, const KernelPutMessage& message, size_t size);
  void on_kernel_flush(core::ProcessId source, const KernelFlushMessage& message);
  /// Ends the operations for which which(operation) is true.
  template <class Which>
  void fail(Which&& which, const Error& why);
  void lost(core::ProcessId process, const Error& why);

  core::Instance& instance_;
  std::unordered_map<core::ContextId, Window*> windows_;
  OperationSlots slots_;
  RetiredPages retired_;
  transport::rma::IdTable<Operation> operations_;
  std::deque<Queued> queue_;                              // messages without capacity in the transport
  std::unordered_map<core::ContextId, Updates> updates_;  // by window; none is empty
  std::vector<LockRequest> locks_;
  struct HeldLock {
    core::ContextId window;
    int target;
    LockHolder holder;
  };
  std::vector<HeldLock> held_;    // locks that this process waits for
  std::vector<Window*> leaving_;  // revoked ones, until Window::leave() returns true
  size_t served_ = 0;             // windows with Window::reached_by_messages
};

}  // namespace weft::rma
