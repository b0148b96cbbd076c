// SPDX-License-Identifier: BSD-3-Clause
// Queue: the operations that kernels execute on a communicator with a GPU stream. One kernel launch carries
// all pending sends and receives, whenever one has to complete and while the host waits in MPI.
// Threading: under the instance lock, which launches release.
#pragma once
#include <atomic>
#include <bitset>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "coll/schedule/call.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "device/stream.hpp"
#include "p2p/message/transfer.hpp"
#include "stream/mailbox.hpp"
#include "stream/request.hpp"
#include "stream/self_messages.hpp"
#include "stream/side.hpp"
#include "stream/stream.hpp"
#include "stream/turns.hpp"
#include "stream/view.hpp"

namespace weft::stream {

/// Address of a GPU-writable MPI_Status; null for MPI_STATUS_IGNORE.
using StatusAddress = void*;

class Queue final : public core::StreamState, public core::Poller, private Copies {
 public:
  Queue(core::Communicator& comm, core::Ref<Stream> stream, std::unique_ptr<Mailbox> mailbox);
  ~Queue() override;

  // Enqueued operations (queue.cpp).
  [[nodiscard]] Status send(const p2p::Buffer& buffer, int dest, int tag);
  [[nodiscard]] Status receive(const p2p::Buffer& buffer, int source, int tag, StatusAddress status);
  [[nodiscard]] Result<core::Request*> start_send(const p2p::Buffer& buffer, int dest, int tag);
  [[nodiscard]] Result<core::Request*> start_receive(const p2p::Buffer& buffer, int source, int tag);
  /// Enqueues a collective, which completes before later work in the stream.
  [[nodiscard]] Status collective(const coll::Call& call);
  /// The kernel parameter of a collective that moves data between ranks by messages of any sizes. Null on
  /// all ranks: too few thread blocks run at a time.
  [[nodiscard]] Result<std::unique_ptr<device::kernel::PairBlocks>> plan_blocks(const coll::Call& call) const;
  /// Enqueues the collective of a parameter, which may be used any number of times.
  [[nodiscard]] Status move_blocks(device::kernel::PairBlocks& planned);
  /// GPU memory for the reduction that is a barrier.
  [[nodiscard]] void* barrier_word() const;
  /// Makes the stream wait for the requests, which end. `statuses`: empty, or one each.
  [[nodiscard]] Status wait(std::span<Request* const> requests, std::span<const StatusAddress> statuses);
  /// The program frees the request of an enqueued operation, which ends like one of an ordinary call.
  void adopt(Request& request);

  // Ordinary calls (ordinary.cpp).
  /// Starts the messages of a request, which ends when all are complete. On error nothing is started.
  [[nodiscard]] Status start(Request& request, std::span<const Part> parts);
  /// Starts a collective: it is enqueued when the request is waited for, after those started before.
  [[nodiscard]] Status start_collective(Request& request);
  /// Error if the stream cannot wait for the request: it was started in a capture, or before the capture.
  [[nodiscard]] Status check_wait(const Request& request) const;
  /// Makes the stream wait for the requests, which end also after an error. Precondition: check_wait().
  [[nodiscard]] Status await(std::span<Request* const> requests);
  /// The host waits for the requests: all complete, with their statuses. Precondition: no capture.
  [[nodiscard]] Status finish(std::span<Request* const> requests);
  /// The program tests the request: it completes while the host is in MPI. Error if it was captured.
  [[nodiscard]] Status expect(Request& request);
  /// The program cancels the request: a receive that no message has matched ends, and so does what is left of
  /// a capture that is over.
  [[nodiscard]] Status cancel(Request& request);
  /// Before a call that the host executes: enqueues started collectives; with `in_stream`, error if messages
  /// are pending, which the stream would only reach after the call.
  [[nodiscard]] Status before_host_call(bool in_stream);
  /// Like start(), for a send and a receive in one buffer; the caller awaits the request at once. The data
  /// must fit the part of the mailbox for messages to oneself.
  [[nodiscard]] Status replace(Request& request, const Part& send, const Part& receive);
  [[nodiscard]] core::Communicator& comm() const { return comm_; }

  /// Enqueues later operations in another stream of the same GPU, which the caller orders behind the earlier
  /// ones. Default streams may be passed.
  [[nodiscard]] Status redirect(void* handle);
  /// The same, and orders later operations behind the earlier ones, outside of captures. Null: the stream of
  /// the communicator's creation.
  [[nodiscard]] Status follow(const device::UserStream* stream);
  /// Makes kernels leave if `comm` is the communicator of the queue, which has been revoked.
  void cancel_if_of(const core::Communicator& comm) {
    if (&comm == &comm_) mailbox_->cancel();
  }

  /// Collective: waits for the stream, then closes the mailbox; local after a failure or revocation.
  [[nodiscard]] Status close();
  /// Waits until the stream has completed the enqueued operations.
  [[nodiscard]] Status settle();
  [[nodiscard]] Stream& stream() const { return *stream_; }
  /// Unmaps the peers' memory at MPI_Finalize, after all streams have completed.
  void abandon() { mailbox_.reset(); }
  bool poll() override;
  /// Returns the failure of a rank, or else an error that a kernel reported since the last call.
  [[nodiscard]] Status failure();

