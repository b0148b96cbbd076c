// SPDX-License-Identifier: BSD-3-Clause
// Enqueued collectives: one kernel each, with regions of their own beside the messages. Call numbers are
// counted in GPU memory, so a captured call keeps counting when its graph is replayed.
#include <string>

#include "base/assert.hpp"
#include "base/trace.hpp"
#include "coll/gpu/plan.hpp"
#include "device/kernel/stream_beat.hpp"
#include "stream/queue.hpp"

namespace weft::stream {
namespace {

using coll::Collective;
using device::kernel::StreamCollective;

/// Checks that an operand is contiguous memory that the stream's GPU can access.
Status reachable(const coll::Operand& operand, int device, const char* name) {
  if (operand.count * operand.type->size() == 0) return {};
  if (!operand.type->contiguous())
    return Error(
        Errc::unsupported,
        std::string("the datatype of ") + name +
            " is not contiguous: enqueued collectives take contiguous data (pack it in the stream before)");
  const device::Memory& memory = operand.memory;
  if (memory.fault != 0)
    return Error(Errc::buffer, std::string("the CUDA driver refused to classify ") + name);
  if (!memory.known_to_driver())
    return Error(Errc::buffer, std::string(name) +
                                   " is pageable host memory, which a GPU stream cannot access: use GPU, "
                                   "managed or pinned memory");
  if (memory.on_device() && memory.device != device)
    return Error(Errc::buffer, std::string(name) + " is memory of GPU " + std::to_string(memory.device) +
                                   ", the stream belongs to GPU " + std::to_string(device));
  return {};
}

/// Whether no rank ends such a call before all ranks have begun it.
bool synchronizes(const coll::Call& call, device::Protocol protocol) {
  WEFT_ASSERT(call.what == Collective::bcast || call.what == Collective::allreduce ||  // S3
              call.what == Collective::reduce_scatter_block || call.what == Collective::allgather ||
              call.what == Collective::alltoall);
  return call.what != Collective::bcast || protocol == device::Protocol::simple;
}

bool sends(const coll::Call& call) { return call.what != Collective::bcast && !call.in_place; }

/// Checks that a kernel executes the call. `device`: the GPU of the stream.
Status check_supported(const core::Communicator& comm, const Mailbox& mailbox, int device,
                       const coll::Call& call) {
  if (!mailbox.has_collectives())
    return Error(Errc::unsupported, "enqueued collectives support " +
                                        std::to_string(device::kernel::Collective::kRanks) +
                                        " ranks at most: use smaller communicators");
  if (call.reduction() && !coll::gpu::has_kernel(call))
    return Error(Errc::unsupported,
                 "no kernel computes this operation on this type: enqueued reductions take predefined "
                 "operations on types that GPUs compute");
  const char* const output = call.what == Collective::bcast ? "buffer" : "recvbuf";
  if (sends(call)) WEFT_TRY(check_pinned(comm, call.send.memory, "sendbuf"));
  WEFT_TRY(check_pinned(comm, call.recv.memory, output));
  if (sends(call)) WEFT_TRY(reachable(call.send, device, "sendbuf"));
  return reachable(call.recv, device, output);
}

}  // namespace

Error unfinished_messages() {
  return {
      Errc::unsupported,
      "nonblocking operations of the communicator are unfinished and would wait for the collective: enqueue "
      "their wait before it, or use a communicator of another stream"};
}

Status Queue::collective(const coll::Call& call) {
  WEFT_TRY(check_ranks());
  WEFT_TRY(check_supported(comm_, *mailbox_, stream_->gpu->device, call));
  if (!pending_.empty()) return unfinished_messages();
  const uint64_t largest = coll::gpu::largest_message(call, {});
  if (largest == 0) return {};
  used_ = true;
  if (call.size == 1) {
    if (!sends(call)) return {};
    return turns_.take(comm_.instance, polls_, [&] {
      return device::enqueue_copy(target_, call.recv.address, call.send.address, call.bytes);
    });
  }
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  const trace::Range range("stream.collective");
  const auto size = static_cast<uint32_t>(call.size);
  const coll::gpu::Plan plan = coll::gpu::make_plan(call, largest,
                                                    {.ll = StreamCollective::ll_capacity(size),
                                                     .ll128 = 0,
                                                     .simple = Mailbox::simple_capacity(),
                                                     .max_blocks = mailbox_->max_blocks()});
  StreamCollective launched{};
  launched.call = plan.collective;
  launched.call.blocks = plan.blocks;
  launched.cancel = reinterpret_cast<uint64_t>(&mailbox_->fault().cancelled);
  for (int rank = 0; rank < call.size; ++rank) {
    launched.call.regions[rank] = mailbox_->collective_region_of(rank);
    launched.control[rank] = mailbox_->control_of(rank);
  }
  const device::kernel::StreamBeat beat{
      reinterpret_cast<uint64_t>(mailbox_->collective_beat()),
      view_.publish_collective(collective_name_, target_.handle, *captured != 0)};
  beat.store(launched.call);
  launched.synchronizing = synchronizes(call, plan.protocol) ? 1 : 0;
  WEFT_TRY(turns_.take(comm_.instance, polls_, [&] {
    return device::enqueue_collective(target_, launched, plan.protocol, plan.blocks, plan.threads);
  }));
  return report_fault();
}

}  // namespace weft::stream
