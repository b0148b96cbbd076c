// SPDX-License-Identifier: BSD-3-Clause
#include "stream/view.hpp"

#include <cstdio>
#include <cstring>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/published.hpp"
#include "core/instance.hpp"
#include "core/wait_communicator.hpp"

namespace weft::stream {

namespace contract = device::kernel::enqueue;

View::View(core::Communicator& comm, const uint32_t* beats, const uint64_t* collective_beat)
    : comm_(comm),
      collectives_(std::make_unique<queued_table::Collective[]>(queued_table::kCollectives +
                                                                queued_table::kCapturedCollectives)) {
  static_assert(contract::kStates <= queued_table::kMaxOperations);
  wait_table::Record of_comm{};
  core::describe_communicator(of_comm, &comm);
  queue_.operations = reinterpret_cast<uint64_t>(operations_.data());
  queue_.beats = reinterpret_cast<uint64_t>(beats);
  queue_.collectives = reinterpret_cast<uint64_t>(collectives_.get());
  queue_.collective_beat = reinterpret_cast<uint64_t>(collective_beat);
  queue_.context = of_comm.context;
  queue_.count = contract::kStates;
  queue_.comm_rank = of_comm.comm_rank;
  queue_.comm_size = of_comm.comm_size;
  queue_.of_world = of_comm.of_world;
  queue_.members = of_comm.members;
  std::memcpy(queue_.member, of_comm.member, sizeof queue_.member);
  queue_.magic = queued_table::kMagic;
  publish_name();
  published::add_queue(queue_);
}

View::~View() { published::remove_queue(queue_); }

/// The program may have changed it.
void View::publish_name() {
  if (comm_.name.compare(0, sizeof queue_.comm - 1, queue_.comm) != 0)
    std::snprintf(queue_.comm, sizeof queue_.comm, "%s", comm_.name.c_str());
}

uint64_t View::current_call() const { return comm_.instance.waits.current().name & ~wait_table::kReturned; }

void View::publish(const contract::Op& op, const void* stream) {
  WEFT_ASSERT(op.state < operations_.size());  // S4
  publish_name();
  queued_table::Operation& operation = operations_[op.state];
  operation.since.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  operation.call = current_call();
  operation.what = op.kind == contract::Op::send ? wait_table::What::send : wait_table::What::receive;
  operation.peer = op.peer;
  operation.tag = op.tag == contract::kAnyTag ? wait_table::kAny : op.tag;
  operation.peer_process = core::world_rank(comm_, op.peer);
  operation.bytes = op.bytes;
  operation.stream = reinterpret_cast<uint64_t>(stream);
  operation.since.store(monotonic_ns(), std::memory_order_release);
}

uint32_t View::publish_collective(const char* name, const void* stream, bool captured) {
  using namespace queued_table;
  publish_name();
  std::atomic<uint64_t>& count = captured ? queue_.captured : queue_.enqueued;
  const uint64_t number = count.load(std::memory_order_relaxed) + 1;
  Collective& collective =
      collectives_[captured ? kCollectives + number % kCapturedCollectives : number % kCollectives];
  collective.since.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  collective.call = name != nullptr ? reinterpret_cast<uint64_t>(name) : current_call();
  collective.stream = reinterpret_cast<uint64_t>(stream);
  collective.id = static_cast<uint32_t>(number % kCaptured) | (captured ? kCaptured : 0);
  collective.since.store(monotonic_ns(), std::memory_order_release);
  count.store(number, std::memory_order_release);
  return collective.id;
}

}  // namespace weft::stream
