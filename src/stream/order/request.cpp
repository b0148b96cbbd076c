// SPDX-License-Identifier: BSD-3-Clause
#include "stream/order/request.hpp"

#include "base/assert.hpp"
#include "stream/order/executor.hpp"

namespace weft::stream::order {

Request::Request(core::Communicator& communicator, Executor& executor)
    : core::Request(Kind::ordered), executor_(executor) {
  comm = &communicator;
  communicator.retain();
}

Request::~Request() {
  if (inner_ != nullptr) inner_->destroy();
  comm->release();
}

Slab<Request>& Request::slab() {
  static Slab<Request> requests(size_t{1} << 20);
  return requests;
}

void Request::release() {
  if (--references_ == 0) slab().destroy(this);
}

void Request::issue() {
  rearm();
  if (capture == 0) ++issued_;
}

void Request::retract() {
  if (capture == 0) --issued_;
  active = false;
}

void Request::drop_captured() {
  if (capture != 0) release();
}

Status Request::start() { return restart(*this); }

/// A list of the program names the request no more, and a persistent one is inactive.
void Request::leave_to_stream() {
  if (persistent)
    active = false;
  else
    release();
}

/// A wait for a cancelled operation is local (MPI 5.0 section 3.8.4): what the stream has not started is
/// cancelled when it starts. Earlier operations of a persistent request stay as they are.
Status Request::cancel() {
  if (capture != 0) return {};
  cancelled_ = issued_;
  return running_ && counts_ && begun_ == issued_ ? inner_->cancel() : Status();
}

core::Operands Request::operands() const {
  if (inner_ != nullptr) return inner_->operands();
  core::Operands not_started;
  not_started.operation = name;
  return not_started;
}

Status Request::ended_with() const { return ended_with_.ok() ? Status() : ended_with_.error().copy(); }

void Request::begin(core::Request* made, Status error, bool counts) {
  WEFT_ASSERT(!running_);  // T4
  retain();
  counts_ = counts;
  if (counts) ++begun_;
  running_ = true;
  executor_.operation_begins();
  comm->instance.add(*this);
  if (made == nullptr) {
    completion = {};
    ended_with_ = std::move(error);
    return end();
  }
  inner_ = made;
  if (counts && begun_ == cancelled_) static_cast<void>(inner_->cancel());  // a collective goes on
  poll();
}

void Request::skip(Status error, bool counts) {
  if (!running_) return begin(nullptr, std::move(error), counts);
  if (!counts) return;
  ++begun_;
  ++ended_;  // the operation in flight completes the request
}

bool Request::poll() {
  if (inner_ == nullptr || !inner_->complete()) return false;
  completion = inner_->completion;
  ended_with_ = inner_->outcome.ok() ? Status() : inner_->outcome.error().copy();
  if (inner_->persistent) {
    inner_->active = false;
  } else if (inner_->interrupted()) {
    inner_->resume();
    inner_->detached = true;  // destroyed when it completes
    inner_ = nullptr;
  } else {
    inner_->destroy();
    inner_ = nullptr;
  }
  end();
  return true;
}

void Request::end() {
  comm->instance.remove(*this);
  executor_.operation_ends();
  running_ = false;
  if (counts_ && ++ended_ == issued_ && capture == 0) {
    outcome = ended_with();
    finish();
  }
  release();
}

}  // namespace weft::stream::order