 private:
  using Op = device::kernel::enqueue::Op;
  struct PendingOp {
    Op op;
    Request* request;                                     ///< null: of a blocking call
    Request* partner;                                     ///< of a copy: the request of the send; null: none
    device::kernel::enqueue::Runs layout, source_layout;  ///< word 0: contiguous
    bool launched;
    uint64_t capture;  ///< as Request::capture
    [[nodiscard]] bool belongs_to(const Request* one) const { return request == one || partner == one; }
  };
  using Chosen = std::bitset<device::kernel::enqueue::kOps>;

  [[nodiscard]] Status add(PendingOp&& pending);
  [[nodiscard]] Status add(Op::Kind kind, const Side& side, int peer, Request* request, StatusAddress status,
                           uint8_t flags = 0);
  [[nodiscard]] Result<PendingOp> copy_of(const Side& to, const Side& from) const;
  [[nodiscard]] device::kernel::enqueue::Batch make_batch(std::span<const PendingOp> ops,
                                                          const Chosen& required) const;
  /// `keep`: the states of the required operations stay allocated.
  enum class States : uint8_t { free, keep };
  [[nodiscard]] Status launch(const Chosen& required, States states = States::free);
  [[nodiscard]] Status copy_now(const Side& to, const Side& from) override;
  [[nodiscard]] Status copy_later(const Side& to, const Side& from, Request& send, Request& receive) override;
  [[nodiscard]] Status complete_last();
  /// Error if operations of another capture, or outside of captures, are unfinished. Drops the freed ones of
  /// a capture.
  [[nodiscard]] Status same_capture(uint64_t now);
  /// The id of the capture of the stream; 0: none.
  [[nodiscard]] Result<uint64_t> capturing() const;
  [[nodiscard]] uint16_t allocate_state(bool captured);
  [[nodiscard]] Status check_ranks();
  [[nodiscard]] Status come_behind();
  [[nodiscard]] Status report_fault();
  void drop(std::span<Request* const> requests);
  /// Clears used_ if the stream is idle.
  [[nodiscard]] Status check_idle();
  void start_polling();

  [[nodiscard]] Status begin(Request& request, std::span<const Part> parts, std::span<const Side> sides);
  /// Before a wait: messages to oneself. Each request has its outcome.
  void finish_self(std::span<Request* const> requests);
  [[nodiscard]] Chosen entries_of(std::span<Request* const> requests);
  /// Whether an operation of the request is not in the stream, or does not have to complete there.
  [[nodiscard]] bool unfinished(const Request& request) const;
  /// Enqueues the collectives among the requests, and those started before. Each has its outcome; the error
  /// returned is of await_freed().
  [[nodiscard]] Status enqueue_collectives(std::span<Request* const> requests);
  /// Makes the stream wait for the messages of requests that the program has freed. With `more`: only if
  /// operations with these sides might not fit a launch with those pending.
  [[nodiscard]] Status await_freed(std::span<const Side> more = {});
  void take_over(std::span<Request* const> requests);
  /// The request ends for the program.
  void retire(Request& request);
  void forget(Request& request);
  void undo(Request& request);
  bool complete_finished();
  bool fail_open_requests();

  core::Communicator& comm_;
  core::Ref<Stream> stream_;
  device::UserStream target_;  // that of stream_, unless redirected
  std::unique_ptr<Mailbox> mailbox_;
  SelfMessages self_messages_;
  View view_;
  std::vector<PendingOp> pending_;  // in call order
  std::bitset<device::kernel::enqueue::kStates> states_;
  std::vector<Request*> open_;        // of ordinary calls: started, and neither complete nor awaited
  std::deque<Request*> collectives_;  // of open_: collectives that are not enqueued, in call order
  size_t kept_ = 0;                   // states of operations that are not pending any more
  Turns turns_;
  std::thread::id caller_;  // of the last nonblocking call or test: the only thread whose polls launch
  const char* collective_name_ = nullptr;  // of the collective that is enqueued; null: of the current call
  bool enqueuing_ = false;                 // a thread enqueues collectives, and may have released the lock
  bool polls_ = false;                     // in poll(), which keeps the lock: the stream is idle
  bool tested_ = false;                    // the program waits on the host for the requests of open_
  bool used_ = false;                      // launched since the stream was last seen idle
  bool registered_ = false;                // in the instance's poller list
  uint16_t settling_ = 0;                  // threads in settle(), for which the stream has to become idle
  uint64_t next_poll_ns_ = 0;              // time of the next check by poll(), monotonic ns
  std::optional<void*> behind_;  // stream of earlier operations, while a capture forbids to come behind it
};

/// Before a wait for the requests: the host waits for the stream if kernels may have matched a cancelled one.
[[nodiscard]] Status finish_cancelled(Queue& queue, std::span<Request* const> requests);

/// Collective: attaches a stream to `comm`, just created; a stream without GPU is only stored.
[[nodiscard]] Status attach(core::Communicator& comm, core::Ref<Stream> stream);
/// Before a communicator is freed; collective if it has a queue.
[[nodiscard]] Status detach(core::Communicator& comm);
/// The queue of the communicator, or an error that tells what is missing.
[[nodiscard]] Result<Queue*> queue_of(const core::Communicator& comm);
/// The stream of the communicator; null: none.
[[nodiscard]] Stream* stream_of(const core::Communicator& comm);
/// MPI_Finalize: settle_all() waits for all streams; after all ranks have done so, abandon_all() unmaps the
/// peers' memory.
void settle_all(core::Instance& instance);
void abandon_all(core::Instance& instance);

}  // namespace weft::stream
