// SPDX-License-Identifier: BSD-3-Clause
// Stage: starts the steps of a round and waits for them.
#include "coll/schedule/stage.hpp"

#include <new>
#include <string>
#include <utility>

#include "coll/schedule/copy.hpp"
#include "coll/schedule/gpu_reduction.hpp"
#include "core/instance.hpp"

namespace weft::coll {

namespace {
p2p::Buffer empty_buffer() { return packed(nullptr, 0); }
}  // namespace

p2p::Transfer* Stage::slot(int i) { return std::launder(reinterpret_cast<p2p::Transfer*>(storage_[i])); }

p2p::Transfer* Stage::add(core::Request::Kind kind) {
  if (started_ == kTransfers) [[unlikely]]
    return &overflow_.emplace_back(kind);
  return new (storage_[started_++]) p2p::Transfer(kind);
}

/// Waits for the last kernel or copy, before another step uses its result.
void Stage::wait_kernel() {
  if (kernel_.pending()) record_error(device::wait(kernel_));
  ticket_is_copy_ = false;
}

bool Stage::kernel_done() {
  if (!kernel_.pending()) return true;
  auto done = device::done(kernel_);
  if (done && !*done) return false;
  if (!done) record_error(std::move(done).error());
  ticket_is_copy_ = false;
  return true;
}

void Stage::send(const p2p::Buffer& buffer, int dest) {
  wait_kernel();
  // After a failure of a process nothing is sent inside the host, and on a revoked communicator nothing at
  // all: the receiver notices it itself, while an empty message could look like success. It may have been
  // noticed between two rounds, when no transfer was under way that it could end.
  if (comm_->instance.failures.changes() != 0) [[unlikely]] {
    record_error(comm_->instance.failures.check(*comm_));
    if (gives_up(dest)) return;
  }
  // After an error the message is empty, which the receiver detects.
  const p2p::Buffer data = outcome_.ok() ? buffer : empty_buffer();
  const int rank = ranks_.rank_of(dest);
  if (p2p::send_now(data, rank, call_.tag, *comm_, core::Channel::collective)) return;
  p2p::post_send(*add(core::Request::Kind::send), data, rank, call_.tag, *comm_, p2p::SendMode::standard,
                 core::Channel::collective);
}

bool Stage::gives_up(int dest) const {
  if (outcome_.ok()) return false;
  if (outcome_.error().code() == Errc::revoked) return true;
  return outcome_.error().code() == Errc::proc_aborted &&
         comm_->instance.same_host(comm_->process(ranks_.rank_of(dest)));
}

void Stage::receive(const p2p::Buffer& buffer, int source) {
  wait_kernel();
  p2p::post_receive(*add(core::Request::Kind::receive), disabled_ ? empty_buffer() : buffer,
                    ranks_.rank_of(source), call_.tag, *comm_, core::Channel::collective);
}

void Stage::copy(const p2p::Buffer& to, const p2p::Buffer& from) {
  if (disabled_) return;
  wait_kernel();
  auto ticket = start_local_copy(to, from);
  if (!ticket) return record_error(std::move(ticket).error());
  kernel_ = std::move(*ticket);
  ticket_is_copy_ = kernel_.pending();
}

void Stage::reduce(void* target, std::span<const void* const> inputs, int64_t n) {
  if (!outcome_.ok() || n == 0) return;
  if (ticket_is_copy_) wait_kernel();
  const datatype::Datatype& type = *call_.recv.type;
  auto ticket = device::reduce_async(reduction_of(*call_.op, type), target, call_.gpu, inputs,
                                     static_cast<size_t>(n * type.extent()), device::StreamRole::local);
  if (ticket)
    kernel_ = std::move(*ticket);
  else
    record_error(std::move(ticket).error());
}

void Stage::fold_left(const void* theirs, void* mine, int64_t n) {
  if (disabled_) return;
  if (call_.on_gpu) {
    const void* const inputs[] = {theirs, mine};
    return reduce(mine, inputs, n);
  }
  call_.op->apply(theirs, mine, n, *call_.recv.type);
}

void Stage::combine(const void* left, const void* right, void* result, int64_t n) {
  if (!disabled_) call_.op->combine(left, right, result, n, *call_.recv.type);
}

void Stage::disable(Status why) {
  disabled_ = true;
  record_error(std::move(why));
}

void Stage::record_error(Status status) {
  if (!status.ok() && outcome_.ok()) [[unlikely]]
    outcome_ = std::move(status);
}

void Stage::collect(p2p::Transfer& transfer) {
  // Both sides specify equal sizes (MPI 5.0 section 6.5): a shorter message is an error too.
  if (transfer.kind == core::Request::Kind::receive && transfer.completion.bytes < transfer.bytes &&
      transfer.outcome.ok()) [[unlikely]]
    record_error(Error(Errc::truncate, "rank " + std::to_string(transfer.rank) + " sent " +
                                           std::to_string(transfer.completion.bytes) + " bytes where " +
                                           std::to_string(transfer.bytes) +
                                           " were expected: make collectives, counts and types of all ranks "
                                           "agree (WEFT_CHECK=on names what differs)"));
  record_error(std::move(transfer.outcome));
}

void Stage::retire(int i) {
  p2p::Transfer* transfer = slot(i);
  collect(*transfer);
  transfer->~Transfer();
}

void Stage::wait() {
  if (kernel_.pending()) core::wait_until(call_.comm->instance, [this] { return kernel_done(); });
  for (; done_ < started_; ++done_) {
    core::wait(call_.comm->instance, *slot(done_));
    retire(done_);
  }
  started_ = done_ = 0;
  for (; !overflow_.empty(); overflow_.pop_front()) {
    core::wait(call_.comm->instance, overflow_.front());
    collect(overflow_.front());
  }
}

bool Stage::complete() {
  if (!kernel_done()) return false;
  for (; done_ < started_; ++done_) {
    if (!slot(done_)->complete()) return false;
    retire(done_);
  }
  for (; !overflow_.empty(); overflow_.pop_front()) {
    if (!overflow_.front().complete()) return false;
    collect(overflow_.front());
  }
  started_ = done_ = 0;
  return true;
}

Status Stage::take_outcome() {
  wait_kernel();
  disabled_ = false;
  return std::exchange(outcome_, Status());
}

}  // namespace weft::coll
