// SPDX-License-Identifier: BSD-3-Clause
// Stage: starting and awaiting the steps of a round.
#include "coll/stage.hpp"

#include <new>
#include <string>
#include <utility>

#include "coll/copy.hpp"
#include "coll/gpu_reduction.hpp"
#include "core/instance.hpp"

namespace weft::coll {

namespace {
p2p::Buffer nothing() { return packed(nullptr, 0); }
}  // namespace

p2p::Transfer* Stage::slot(int i) { return std::launder(reinterpret_cast<p2p::Transfer*>(storage_[i])); }

p2p::Transfer* Stage::add(core::Request::Kind kind) {
  if (started_ == kTransfers) [[unlikely]]
    return &overflow_.emplace_back(kind);
  return new (storage_[started_++]) p2p::Transfer(kind);
}

/// What kernels compute and copies move is there before anything else looks at it.
void Stage::settle() {
  if (kernel_.pending()) note(device::wait(kernel_));
  copying_ = false;
}

bool Stage::settled() {
  if (!kernel_.pending()) return true;
  auto done = device::done(kernel_);
  if (done && !*done) return false;
  if (!done) note(std::move(done).error());
  copying_ = false;
  return true;
}

void Stage::send(const p2p::Buffer& buffer, int dest) {
  settle();
  // What came in was wrong: those that wait for what follows from it get nothing, and see that.
  const p2p::Buffer data = outcome_.ok() ? buffer : nothing();
  p2p::post_send(*add(core::Request::Kind::send), data, peers_.of(dest), call_.tag, *comm_,
                 p2p::SendMode::standard, core::Channel::collective);
}

void Stage::receive(const p2p::Buffer& buffer, int source) {
  settle();
  p2p::post_receive(*add(core::Request::Kind::receive), given_up_ ? nothing() : buffer, peers_.of(source),
                    call_.tag, *comm_, core::Channel::collective);
}

void Stage::copy(const p2p::Buffer& to, const p2p::Buffer& from) {
  if (given_up_) return;
  settle();
  auto ticket = start_local_copy(to, from);
  if (!ticket) return note(std::move(ticket).error());
  kernel_ = std::move(*ticket);
  copying_ = kernel_.pending();
}

void Stage::reduce(void* target, std::span<const void* const> inputs, int64_t n) {
  if (!outcome_.ok() || n == 0) return;
  if (copying_) settle();
  const datatype::Datatype& type = *call_.recv.type;
  auto ticket = device::reduce_async(reduction_of(*call_.op, type), target, call_.gpu, inputs,
                                     static_cast<size_t>(n * type.extent()), device::Lane::local);
  if (ticket)
    kernel_ = std::move(*ticket);
  else
    note(std::move(ticket).error());
}

void Stage::fold_left(const void* theirs, void* mine, int64_t n) {
  if (given_up_) return;
  if (call_.on_gpu) {
    const void* const inputs[] = {theirs, mine};
    return reduce(mine, inputs, n);
  }
  call_.op->apply(theirs, mine, n, *call_.recv.type);
}

void Stage::fold_right(void* theirs, void* mine, int64_t n) {
  if (given_up_) return;
  if (call_.on_gpu) {
    const void* const inputs[] = {mine, theirs};
    return reduce(mine, inputs, n);
  }
  call_.op->apply(mine, theirs, n, *call_.recv.type);
  datatype::copy(theirs, n, *call_.recv.type, mine, n, *call_.recv.type);
}

void Stage::fold_any(void* theirs, void* mine, int64_t n) {
  call_.commutative() ? fold_left(theirs, mine, n) : fold_right(theirs, mine, n);
}

void Stage::give_up(Status why) {
  given_up_ = true;
  note(std::move(why));
}

void Stage::note(Status status) {
  if (!status.ok() && outcome_.ok()) [[unlikely]]
    outcome_ = std::move(status);
}

void Stage::take(p2p::Transfer& transfer) {
  // Both sides know every size (MPI 5.0 section 6.5): less than awaited is as wrong as more.
  if (transfer.kind == core::Request::Kind::receive && transfer.completion.bytes < transfer.bytes &&
      transfer.outcome.ok()) [[unlikely]]
    note(Error(Errc::truncate, "rank " + std::to_string(transfer.rank) + " sent " +
                                   std::to_string(transfer.completion.bytes) + " bytes where " +
                                   std::to_string(transfer.bytes) +
                                   " were awaited: make counts and types of both sides agree"));
  note(std::move(transfer.outcome));
}

void Stage::retire(int i) {
  p2p::Transfer* transfer = slot(i);
  take(*transfer);
  transfer->~Transfer();
}

void Stage::wait() {
  if (kernel_.pending()) core::wait_until(call_.comm->instance, [this] { return settled(); });
  for (; done_ < started_; ++done_) {
    core::wait(call_.comm->instance, *slot(done_));
    retire(done_);
  }
  started_ = done_ = 0;
  for (; !overflow_.empty(); overflow_.pop_front()) {
    core::wait(call_.comm->instance, overflow_.front());
    take(overflow_.front());
  }
}

bool Stage::complete() {
  if (!settled()) return false;
  for (; done_ < started_; ++done_) {
    if (!slot(done_)->complete()) return false;
    retire(done_);
  }
  for (; !overflow_.empty(); overflow_.pop_front()) {
    if (!overflow_.front().complete()) return false;
    take(overflow_.front());
  }
  started_ = done_ = 0;
  return true;
}

Status Stage::take_outcome() {
  settle();
  given_up_ = false;
  return std::exchange(outcome_, Status());
}

}  // namespace weft::coll
