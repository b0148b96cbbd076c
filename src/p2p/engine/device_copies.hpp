// SPDX-License-Identifier: BSD-3-Clause
// DeviceCopies: the copies of GPU memory on behalf of requests: their submission in batches, and their end.
// Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/trace.hpp"
#include "core/request_table.hpp"
#include "device/copy.hpp"
#include "device/queue/submission_batcher.hpp"
#include "p2p/message/ready_to_receive.hpp"
#include "p2p/message/transfer.hpp"
#include "transport/cuda_ipc/ipc.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {

class Engine;

/// One device copy on behalf of a request: a receive's get, or a send's put.
struct DeviceCopy {
  Transfer* request = nullptr;
  uint32_t peer = 0;
  core::RequestId sender = core::kNoRequest;  ///< get: the sender, which awaits a FIN; none: no FIN is due
  transport::cuda_ipc::Mapping* mapping = nullptr;
  std::byte* remote = nullptr;    ///< address in `mapping`
  ReadyToReceive* rtr = nullptr;  ///< put: the claimed RTR; null: a get
  bool bounce = false;            ///< put: into a bounce buffer of the receiver
};

/// A submission in flight and the copies it serves.
struct CopySubmission {
  device::Ticket ticket;
  DeviceCopy copy;
  std::vector<DeviceCopy> rest;    ///< of a batch
  device::Ticket second_ticket{};  ///< upload of the other staging chunk
  uint64_t traced_since = trace::copy_start();
};

class DeviceCopies {
 public:
  explicit DeviceCopies(Engine& engine) : engine_(engine) {}
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  /// The request completes with its copy.
  void start_get(const DeviceCopy& get) {
    pending_gets_.push_back(get);
    if (!collecting_) submit_gets();
  }
  /// The same. Puts between start_batch() and end_batch() are submitted together, or with the next round of
  /// progress: the thread that batches may wait meanwhile, also for a message that another one has sent.
  void start_put(const DeviceCopy& put) {
    if (batching_)  // two copies in one submission take 3 us less than two submissions
      pending_puts_.push_back(put);
    else
      submit_copy(put, next_stream(device::StreamRole::out, device::StreamRole::aux));
  }
  void start_batch() { batching_ = true; }
  void end_batch();
  /// Finishes its copies when the submission has ended.
  void track(CopySubmission submission);
  /// Copies a message of this process to itself.
  void copy_inside(Transfer& t, Transfer& sender);
  /// Returns the stream for the next submission; submissions alternate between two streams.
  [[nodiscard]] device::StreamRole next_stream(device::StreamRole first, device::StreamRole second);

  /// Begins a round of progress. Until submit_collected(), gets are collected, since more may follow at once.
  void begin_round() {
    batcher_.progress();
    if (!pending_puts_.empty()) [[unlikely]]
      submit_puts();
    collecting_ = true;
  }
  void submit_collected() {
    collecting_ = false;
    if (!pending_gets_.empty() && submissions_.empty()) submit_gets();
  }
  /// Finishes the submissions that have ended. Returns false if none has.
  bool poll();
  /// The posting of a receive into device memory begins or ends.
  void begin_post() { batcher_.begin_post(); }
  void end_post() { batcher_.end_post(); }
  /// Active requests on device memory announce further copies: the resident kernel does not hit its idle
  /// timeout.
  void keep_running();

  /// Returns whether a submitted copy serves the request.
  [[nodiscard]] bool copying(const Transfer& t) const;
  /// Drops the copies of a request that are not submitted yet.
  void drop_pending(const Transfer& t);
  /// Returns whether a get of a message of the peer is in flight.
  [[nodiscard]] bool getting_from(uint32_t peer) const;
  [[nodiscard]] bool idle() const {
    return submissions_.empty() && pending_gets_.empty() && pending_puts_.empty();
  }
  /// Most messages to deliver in this round of progress.
  [[nodiscard]] size_t max_messages() const { return batcher_.max_messages(); }
  [[nodiscard]] bool expects_burst() const { return batcher_.expects_burst(); }

 private:
  void submit_gets();
  void submit_puts();
  [[nodiscard]] uint64_t bytes_in_flight() const;
  void submit_batches(std::vector<DeviceCopy>& pending, device::StreamRole stream, size_t max_submissions);
  void submit_copy(const DeviceCopy& copy, device::StreamRole stream);
  void submit_batch(const DeviceCopy* copies, size_t count, device::StreamRole stream);
  bool poll_submissions();
  void finish_copy(const DeviceCopy& copy, Status outcome);
  void finish_put(const DeviceCopy& put, Status outcome);
  void finish_receive(const DeviceCopy& copy, Status outcome);
  void finish_submission(CopySubmission& submission, Status outcome);
  void finish_senders(const CopySubmission& submission);

  Engine& engine_;
  device::SubmissionBatcher batcher_;
  std::vector<DeviceCopy> pending_gets_;  // matched, not submitted yet
  std::vector<DeviceCopy> submitting_;    // being submitted by submit_batches()
  std::vector<DeviceCopy> pending_puts_;  // RTR claimed, not submitted yet
  bool batching_ = false;                 // between start_batch() and end_batch()
  bool collecting_ = false;               // gets wait for submit_gets()
  std::deque<CopySubmission> submissions_;
};

}  // namespace weft::p2p
