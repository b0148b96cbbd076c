// SPDX-License-Identifier: BSD-3-Clause
#include "stream/order/record.hpp"

#include <new>
#include <stdexcept>

#include "base/assert.hpp"
#include "base/counters.hpp"
#include "base/trace.hpp"

namespace weft::stream::order {
namespace {

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

void Record::run() {
  core::Instance& instance = comm_->instance;
  core::WaitPublisher& waits = instance.waits;
  waits.count_thread();
  {
    const core::PublishedCall published(waits, name_, comm_.get());
    const trace::Range range(name_);
    const device::ForStream for_stream;
    const Status outcome = run_reporting_memory(*call_);
    if (!outcome.ok()) outcomes_->call_failed(name_, outcome.error());
  }
  executed.add();
  if (!captured) call_.reset();
  slot.complete();
  if (ended != nullptr) ended->store(true, std::memory_order_release);
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
  if (first.after != nullptr && !first.after->load(std::memory_order_acquire)) return nullptr;
  return first.slot.take_start() ? &first : nullptr;
}

void StreamCalls::finished(Work& work) {
  WEFT_ASSERT(&work == records_.front().get());  // T3
  words_.give(records_.front()->slot);
  records_.pop_front();
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
    if (!records_[at]->slot.take_start()) continue;
    next_ = (at + 1) % records_.size();
    return records_[at].get();
  }
  return nullptr;
}

void CapturedCalls::finished(Work& work) { released_ = &work == &release_; }

void CapturedCalls::release() {
  for (const auto& record : records_) words_.give(record->slot);
  records_.clear();
}

}  // namespace weft::stream::order
