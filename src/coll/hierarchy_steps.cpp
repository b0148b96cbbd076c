// SPDX-License-Identifier: BSD-3-Clause
#include "coll/hierarchy_steps.hpp"

#include <new>

#include "base/config.hpp"
#include "coll/hints.hpp"

namespace weft::coll {
namespace {

config::Size piece{
    "coll.hierarchy_piece", 512 << 10, 1, size_t{1} << 40,
    "bytes of a vector that a rank passes on to other hosts while its own host works on the next ones"};

}  // namespace

uint64_t piece_bytes(const Call& call) { return value_for(call, piece); }

Call on(const Call& whole, Collective what, core::Communicator& comm, int root) {
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

void narrow(Call& call, int64_t first, int64_t n, uint64_t element) {
  for (Operand* operand : {&call.send, &call.recv}) {
    if (operand->type == nullptr) continue;
    operand->address = advance(operand->address, first * operand->type->extent());
    operand->count = n;
  }
  call.results = n;
  call.bytes = static_cast<uint64_t>(n) * element;
}

void Outcome::run(Call step) {
  step.failed = error();
  note(coll::run(step));
}

void Outcome::start(UnderWay& messages, Call step) {
  step.failed = error();
  note(messages.start(step));
}

Status UnderWay::start(const Call& call) {
  auto started = coll::start(call);
  if (!started) return std::move(started).error();
  request_ = *started;
  return {};
}

Status UnderWay::wait() {
  if (request_ == nullptr) return {};
  core::Request* const request = std::exchange(request_, nullptr);
  core::wait(instance_, *request);
  Status outcome = std::move(request->outcome);
  request->destroy();
  return outcome;
}

Status Like::make(const Operand& operand) {
  const Span span(*operand.type, operand.count);
  operand_ = operand;
  if (operand.on_device()) {
    auto leased = device::Workspace::lease(operand.memory, span.bytes);
    if (!leased) return std::move(leased).error();
    workspace_ = std::move(*leased);
    operand_.memory = workspace_.memory();
    operand_.address = reinterpret_cast<void*>(operand_.memory.base + static_cast<uint64_t>(span.origin));
    return {};
  }
  heap_.reset(new (std::nothrow) std::byte[span.bytes]);
  if (heap_ == nullptr) return Error(Errc::no_mem, "no memory for the result of a host's ranks");
  operand_.address = heap_.get() + span.origin;
  operand_.memory = {};
  operand_.classified = true;
  return {};
}

}  // namespace weft::coll
