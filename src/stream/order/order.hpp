// SPDX-License-Identifier: BSD-3-Clause
// Order: the state of a communicator, and of the windows made from it, whose calls run in the order of a GPU
// stream. Engine: the state of the process. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "core/reference.hpp"
#include "device/stream_words.hpp"
#include "stream/order/executor.hpp"
#include "stream/order/record.hpp"
#include "stream/order/request.hpp"
#include "stream/order/shown_calls.hpp"
#include "stream/order/words.hpp"

namespace weft::stream {
class Queue;
}

namespace weft::stream::order {

/// Error if the host would have to wait for a captured stream. Counts the wait otherwise, as a slow path with
/// its reason.
[[nodiscard]] Status allow_host_wait(const device::Capture& capture, const char* reason);

/// A stream of the program, with the calls that it starts.
struct OrderedStream {
  OrderedStream(const device::UserStream& stream, Words& slots)
      : gpu(stream), words(slots), calls(std::make_shared<ShownCalls>(slots, handle())) {}
  /// As the program knows it.
  [[nodiscard]] void* handle() const { return gpu.outer != nullptr ? gpu.outer : gpu.handle; }
  const device::UserStream gpu;
  Words& words;
  /// Held while a call is put into the queue and into the stream, in the same order (T3). Taken without the
  /// instance lock: the driver may wait for the stream.
  std::mutex submission;
  const std::shared_ptr<ShownCalls> calls;
  /// Becomes true when the last call that was put into the stream, outside of captures, has ended; null:
  /// none.
  std::shared_ptr<std::atomic<bool>> last_ended;
  [[nodiscard]] bool waits() const {
    return last_ended != nullptr && !last_ended->load(std::memory_order_acquire);
  }
  uint64_t capture = 0;  // id of the last capture
  std::weak_ptr<CapturedCalls> captured_calls;
};

/// Created by the first stream.
class Engine {
 public:
  explicit Engine(core::Instance& instance) : executor(instance), instance_(instance) {}
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// The stream of a CUstream, adopted at first use; valid until MPI_Finalize.
  [[nodiscard]] Result<OrderedStream*> stream_of(void* handle);

  /// A call to enqueue.
  struct Submission {
    OrderedStream& stream;
    device::Capture capture;
    core::Communicator& comm;
    const char* name;
    std::shared_ptr<Outcomes> outcomes;
    std::shared_ptr<std::atomic<bool>> after, ended;
    core::Request* done;
    uint64_t number;
    bool by_host;  ///< the host waits for the stream, starts the call and waits for its end (T11)
  };
  /// Whether one more stream of the context of this one may wait (T11).
  [[nodiscard]] bool may_wait(const OrderedStream& stream) const;
  /// Puts the call into its queue and the stream. Releases the instance lock meanwhile.
  [[nodiscard]] Status submit(const Submission& submission, std::unique_ptr<Call> call);
  /// Calls enqueued and not ended, not counting captured ones.
  uint64_t pending = 0;

  Executor executor;

 private:
  [[nodiscard]] Result<Slot> take_slot(const Submission& submission);
  [[nodiscard]] Status start_when_idle(const OrderedStream& stream, const Slot& slot);
  [[nodiscard]] Result<std::shared_ptr<CapturedCalls>> calls_of_capture(const Submission& submission);
  core::Instance& instance_;
  std::map<void*, std::unique_ptr<Words>> words_;  // by context
  std::vector<std::unique_ptr<OrderedStream>> streams_;
};

class Order final : public core::OrderState, public Outcomes, public std::enable_shared_from_this<Order> {
 public:
  explicit Order(Engine& engine) : engine_(engine) {}
  ~Order() override;
  /// The order of a communicator; null: none.
  [[nodiscard]] static Order* of(const core::Communicator& comm) {
    return static_cast<Order*>(comm.order.get());
  }

  /// Later calls run in this stream; null: on the host. `functions`: which ones.
  enum class Functions : uint8_t { enqueue_only, all };
  void set_stream(OrderedStream* stream, Functions functions) {
    stream_ = stream;
    functions_ = functions;
  }
  [[nodiscard]] OrderedStream* stream() const { return stream_; }
  /// Whether ordinary calls are enqueued.
  [[nodiscard]] bool enqueues_all() const { return stream_ != nullptr && functions_ == Functions::all; }
  [[nodiscard]] Result<device::Capture> capture() const { return device::capture_of(stream_->gpu); }
  core::Ref<core::Counted> handle;  ///< the object that the program has passed as stream; null: none
  bool pinned_in_order = false;     ///< pinned host memory is accessed in stream order, too
  bool freed = false;               ///< the communicator has been: its windows return the errors
  /// Executes the calls for which there are kernels, since all ranks of the communicator have promised; null:
  /// the host executes all calls.
  stream::Queue* kernels = nullptr;

  /// Enqueues a call. `done`: finished after the call; null: none. Precondition: there is a stream.
  [[nodiscard]] Status enqueue(core::Communicator& comm, const char* name, std::unique_ptr<Call> call,
                               const device::Capture& capture, core::Request* done = nullptr);
  /// Enqueues a call and waits until it has run; without a call waits for the stream. `reason`: why the host
  /// must wait, for the slow path. Error during a capture.
  [[nodiscard]] Status run_and_wait(core::Communicator& comm, const char* name, std::unique_ptr<Call> call,
                                    const device::Capture& capture, const char* reason);
  /// Waits until the calls that have been enqueued, and captured calls that are overdue, have run; the stream
  /// may have other work.
  void wait_for_calls(core::Instance& instance);
  /// Whether a call has failed since the last take_error().
  [[nodiscard]] bool failed() const { return !first_error_.ok(); }
  /// Returns the first error of calls since the last time; success: none.
  [[nodiscard]] Status take_error();
  Engine& engine() const { return engine_; }

  void call_failed(const char* name, const Error& error) override;
  void call_ended(bool captured) override;
  void call_overdue(const char* name, const Error& error) override {
    call_failed(name, error);
    ++overdue_;
  }
  void overdue_call_ended() override { --overdue_; }
  void call_skipped(const char* name, const Error& error) override {
    call_failed(name, error);
    skipping_ = true;
  }
  [[nodiscard]] bool skips(uint64_t number) const override {
    return overdue_ != 0 || skipping_ || (number != 0 && number <= skipped_through_);
  }

 private:
  Engine& engine_;
  OrderedStream* stream_ = nullptr;
  Functions functions_ = Functions::all;
  uint64_t pending_ = 0;  // calls, not counting captured ones
  uint64_t overdue_ = 0;  // calls, also captured ones
  // Once a call has been skipped, so are all that are enqueued until the program has the error.
  bool skipping_ = false;
  uint64_t enqueued_ = 0, skipped_through_ = 0;  // numbers of calls
  OrderedStream* last_stream_ = nullptr;         // of the last call
  std::shared_ptr<std::atomic<bool>> last_ended_;
  Status first_error_;
};

}  // namespace weft::stream::order
