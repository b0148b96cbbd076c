// SPDX-License-Identifier: BSD-3-Clause
#include "stream/order/record.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/stream_wait.hpp"
#include "base/trace.hpp"
#include "stream/order/executor.hpp"

namespace weft::stream::order {
namespace {

config::Size setting_timeout_s(
    "stream.timeout_s", 0, 0, 86'400,
    "Time in seconds after which a GPU stream no longer waits for an MPI call in its order: the stream goes "
    "on, and the next call on the communicator returns an error that names the call. 0: no limit.");

counters::Counter executed("stream.ordered_calls", counters::Unit::events,
                           "Calls that the host has executed in stream order");

Status run_reporting_memory(Call& call) {
  try {
    return call.run();
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return Error(Errc::no_mem, "memory is exhausted");
}

}  // namespace

/// Ends the wait of the stream, not that of the call, after the limit (T10). A call for which the host waits
/// has no limit: its buffers are those of the program again when it returns.
class Record::Limit final : public StreamWait {
 public:
  explicit Limit(Record& record) : StreamWait(record.place_.stream), record_(record) {
    if (setting_timeout_s == 0 || record.done != nullptr) return;
    seconds_ = setting_timeout_s;
    end_ns_ = monotonic_ns() + seconds_ * 1'000'000'000;
  }
  void waits(int rank, uint64_t now) override {
    if (end_ns_ == 0 || now < end_ns_) return;
    if (!passed_) {
      passed_ = true;
      record_.outcomes_->call_overdue(record_.name_, error(rank));
      record_.let_stream_go_on();
    }
    record_.place_.executor.skip_started(record_.place_.queue);
  }
  [[nodiscard]] bool passed() const { return passed_; }

 private:
  [[nodiscard]] Error error(int rank) const {
    char waited[80];
    std::snprintf(waited, sizeof waited, "stream 0x%" PRIx64 " has waited for %" PRIu64 " s", stream,
                  seconds_);
    const std::string cause = rank == kNoMessage ? " for other ranks"
                              : rank == kAnyRank ? " for a message of any rank"
                                                 : " for rank " + std::to_string(rank);
    return {Errc::other, waited + cause +
                             " (WEFT_STREAM_TIMEOUT_S) and goes on; the buffers belong to the call until it "
                             "ends: `weft hang` shows what the ranks wait for"};
  }

  Record& record_;
  uint64_t seconds_ = 0, end_ns_ = 0;  // 0: no limit
  bool passed_ = false;
};

void Record::execute() {
  core::WaitPublisher& waits = comm_->instance.waits;
  waits.count_thread();
  const core::PublishedCall published(waits, name_, comm_.get());
  const trace::Range range(name_);
  const device::ForStream for_stream;
  Limit limit(*this);
  const Status outcome = run_reporting_memory(*call_);
  if (!outcome.ok()) outcomes_->call_failed(name_, outcome.error());
  executed.add();
  if (limit.passed())
    outcomes_->overdue_call_ended();
  else
    let_stream_go_on();
}

void Record::run() {
  if (outcomes_->skips(number)) return skip();
  execute();
  end();
}

void Record::skip() {
  skipped = true;
  const Error error(Errc::other, "not executed: an earlier call is overdue");
  outcomes_->call_skipped(name_, error);
  call_->skip(error);
  let_stream_go_on();
  end();
}

void Record::let_stream_go_on() {
  slot.complete();
  if (ended != nullptr) ended->store(true, std::memory_order_release);
}

void Record::end() {
  if (!captured) call_.reset();
  if (done != nullptr) done->finish();
  outcomes_->call_ended(captured);
  if (!captured) {
    outcomes_.reset();
    comm_ = {};
  }
}

std::unique_ptr<Record> StreamCalls::pop() {
  std::unique_ptr<Record> record = std::move(records_.back());
  records_.pop_back();
  return record;
}

// T3: one record of a stream runs at a time, in call order.
Work* StreamCalls::started() {
  Record& first = *records_.front();
  return first.take_start() ? &first : nullptr;
}

void StreamCalls::finished(Work& work) {
  WEFT_ASSERT(&work == records_.front().get());  // T3
  do {
    words_.give(records_.front()->slot);
    records_.pop_front();
  } while (!records_.empty() && records_.front()->skipped);
}

Work* StreamCalls::started_behind() {
  const auto at =
      std::find_if(records_.begin() + 1, records_.end(), [](const auto& record) { return !record->skipped; });
  return at != records_.end() && (*at)->slot.take_start() ? at->get() : nullptr;
}

// A launch may come at any time until the graph is destroyed.
CapturedCalls::CapturedCalls(Words& words) : words_(words), release_(*this) { device::streams_may_wait(1); }
CapturedCalls::~CapturedCalls() { device::streams_may_wait(-1); }

std::unique_ptr<Record> CapturedCalls::pop() {
  std::unique_ptr<Record> record = std::move(records_.back());
  records_.pop_back();
  return record;
}

/// Records of a capture start in its order, except in graphs that the program has changed.
Work* CapturedCalls::started() {
  if (destroyed_.load(std::memory_order_acquire)) return &release_;
  for (size_t i = 0; i < records_.size(); ++i) {
    const size_t at = (next_ + i) % records_.size();
    if (!records_[at]->take_start()) continue;
    next_ = (at + 1) % records_.size();
    return records_[at].get();
  }
  return nullptr;
}

Work* CapturedCalls::started_behind() {
  const auto at = std::find_if(records_.begin(), records_.end(),
                               [](const auto& record) { return record->slot.take_start(); });
  return at != records_.end() ? at->get() : nullptr;
}

void CapturedCalls::finished(Work& work) { released_ = &work == &release_; }

void CapturedCalls::release() {
  for (const auto& record : records_) words_.give(record->slot);
  records_.clear();
}

}  // namespace weft::stream::order
