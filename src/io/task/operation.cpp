// SPDX-License-Identifier: BSD-3-Clause
#include "io/task/operation.hpp"

#include <algorithm>

namespace weft::io {
namespace {

constexpr long kHelpNs = 200'000;  // then the thread that helps makes progress again

}  // namespace

Operation::Operation(core::Instance& owner, core::Counted& its_file, datatype::Datatype& type, Queue* queue)
    : Request(Kind::none),
      instance(owner),
      file(core::Ref<core::Counted>::share(&its_file)),
      type_(type),
      queue_(queue) {
  type_.retain();
  completion.source = -1;
  if (queue_ != nullptr) queue_->push_back(this);
}

Operation::~Operation() {
  WEFT_ASSERT(complete_.load(std::memory_order_relaxed));
  type_.release();
}

Slab<Operation>& Operation::slab() {
  static auto& operations = *new Slab<Operation>(size_t{1} << 22);
  return operations;
}

void Operation::reserve_tags(core::Communicator& communicator) {
  for (int& tag : tags_) tag = communicator.next_nonblocking_tag();
  tags_used_ = 0;
}

void Operation::run(Task task) {
  task_ = std::move(task);
  task_.begin(context_);
  if (poll() && complete()) return;
  polled_ = true;
  instance.add(*this);
}

bool Operation::poll() {
  if (stepping_ || complete()) return false;  // a step may make progress
  stepping_ = true;
  const bool stepped = Task::step(context_);
  stepping_ = false;
  if (stepped && task_.done()) end();
  return stepped;
}

void Operation::end() {
  if (polled_) instance.remove(*this);
  polled_ = false;
  if (queue_ != nullptr) {
    WEFT_ASSERT(queue_->front() == this);
    queue_->pop_front();
  }
  outcome = std::move(task_.result());
  if (epilogue && outcome.ok()) kind = Kind::generalized;  // query() runs the epilogue
  finish();
}

Status Operation::query() {
  if (!epilogue || !outcome.ok()) return {};
  const auto function = std::exchange(epilogue, nullptr);
  return function();
}

void Operation::wait(Pool& pool) {
  core::Instance::Wait wait(instance, {this}, this);
  while (!complete()) {
    if (instance.progress()) {
      wait.idle_rounds = 0;
    } else if (const std::shared_ptr<FileJob::State> state = awaited;
               state != nullptr && !state->job.done()) {
      instance.unlocked([&] { pool.help(state->job, kHelpNs); });
    } else {
      instance.idle(wait);
    }
  }
}

}  // namespace weft::io
