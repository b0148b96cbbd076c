// SPDX-License-Identifier: BSD-3-Clause
// Enqueued collectives that move data of any regular layout: neighborhoods, and blocks of different sizes or
// types. The messages of other ranks are unknown, so pairs of ranks divide them (coll/gpu/pair_blocks.hpp).
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/trace.hpp"
#include "coll/gpu/pair_blocks.hpp"
#include "device/kernel/stream_beat.hpp"
#include "stream/queue.hpp"

namespace weft::stream {

using device::kernel::PairBlocks;

Result<std::unique_ptr<PairBlocks>> Queue::plan_blocks(const coll::Call& call) const {
  WEFT_ASSERT(call.op == nullptr);  // S9
  if (!mailbox_->has_collectives() || coll::gpu::most_pair_blocks(mailbox_->max_blocks(), call.size) == 0)
    return std::unique_ptr<PairBlocks>();
  auto shapes = coll::gpu::block_shapes(call, PairBlocks::kMost,
                                        [this](const p2p::Buffer& block) -> Result<device::Shape> {
                                          auto side = describe(comm_, *stream_->gpu, block, 0);
                                          if (!side) return std::move(side).error();
                                          return side->shape;
                                        });
  if (!shapes) return std::move(shapes).error();
  auto planned = coll::gpu::pair_blocks(
      call, *shapes,
      {.ll = device::kernel::StreamCollective::ll_capacity(static_cast<uint32_t>(call.size)),
       .ll128 = 0,
       .simple = Mailbox::simple_capacity(),
       .max_blocks = mailbox_->max_blocks()});
  if (!planned) return planned;
  (*planned)->timeout_ns =
      device::kernel::Collective::kCancelWord | reinterpret_cast<uint64_t>(&mailbox_->fault().cancelled);
  (*planned)->status = reinterpret_cast<uint64_t>(mailbox_->collective_beat());
  for (int rank = 0; rank < call.size; ++rank)
    (*planned)->regions[rank] = mailbox_->collective_region_of(rank);
  return planned;
}

Status Queue::move_blocks(PairBlocks& planned) {
  WEFT_TRY(check_ranks());
  if (!pending_.empty()) return unfinished_messages();
  used_ = true;
  auto captured = capturing();
  if (!captured) return std::move(captured).error();
  const trace::Range range("stream.collective");
  planned.launch = view_.publish_collective(collective_name_, target_.handle, *captured != 0);
  WEFT_TRY(turns_.take(comm_.instance, polls_, [&] { return device::enqueue_blocks(target_, planned); }));
  return report_fault();
}

}  // namespace weft::stream
