// SPDX-License-Identifier: BSD-3-Clause
#include "stream/order/shown_calls.hpp"

#include <cstdio>
#include <cstring>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/published.hpp"

namespace weft::stream::order {

using queued_table::HostCall;
using queued_table::kHostCalls;

ShownCalls::Description::Description(const core::Communicator& comm, const char* name) {
  call.call = reinterpret_cast<uint64_t>(name);
  call.context = comm.id;
  call.comm_rank = comm.rank();
  call.comm_size = comm.size();
  std::snprintf(call.comm, sizeof call.comm, "%s", comm.name.c_str());
}

ShownCalls::ShownCalls(Words& words, const void* stream)
    : calls_(words), shown_calls_(std::make_unique<HostCall[]>(kHostCalls)) {
  static_assert(kHostCalls >= Words::kSlots);
  shown_.magic = queued_table::kCallsMagic;
  shown_.calls = reinterpret_cast<uint64_t>(shown_calls_.get());
  shown_.stream = reinterpret_cast<uint64_t>(stream);
  published::add_queue(shown_);
}

ShownCalls::~ShownCalls() { published::remove_queue(shown_); }

void ShownCalls::push(std::unique_ptr<Record> record, const Description& description) {
  records_.push_back(record.get());
  WEFT_ASSERT(records_.size() <= kHostCalls);  // each has a slot of Words
  calls_.push(std::move(record));
  const uint64_t number = shown_.last.load(std::memory_order_relaxed);
  HostCall& to = shown(number);
  to.call = description.call.call;
  to.context = description.call.context;
  to.comm_rank = description.call.comm_rank;
  to.comm_size = description.call.comm_size;
  std::memcpy(to.comm, description.call.comm, sizeof to.comm);
  to.begun.store(0, std::memory_order_relaxed);
  to.since.store(monotonic_ns(), std::memory_order_release);
  shown_.last.store(number + 1, std::memory_order_release);
}

std::unique_ptr<Record> ShownCalls::pop() {
  records_.pop_back();
  const uint64_t number = shown_.last.load(std::memory_order_relaxed) - 1;
  shown(number).since.store(0, std::memory_order_relaxed);
  shown_.last.store(number, std::memory_order_release);
  return calls_.pop();
}

Work* ShownCalls::started() {
  Work* const work = calls_.started();
  if (work != nullptr)
    shown(shown_.first.load(std::memory_order_relaxed)).begun.store(1, std::memory_order_release);
  return work;
}

/// Skipped calls behind the first one end with it.
void ShownCalls::finished(Work& work) {
  do {
    records_.pop_front();
    hide_first();
  } while (!records_.empty() && records_.front()->skipped);
  calls_.finished(work);
}

void ShownCalls::hide_first() {
  const uint64_t number = shown_.first.load(std::memory_order_relaxed);
  shown(number).since.store(0, std::memory_order_relaxed);
  shown_.first.store(number + 1, std::memory_order_release);
}

void ShownCalls::abandon() {
  for (; !records_.empty(); records_.pop_front()) hide_first();
  calls_.abandon();
}

}  // namespace weft::stream::order
