// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/device_copies.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/trace.hpp"
#include "device/copy.hpp"
#include "device/queue/submission_batcher.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/memory/device_copy.hpp"

namespace weft::p2p {
namespace {

using device::StreamRole;

using device::SubmissionBatcher;

constexpr size_t kMaxPolledSubmissions = 4;  // submissions polled per round, oldest first

config::Size setting_submissions("gpu.submissions", 3, 1, 64,
                                 "Number of GPU copy submissions in flight at a time; messages matched "
                                 "meanwhile are batched into the next one. Larger values start copies "
                                 "earlier, in smaller batches.");

counters::Counter submitted("p2p.copy_submissions", counters::Unit::events,
                            "Submissions of GPU copies for messages");
counters::Counter submitted_copies("p2p.submitted_copies", counters::Unit::events,
                                   "GPU copies in these submissions");

/// Returns whether one batch may serve both copies.
bool share_batch(const DeviceCopy& a, const DeviceCopy& b) {
  const device::Memory &to = a.request->memory, &with = b.request->memory;
  return !a.bounce && !b.bounce && a.mapping->memory().context == b.mapping->memory().context &&
         to.kind == with.kind && to.context == with.context && a.request->contiguous && b.request->contiguous;
}

}  // namespace

// Small messages are collected while a program posts a burst of receives as long as the last one. They are
// submitted with the last receive of the burst, or when the program waits. Messages matched while
// gpu.submissions are in flight are submitted together when one of these completes.
void DeviceCopies::submit_gets() {
  if (batcher_.collects(pending_gets_.size(), pending_gets_.back().request->expected)) return;
  submit_batches(pending_gets_, StreamRole::in, setting_submissions);
}

bool DeviceCopies::copying(const Transfer& t) const {
  const auto serves = [&](const DeviceCopy& copy) { return copy.request == &t; };
  return std::any_of(submissions_.begin(), submissions_.end(), [&](const CopySubmission& submission) {
    return serves(submission.copy) || std::any_of(submission.rest.begin(), submission.rest.end(), serves);
  });
}

bool DeviceCopies::getting_from(uint32_t peer) const {
  return std::any_of(submissions_.begin(), submissions_.end(), [&](const CopySubmission& submission) {
    const DeviceCopy& copy = submission.copy;
    return copy.peer == peer && copy.mapping != nullptr && copy.rtr == nullptr;
  });
}

/// Returns the bytes of all submissions in flight.
uint64_t DeviceCopies::bytes_in_flight() const {
  uint64_t bytes = 0;
  for (const CopySubmission& submission : submissions_) {
    bytes += submission.copy.request->expected;
    for (const DeviceCopy& copy : submission.rest) bytes += copy.request->expected;
  }
  return bytes;
}

/// Submits `pending` copies in batches until `max_submissions` are in flight.
void DeviceCopies::submit_batches(std::vector<DeviceCopy>& pending, StreamRole stream,
                                  size_t max_submissions) {
  // A failure may complete requests and match others.
  const bool was_collecting = std::exchange(collecting_, true);
  submitting_.swap(pending);
  size_t first = 0;
  while (first < submitting_.size() && submissions_.size() < max_submissions) {
    const DeviceCopy* const copies = &submitting_[first];
    const size_t count = SubmissionBatcher::batch_size(
        submitting_.size() - first, [&](size_t i) { return copies[i].request->expected; },
        [&](size_t i) { return share_batch(copies[0], copies[i]); }, [&] { return bytes_in_flight(); });
    submit_batch(copies, count, next_stream(stream, StreamRole::aux));
    first += count;
  }
  pending.insert(pending.begin(), submitting_.begin() + static_cast<ptrdiff_t>(first), submitting_.end());
  submitting_.clear();
  collecting_ = was_collecting;
}

StreamRole DeviceCopies::next_stream(StreamRole first, StreamRole second) {
  return batcher_.alternates(!submissions_.empty()) ? second : first;
}

void DeviceCopies::track(CopySubmission submission) {
  submitted.add();
  submitted_copies.add(1 + submission.rest.size());
  submissions_.push_back(std::move(submission));
}

void DeviceCopies::submit_copy(const DeviceCopy& copy, StreamRole stream) {
  if (copy.bounce) return engine_.puts->submit_to_bounce(copy, stream);
  const trace::Range range("p2p.submit_copy");
  const View remote{copy.remote, nullptr, 0, copy.mapping->memory()}, local = view_of(*copy.request);
  const bool put = copy.rtr != nullptr;
  auto ticket = copy::submit(put ? remote : local, put ? local : remote, copy.request->expected, stream);
  if (!ticket) return finish_copy(copy, std::move(ticket).error());
  track({std::move(*ticket), copy, {}});
}

void DeviceCopies::submit_batch(const DeviceCopy* copies, size_t count, StreamRole stream) {
  if (count == 1) return submit_copy(copies[0], stream);
  const trace::Range range("p2p.submit_batch");
  const bool put = copies[0].rtr != nullptr;
  device::CopyOp operations[SubmissionBatcher::kMaxBatchCopies] = {};
  for (size_t i = 0; i < count; ++i) {
    const auto [copy, local] = std::pair(copies[i], copies[i].request->address);
    operations[i] = put ? device::CopyOp{copy.remote, local, copy.request->expected}
                        : device::CopyOp{local, copy.remote, copy.request->expected};
  }
  const device::Memory &remote = copies[0].mapping->memory(), &local = copies[0].request->memory;
  const bool beside = !submissions_.empty() && submissions_.back().ticket.on_copy_engine();
  auto ticket =
      device::copy_batch_async(operations, count, put ? remote : local, put ? local : remote, stream, beside);
  if (!ticket) {  // the driver may accept single copies
    for (size_t i = 0; i < count; ++i) submit_copy(copies[i], stream);
    return;
  }
  track({std::move(*ticket), copies[0], {copies + 1, copies + count}});
}

void DeviceCopies::copy_inside(Transfer& t, Transfer& sender) {
  if (sender.bytes == 0) {
    engine_.requests.complete(sender);
    return engine_.requests.complete(t);
  }
  auto ticket = copy::submit(view_of(t), view_of(sender), sender.bytes, StreamRole::local);
  const DeviceCopy copy{&t, engine_.instance.self, engine_.requests.enlist(sender)};
  if (!ticket) return finish_copy(copy, std::move(ticket).error());
  track({std::move(*ticket), copy, {}});
}

void DeviceCopies::submit_puts() { submit_batches(pending_puts_, StreamRole::out, SIZE_MAX); }

void DeviceCopies::end_batch() {
  batching_ = false;
  if (!pending_puts_.empty()) submit_puts();
}

void DeviceCopies::drop_pending(const Transfer& t) {
  for (std::vector<DeviceCopy>* const pending : {&pending_gets_, &pending_puts_})
    std::erase_if(*pending, [&](const DeviceCopy& copy) {
      if (copy.request != &t) return false;
      engine_.importer().release(copy.mapping);
      return true;
    });
}

void DeviceCopies::keep_running() {
  const Transfer* const active = engine_.classifications.active();
  if (active != nullptr && batcher_.keep_running_due()) device::keep_running(active->memory);
}

bool DeviceCopies::poll() {
  if (submissions_.empty()) return false;
  const bool progressed = batcher_.poll_due() && poll_submissions();
  if (!pending_gets_.empty()) submit_gets();
  return progressed;
}

bool DeviceCopies::poll_submissions() {
  bool progressed = false;
  for (size_t i = 0; i < submissions_.size() && i < kMaxPolledSubmissions;) {
    Status outcome;
    if (submissions_[i].ticket.pending()) {
      auto ready = device::done(submissions_[i].ticket);
      if (ready && !*ready) {
        ++i;
        continue;
      }
      if (!ready) outcome = std::move(ready).error();
    }
    if (submissions_[i].second_ticket.pending()) {
      if (outcome) {
        submissions_[i].ticket = std::move(submissions_[i].second_ticket);
        continue;
      }
      (void)device::wait(submissions_[i].second_ticket);  // its error is known already
    }
    CopySubmission submission = std::move(submissions_[i]);
    submissions_.erase(submissions_.begin() + static_cast<ptrdiff_t>(i));
    finish_submission(submission, std::move(outcome));
    progressed = true;
  }
  return progressed;
}

void DeviceCopies::finish_copy(const DeviceCopy& copy, Status outcome) {
  const trace::Range range("p2p.finish_copy");
  if (copy.rtr != nullptr) return finish_put(copy, std::move(outcome));
  if (copy.sender != core::kNoRequest) engine_.rendezvous.finish_sender(copy.peer, copy.sender);
  finish_receive(copy, std::move(outcome));
}

void DeviceCopies::finish_put(const DeviceCopy& put, Status outcome) {
  engine_.puts->finish(put, std::move(outcome));
}

void DeviceCopies::finish_receive(const DeviceCopy& copy, Status outcome) {
  if (copy.mapping != nullptr) engine_.importer().release(copy.mapping);
  if (!outcome) copy.request->outcome = std::move(outcome);
  Peer& peer = engine_.peers[copy.peer];
  peer.reply_due = true;
  peer.unmapped = false;
  engine_.requests.complete(*copy.request);
}

// The senders of a batch are notified first, since they are waiting.
void DeviceCopies::finish_submission(CopySubmission& submission, Status outcome) {
  if (submission.traced_since != 0) [[unlikely]] {
    uint64_t bytes = submission.copy.request->expected;
    for (const DeviceCopy& copy : submission.rest) bytes += copy.request->expected;
    trace::record_copy(submission.copy.rtr != nullptr ? "copies out" : "copies in", submission.traced_since,
                       bytes);
  }
  if (submission.rest.empty()) return finish_copy(submission.copy, std::move(outcome));
  const bool put = submission.copy.rtr != nullptr;
  if (!put) finish_senders(submission);
  const auto finish = put ? &DeviceCopies::finish_put : &DeviceCopies::finish_receive;
  for (const DeviceCopy& copy : submission.rest)
    (this->*finish)(copy, outcome ? Status() : Status(outcome.error().copy()));
  (this->*finish)(submission.copy, std::move(outcome));
}

// Sends one FIN message for all consecutive copies of one peer.
void DeviceCopies::finish_senders(const CopySubmission& submission) {
  Finished message;
  static_cast<Header&>(message) = Header{Type::finish_many};
  uint32_t to = submission.copy.peer;
  const auto flush = [&] {
    if (message.length == 1)
      engine_.rendezvous.finish_sender(to, message.senders[0]);
    else if (message.length > 1)
      engine_.outgoing.post_control(to, &message,
                                    sizeof(Header) + message.length * sizeof message.senders[0]);
    message.length = 0;
  };
  const auto add = [&](const DeviceCopy& copy) {
    if (copy.peer != to || message.length == Finished::kMax) flush();
    to = copy.peer;
    message.senders[message.length++] = copy.sender;
  };
  add(submission.copy);
  for (const DeviceCopy& copy : submission.rest) add(copy);
  flush();
}

}  // namespace weft::p2p
