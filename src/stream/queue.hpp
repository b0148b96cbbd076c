// SPDX-License-Identifier: BSD-3-Clause
// Queue: the enqueued sends and receives of one communicator with a GPU stream. What is under way goes out as
// the operations of one kernel launch whenever something has to be complete, and while the host waits in MPI.
// Threading: under the instance lock.
#pragma once
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "coll/call.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "device/stream.hpp"
#include "p2p/transfer.hpp"
#include "stream/mailbox.hpp"
#include "stream/own.hpp"
#include "stream/request.hpp"
#include "stream/stream.hpp"

namespace weft::stream {

/// Where a status goes: null for MPI_STATUS_IGNORE. An MPI_Status that the GPU can write.
using StatusAddress = void*;

class Queue final : public core::StreamState, public core::Poller {
 public:
  Queue(core::Communicator& comm, core::Ref<Stream> stream, std::unique_ptr<Mailbox> mailbox);
  ~Queue() override;

  [[nodiscard]] Status send(const p2p::Buffer& buffer, int dest, int tag);
  [[nodiscard]] Status receive(const p2p::Buffer& buffer, int source, int tag, StatusAddress status);
  [[nodiscard]] Result<core::Request*> start_send(const p2p::Buffer& buffer, int dest, int tag);
  [[nodiscard]] Result<core::Request*> start_receive(const p2p::Buffer& buffer, int source, int tag);
  /// A collective; blocking as they all are: what follows in the stream finds it done.
  [[nodiscard]] Status collective(const coll::Call& call);
  /// The stream waits for these requests, which end. `statuses`: empty, or one each.
  [[nodiscard]] Status wait(std::span<Request* const> requests, std::span<const StatusAddress> statuses);

  /// Collective: waits for the stream, then closes the mailbox.
  [[nodiscard]] Status close();
  /// Waits until the stream has done what was enqueued.
  [[nodiscard]] Status settle();
  [[nodiscard]] Stream& stream() const { return *stream_; }
  /// Lets go of the peers' memory at the end of MPI, when all streams have settled.
  void abandon() { mailbox_.reset(); }
  bool poll() override;

 private:
  using Op = device::kernel::enqueue::Op;
  struct UnderWay {
    Op op;
    Request* request;  ///< null: of a blocking call
    bool launched;
    bool captured;
  };
  using Chosen = std::bitset<device::kernel::enqueue::kOps>;

  [[nodiscard]] Result<Side> describe(const p2p::Buffer& buffer, int tag) const;
  [[nodiscard]] Status add(Op::Kind kind, const Side& side, int peer, Request* request, StatusAddress status);
  [[nodiscard]] Status launch(const Chosen& required);
  [[nodiscard]] Status takes(const coll::Call& call) const;
  [[nodiscard]] Status alone(const coll::Call& call);
  [[nodiscard]] Status complete_last();
  [[nodiscard]] Status same_capture(bool now) const;
  [[nodiscard]] Result<bool> capturing() const { return device::capturing(*stream_->gpu); }
  [[nodiscard]] uint16_t take_state(bool captured);
  [[nodiscard]] Status write_status(StatusAddress status, const core::Completion& completion) const;
  [[nodiscard]] Status report_fault();
  /// Clears used_ when the stream has nothing to do.
  [[nodiscard]] Status look_whether_idle();
  void watch();

  core::Communicator& comm_;
  core::Ref<Stream> stream_;
  std::unique_ptr<Mailbox> mailbox_;
  Own own_;
  std::vector<UnderWay> under_way_;  // in the order of the calls
  std::bitset<device::kernel::enqueue::kStates> states_;
  bool used_ = false;     // something was launched since the stream was seen idle
  bool watched_ = false;  // among the instance's pollers
  uint64_t look_at_ = 0;  // when poll() looks next, ns
};

/// Gives `comm`, just made, a GPU stream; a stream without one is only remembered. Collective.
[[nodiscard]] Status attach(core::Communicator& comm, core::Ref<Stream> stream);
/// Before a communicator goes: collective where it has a queue.
[[nodiscard]] Status detach(core::Communicator& comm);
/// The communicator's queue; an error that says what is missing.
[[nodiscard]] Result<Queue*> queue_of(const core::Communicator& comm);
/// The stream it was made with; null: it has none.
[[nodiscard]] Stream* stream_of(const core::Communicator& comm);
/// The end of MPI: waits for all streams; then, when all ranks have done so, lets go of the peers' memory.
void settle_all();
void abandon_all();

}  // namespace weft::stream
