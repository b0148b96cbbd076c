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

View::View(core::Communicator& comm, const uint32_t* beats) : comm_(comm) {
  static_assert(contract::kStates <= queued_table::kMaxOperations);
  wait_table::Record of_comm{};
  core::describe_communicator(of_comm, &comm);
  queue_.operations = reinterpret_cast<uint64_t>(operations_.data());
  queue_.beats = reinterpret_cast<uint64_t>(beats);
  queue_.context = of_comm.context;
  queue_.count = contract::kStates;
  queue_.comm_rank = of_comm.comm_rank;
  queue_.comm_size = of_comm.comm_size;
  queue_.of_world = of_comm.of_world;
  queue_.members = of_comm.members;
  std::memcpy(queue_.member, of_comm.member, sizeof queue_.member);
  queue_.magic = queued_table::kMagic;
  std::atomic<uint64_t>* const first = published::queues();
  if (first == nullptr) return;
  queue_.next = first->load(std::memory_order_relaxed);
  first->store(reinterpret_cast<uint64_t>(&queue_), std::memory_order_release);
}

View::~View() {
  std::atomic<uint64_t>* const first = published::queues();
  if (first == nullptr) return;
  const auto own = reinterpret_cast<uint64_t>(&queue_);
  if (first->load(std::memory_order_relaxed) == own) first->store(queue_.next);
  for (auto at = first->load(std::memory_order_relaxed); at != 0;) {
    auto& queue = *reinterpret_cast<queued_table::Queue*>(at);
    if (queue.next == own) queue.next = queue_.next;
    at = queue.next;
  }
}

void View::publish(const contract::Op& op) {
  WEFT_ASSERT(op.state < operations_.size());  // S4
  if (comm_.name.compare(0, sizeof queue_.comm - 1, queue_.comm) != 0)
    std::snprintf(queue_.comm, sizeof queue_.comm, "%s", comm_.name.c_str());
  queued_table::Operation& operation = operations_[op.state];
  operation.since.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  operation.call = comm_.instance.waits.current().name & ~wait_table::kReturned;
  operation.what = op.kind == contract::Op::send ? wait_table::What::send : wait_table::What::receive;
  operation.peer = op.peer;
  operation.tag = op.tag == contract::kAnyTag ? wait_table::kAny : op.tag;
  operation.peer_process = core::world_rank(comm_, op.peer);
  operation.bytes = op.bytes;
  operation.since.store(monotonic_ns(), std::memory_order_release);
}

}  // namespace weft::stream
