// SPDX-License-Identifier: BSD-3-Clause
#include "coll/dispatch/operation.hpp"

#include <string>
#include <utility>

#include "coll/schedule/collective.hpp"

namespace weft::coll {

Slab<Operation>& Operation::slab() {
  static Slab<Operation> operations(size_t{1} << 20);
  return operations;
}

Result<Operation*> Operation::create(const Call& call, int tag, const Algorithm& algorithm) {
  Operation* operation = slab().create(call, tag, algorithm);
  if (operation == nullptr) return core::no_more_requests();
  return operation;
}

namespace {

void retain_types(const Operand& operand, bool release) {
  const auto one = [&](const datatype::Datatype* type) {
    if (type == nullptr) return;
    auto* counted = const_cast<datatype::Datatype*>(type);  // only its reference count changes
    release ? counted->release() : counted->retain();
  };
  one(operand.type);
  for (int i = 0; operand.types != nullptr && i < operand.blocks; ++i) one(operand.types[i]);
}

Error section_error() {
  return {
      Errc::buffer,
      "an array section could not be copied: it must exist until the operation completes, and memory must "
      "suffice"};
}

}  // namespace

Operation::Operation(const Call& call, int tag, const Algorithm& algorithm)
    : Request(Kind::collective),
      child_(core::Ref<core::Communicator>::share(call.child)),
      call_copy_(copy_arrays(call)),
      schedule_(call_copy_, tag, algorithm) {
  comm = call_copy_.comm;
  comm->retain();
  if (call_copy_.op != nullptr) call_copy_.op->retain();
  retain_types(call_copy_.send, false);
  retain_types(call_copy_.recv, false);
}

Operation::~Operation() {
  if (polled_) comm->instance.remove(*this);
  if (persistent_call_) collective_queue_->release(*persistent_call_);
  retain_types(call_copy_.send, true);
  retain_types(call_copy_.recv, true);
  if (call_copy_.op != nullptr) call_copy_.op->release();
  if (copies_ != nullptr) comm->instance.unlocked([&] { copies_->release(*copies_); });
  comm->release();
}

Status Operation::resolve(gpu::CollectiveQueue& queue) {
  auto resolved = queue.prepare_persistent(call_copy_);
  if (!resolved) return std::move(resolved).error();
  if (!*resolved) return {};
  collective_queue_ = &queue;
  persistent_call_ = std::make_unique<gpu::PersistentCall>(std::move(**resolved));
  return {};
}

void Operation::destroy() { slab().destroy(this); }

Call Operation::copy_arrays(const Call& given) {
  Call call = given;
  const auto numbers = [](CountView& view, int n, std::vector<int64_t>& store) {
    if (!view) return;
    store.resize(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) store[static_cast<size_t>(i)] = view[i];
    view = {store.data(), true};
  };
  numbers(call.send.counts, call.send.blocks, counts_[0]);
  numbers(call.send.displacements, call.send.blocks, counts_[1]);
  numbers(call.recv.counts, call.recv.blocks, counts_[2]);
  numbers(call.recv.displacements, call.recv.blocks, counts_[3]);
  int side = 0;
  for (Operand* operand : {&call.send, &call.recv}) {
    auto& store = types_[side++];
    if (operand->types == nullptr) continue;
    store.assign(operand->types, operand->types + operand->blocks);
    operand->types = store.data();
  }
  return call;
}

Status Operation::start() {
  if (!complete())
    return Error(Errc::request, "the persistent collective is already active: wait for it first");
  stored_ = false;
  if (hooked_) [[unlikely]]
    WEFT_TRY(prepare_start());
  if (persistent && device::available()) [[unlikely]]
    WEFT_TRY(classify_operands());
  rearm();
  if (persistent_call_)
    collective_queue_->start(*persistent_call_, *this);
  else if (collective_queue_ != nullptr)
    collective_queue_->enqueue(call_copy_, *this);
  else
    run_by_messages();
  return {};
}

Status Operation::classify_operands() {
  for (Operand* operand : {&call_copy_.send, &call_copy_.recv}) {
    if (!operand->classified || !p2p::classified_at_start(operand->memory)) continue;
    const device::Memory before = operand->memory;
    operand->query_driver();
    if (operand->memory.kind != before.kind || operand->memory.device != before.device)
      return Error(
          Errc::buffer,
          "the memory of a persistent collective is of another kind or GPU than when the request was "
          "made: make a new request");
  }
  return {};
}

Status Operation::prepare_start() {
  if (copies_ != nullptr && !comm->instance.unlocked([&] { return copies_->load(*copies_); }))
    return section_error();
  if (check_ != nullptr && persistent) checked_ = check_->before(call_copy_);
  if (scaled_ != nullptr) WEFT_TRY(scaled_->before());
  return {};
}

void Operation::set_copies(SectionCopies& copies) {
  WEFT_ASSERT(copies_ == nullptr);
  copies_ = &copies;
  hooked_ = true;
  kind = Kind::generalized;  // query() copies results
}

void Operation::set_scaled(std::unique_ptr<ScaledReduction> scaled) {
  scaled_ = std::move(scaled);
  hooked_ = true;
  kind = Kind::generalized;  // query() scales results
}

void Operation::set_check(const CallCheck& check, Status first) {
  check_ = &check;
  checked_ = std::move(first);
  hooked_ = true;
  kind = Kind::generalized;  // query() returns the error
}

Status Operation::query() {
  if (!hooked_ || stored_ || !outcome.ok()) return {};
  stored_ = true;
  Status checked = std::move(checked_);
  if (check_ != nullptr && checked) checked = check_->after(call_copy_);
  if (scaled_ != nullptr) WEFT_TRY(scaled_->after());
  if (copies_ != nullptr && !comm->instance.unlocked([&] { return copies_->store(*copies_); }))
    return section_error();
  return checked;
}

void Operation::run_by_messages() {
  advancing_ = true;
  ended_ = false;
  cause_ = {};
  schedule_.begin();
  const bool finished = schedule_.advance();
  advancing_ = false;
  if (finished) return finish_schedule();
  polled_ = true;
  comm->instance.add(*this);
}

void Operation::end(Status outcome) {
  if (child_) [[unlikely]]
    comm->instance.failures.known(*child_);
  if (outcome.ok())
    finish();
  else
    finish(std::move(outcome).error());
}

bool Operation::poll() {
  if (advancing_) return false;  // another thread advances: a user's reduction runs without the lock
  if (ended_) {
    finish_schedule();
    return false;
  }
  advancing_ = true;
  const int before = schedule_.round();
  const bool finished = schedule_.advance();
  advancing_ = false;
  const bool moved = schedule_.round() != before;
  if (finished) finish_schedule();  // may destroy this request
  return moved;
}

void Operation::finish_schedule() {
  if (!std::exchange(ended_, true)) result_ = schedule_.end();
  const bool published = collective_queue_ == nullptr || collective_queue_->has_published(*this);
  if (!published || !cause_.known(*comm, result_)) {
    if (!std::exchange(polled_, true)) comm->instance.add(*this);
    return;
  }
  if (std::exchange(polled_, false)) comm->instance.remove(*this);
  end(std::move(result_));
}

HandleState check_request(const void* handle) { return Operation::slab().check(handle); }
void set_call_check(core::Request& request, const CallCheck& check, Status first) {
  static_cast<Operation&>(request).set_check(check, std::move(first));
}
void set_section_copies(core::Request& request, SectionCopies& copies) {
  static_cast<Operation&>(request).set_copies(copies);
}

}  // namespace weft::coll
