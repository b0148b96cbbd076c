// SPDX-License-Identifier: BSD-3-Clause
// Direct copies from and to mapped memory. A copy between GPU memories is submitted at once if no other is in
// flight and none has been collected lately; otherwise it is collected, because a submission costs as much as
// copying 1 MiB. Collected copies are submitted together by poll(), or when they are many.
#include <algorithm>
#include <cstring>

#include "base/trace.hpp"
#include "transport/rma/rma.hpp"

namespace weft::transport::rma {
namespace {

constexpr size_t kMaxCollected = 32;
constexpr uint64_t kMinSubmittedBytes = uint64_t{16} << 20;  // 40 us of NVLink
constexpr size_t kBurst =
    8;  // copies between two polls, after which the next ones are collected from the first

}  // namespace

void Rma::CopyBatch::add(Operation& operation) {
  (last == nullptr ? first : last->next) = &operation;
  last = &operation;
  ++count;
  bytes += operation.local.length;
}

Result<Issued> Rma::copy_direct(Target& target, Kind kind, uint64_t offset, const Buffer& local,
                                Completion* done) {
  if (!target.memory_.on_device() && !local.memory.on_device()) [[likely]] {
    std::byte* const remote = target.direct_ + offset;
    std::memmove(kind == Kind::put ? remote : local.address, kind == Kind::put ? local.address : remote,
                 local.length);
    return Issued::complete;
  }
  Operation* const operation = create(target, kind, offset, local, done);
  if (operation == nullptr) return Error(Errc::no_mem, "too many remote memory operations at once");
  ++since_poll_;
  if (target.memory_.on_device() && local.memory.on_device() &&
      (expects_burst_ || collected_.count != 0 || !copying_.empty())) {
    collect(*operation);
    return Issued::pending;
  }
  CopyBatch batch;
  batch.add(*operation);
  submit_batch(batch);
  return track(*operation, std::move(batch));
}

Result<Issued> Rma::copy_layouts(Target& target, bool put, const copy::View& remote, const copy::View& local,
                                 uint64_t bytes, Completion* done) {
  WEFT_TRY(check(target, 0, 0));
  Operation* const operation =
      create(target, put ? Kind::put : Kind::get, 0, {local.address, bytes, local.memory}, done);
  if (operation == nullptr) return Error(Errc::no_mem, "too many remote memory operations at once");
  CopyBatch batch;
  batch.add(*operation);
  const trace::Range range("rma.copy_layouts");
  auto ticket = copy::submit(put ? remote : local, put ? local : remote, bytes,
                             put ? device::StreamRole::out : device::StreamRole::in);
  if (ticket)
    batch.ticket = std::move(*ticket);
  else
    batch.outcome = std::move(ticket).error();
  return track(*operation, std::move(batch));
}

/// Tracks a submitted batch of one operation.
Result<Issued> Rma::track(Operation& operation, CopyBatch batch) {
  if (!batch.outcome || !batch.ticket.pending()) {  // an error, or a copy by the CPU
    --operation.target->pending_;
    slab_.destroy(&operation);
    if (!batch.outcome) return std::move(batch.outcome).error();
    return Issued::complete;
  }
  copying_.push_back(std::move(batch));
  return Issued::pending;
}

/// Adds a copy to the collected copies.
void Rma::collect(Operation& operation) {
  const auto joins = [](const Operation& a, const Operation& b) {
    const device::Memory &to = a.target->memory_, &other = b.target->memory_;
    return a.kind == b.kind && to.context == other.context && to.device == other.device &&
           to.imported == other.imported && a.local.memory.context == b.local.memory.context &&
           a.local.memory.device == b.local.memory.device;
  };
  if (collected_.count != 0 && !joins(*collected_.first, operation)) submit_collected();
  collected_.add(operation);
  uint64_t in_flight =
      0;  // the GPU has work until these are copied, and the end of each submission costs time
  for (const CopyBatch& batch : copying_) in_flight += batch.bytes;
  if (collected_.count == kMaxCollected || collected_.bytes >= std::max(kMinSubmittedBytes, in_flight))
    submit_collected();
}

void Rma::submit_collected() {
  if (collected_.count == 0) return;
  CopyBatch batch = std::exchange(collected_, CopyBatch{});
  submit_batch(batch);
  if (batch.outcome || batch.count == 1) return copying_.push_back(std::move(batch));
  for (Operation* operation = batch.first; operation != nullptr;) {  // the driver may accept single copies
    Operation* const next = std::exchange(operation->next, nullptr);
    CopyBatch one;
    one.add(*operation);
    submit_batch(one);
    copying_.push_back(std::move(one));
    operation = next;
  }
}

/// Submits a batch; errors go to its outcome.
void Rma::submit_batch(CopyBatch& batch) {
  const trace::Range range("rma.submit_copies");
  device::CopyOp copies[kMaxCollected];
  const bool put = batch.first->kind == Kind::put;
  size_t n = 0;
  bool by_flush_alone = true;
  for (const Operation* operation = batch.first; operation != nullptr; operation = operation->next) {
    std::byte* const remote = operation->target->direct_ + operation->offset;
    std::byte* const local = operation->local.address;
    by_flush_alone &= operation->done_by_user == nullptr && operation->target == batch.first->target;
    copies[n++] = {put ? remote : local, put ? local : remote, operation->local.length};
  }
  const device::Memory &remote = batch.first->target->memory_, &local = batch.first->local.memory;
  const bool engines_busy = !copying_.empty() && copying_.back().ticket.on_copy_engine();
  const auto role = put ? device::StreamRole::out : device::StreamRole::in;
  const void* const chain = by_flush_alone ? batch.first->target : nullptr;  // the flush waits for all copies
  auto ticket = device::copy_batch_async(copies, n, put ? remote : local, put ? local : remote, role,
                                         engines_busy, chain);
  if (ticket)
    batch.ticket = std::move(*ticket);
  else
    batch.outcome = std::move(ticket).error();
}

bool Rma::poll_copies() {
  if (since_poll_ != 0) expects_burst_ = std::exchange(since_poll_, 0) >= kBurst;
  submit_collected();
  bool progressed = false;
  for (size_t i = 0; i < copying_.size();) {
    Status outcome = std::move(copying_[i].outcome);
    if (outcome && copying_[i].ticket.pending()) {
      auto done = device::done(copying_[i].ticket);
      if (done && !*done) {
        ++i;
        continue;
      }
      if (!done) outcome = std::move(done).error();
    }
    Operation* operation = copying_[i].first;
    if (i + 1 != copying_.size()) copying_[i] = std::move(copying_.back());
    copying_.pop_back();
    progressed = true;
    while (operation != nullptr) {
      Operation* const next = operation->next;
      finish(*operation, outcome ? Status() : Status(outcome.error().copy()));
      operation = next;
    }
  }
  return progressed;
}

}  // namespace weft::transport::rma
