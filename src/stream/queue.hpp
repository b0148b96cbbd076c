// SPDX-License-Identifier: BSD-3-Clause
// Queue: the enqueued sends and receives of a communicator with a GPU stream. One kernel launch carries all
// pending operations, whenever one has to complete and while the host waits in MPI. Threading: under the
// instance lock.
#pragma once
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
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
#include "stream/stream.hpp"
#include "stream/view.hpp"

namespace weft::stream {

/// Address of a GPU-writable MPI_Status; null for MPI_STATUS_IGNORE.
using StatusAddress = void*;

class Queue final : public core::StreamState, public core::Poller {
 public:
  Queue(core::Communicator& comm, core::Ref<Stream> stream, std::unique_ptr<Mailbox> mailbox);
  ~Queue() override;

  [[nodiscard]] Status send(const p2p::Buffer& buffer, int dest, int tag);
  [[nodiscard]] Status receive(const p2p::Buffer& buffer, int source, int tag, StatusAddress status);
  [[nodiscard]] Result<core::Request*> start_send(const p2p::Buffer& buffer, int dest, int tag);
  [[nodiscard]] Result<core::Request*> start_receive(const p2p::Buffer& buffer, int source, int tag);
  /// Enqueues a collective, which completes before later work in the stream.
  [[nodiscard]] Status collective(const coll::Call& call);
  /// Makes the stream wait for the requests, which end. `statuses`: empty, or one each.
  [[nodiscard]] Status wait(std::span<Request* const> requests, std::span<const StatusAddress> statuses);

  /// Enqueues later operations in another stream of the same GPU, which the caller orders behind the earlier
  /// ones. Default streams may be passed.
  [[nodiscard]] Status redirect(void* handle);
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

 private:
  using Op = device::kernel::enqueue::Op;
  struct PendingOp {
    Op op;
    Request* request;  ///< null: of a blocking call
    bool launched;
    bool captured;
  };
  using Chosen = std::bitset<device::kernel::enqueue::kOps>;

  [[nodiscard]] Result<Side> describe(const p2p::Buffer& buffer, int tag) const;
  [[nodiscard]] Status add(Op::Kind kind, const Side& side, int peer, Request* request, StatusAddress status);
  [[nodiscard]] Status launch(const Chosen& required);
  [[nodiscard]] Status check_supported(const coll::Call& call) const;
  [[nodiscard]] Status copy_single_rank(const coll::Call& call);
  [[nodiscard]] Status complete_last();
  [[nodiscard]] Status same_capture(bool now) const;
  [[nodiscard]] Result<bool> capturing() const { return device::capturing(target_); }
  [[nodiscard]] uint16_t allocate_state(bool captured);
  [[nodiscard]] Status write_status(StatusAddress status, const core::Completion& completion) const;
  [[nodiscard]] Status report_fault();
  [[nodiscard]] Status check_ranks();
  void drop(std::span<Request* const> requests);
  /// Clears used_ if the stream is idle.
  [[nodiscard]] Status check_idle();
  void start_polling();

  core::Communicator& comm_;
  core::Ref<Stream> stream_;
  device::UserStream target_;  // that of stream_, unless redirected
  std::unique_ptr<Mailbox> mailbox_;
  SelfMessages self_messages_;
  View view_;
  std::vector<PendingOp> pending_;  // in call order
  std::bitset<device::kernel::enqueue::kStates> states_;
  bool used_ = false;          // launched since the stream was last seen idle
  bool registered_ = false;    // in the instance's poller list
  uint64_t next_poll_ns_ = 0;  // time of the next check by poll(), monotonic ns
};

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
