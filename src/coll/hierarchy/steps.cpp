// SPDX-License-Identifier: BSD-3-Clause
#include "coll/hierarchy/steps.hpp"

#include <new>

#include "base/assert.hpp"
#include "base/config.hpp"
#include "coll/schedule/hints.hpp"

namespace weft::coll {
namespace {

config::Size segment{"coll.hierarchy_segment_bytes", 512 << 10, 1, size_t{1} << 40,
                     "Segment of a vector in bytes that a rank sends to other hosts while its host works on "
                     "the next segment."};

}  // namespace

uint64_t segment_bytes(const Call& call) { return value_for(call, segment); }

Call derive_call(const Call& whole, Collective what, core::Communicator& comm, int root) {
  Call call;
  call.what = what;
  call.comm = &comm;
  call.rank = comm.rank();
  call.size = comm.size();
  call.root = root;
  call.send = whole.send;
  call.recv = whole.recv;
  call.failed = whole.failed;
  if (what == Collective::reduce || what == Collective::allreduce || what == Collective::reduce_scatter)
    call.op = whole.op;
  return call;
}

void select_elements(Call& call, int64_t first, int64_t n, uint64_t element) {
  for (Operand* operand : {&call.send, &call.recv}) {
    if (operand->type == nullptr) continue;
    operand->address = advance(operand->address, first * operand->type->extent());
    operand->count = n;
  }
  call.results = n;
  call.bytes = static_cast<uint64_t>(n) * element;
}

void StepRunner::run(Call step) {
  step.failed = error();
  record_error(coll::run(step));
}

void StepRunner::start(InterHostRequest& inter_host, Call step) {
  step.failed = error();
  record_error(inter_host.start(step));
}

Status InterHostRequest::start(const Call& call) {
  WEFT_ASSERT(request_ == nullptr);  // H1
  auto started = coll::start(call);
  if (!started) return std::move(started).error();
  request_ = *started;
  return {};
}

Status InterHostRequest::wait() {
  if (request_ == nullptr) return {};
  core::Request* const request = std::exchange(request_, nullptr);
  core::wait(instance_, *request);
  Status outcome = std::move(request->outcome);
  request->destroy();
  return outcome;
}

Status TemporaryVector::allocate(const Operand& operand) {
  const TypedLayout layout(*operand.type, operand.count);
  operand_ = operand;
  if (operand.on_device()) {
    auto leased = device::Workspace::lease(operand.memory, layout.bytes);
    if (!leased) return std::move(leased).error();
    workspace_ = std::move(*leased);
    operand_.memory = workspace_.memory();
    operand_.address = reinterpret_cast<void*>(operand_.memory.base + static_cast<uint64_t>(layout.origin));
    return {};
  }
  heap_.reset(new (std::nothrow) std::byte[layout.bytes]);
  if (heap_ == nullptr) return Error(Errc::no_mem, "no memory for the intermediate result of a host");
  operand_.address = heap_.get() + layout.origin;
  operand_.memory = {};
  operand_.classified = true;
  return {};
}

}  // namespace weft::coll
