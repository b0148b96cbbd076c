// SPDX-License-Identifier: BSD-3-Clause
// Collectives with an arrival phase of all ranks: barrier, allgather, alltoall.
#include "coll/host/run.hpp"

namespace weft::coll::host {

void Run::barrier() { channel_.barrier(); }

void Run::allgather() {
  const size_t block = call_.bytes;
  const p2p::Buffer in = call_.recv.part(0, call_.size * call_.recv.count);
  const uint64_t own = static_cast<uint64_t>(call_.rank) * block, offset = call_.in_place ? own : 0;
  const p2p::Buffer mine = call_.in_place ? in : call_.send.whole();
  if (!call_.in_place)
    copy_own_block(in, own, mine, 0, block, packed_bytes(mine) == static_cast<int64_t>(block));
  const StepSegments segments{block, SlotSteps::kPageBytes};
  exchange(
      segments.steps(),
      [&](Step step, uint32_t i) { publish(step, mine, offset + segments.first(i), segments.bytes(i)); },
      [&](Step step, uint32_t i) {
        for_each_peer([&](int peer) {
          receive(peer, step, in, static_cast<uint64_t>(peer) * block + segments.first(i), segments.bytes(i));
        });
      });
}

/// Returns only after all ranks have read this rank's memory.
void Run::alltoall_single_copy() {
  ContiguousBuffer blocks;
  open(blocks, call_.send.part(0, call_.size * call_.send.count), true);
  const Step step = channel_.reserve_steps(1);
  publish_address(step, blocks.data());
  for_each_peer([&](int peer) {
    ContiguousBuffer in;
    open(in, call_.recv.part(peer * call_.recv.count, call_.recv.count), false);
    read_remote(peer, step, in.data(), static_cast<uint64_t>(call_.rank) * call_.bytes, call_.bytes);
    close(in);
  });
  channel_.acknowledge(step);
  channel_.wait_acknowledged(step);
}

void Run::alltoall() {
  const uint64_t block = call_.bytes;
  const p2p::Buffer in = call_.recv.part(0, call_.size * call_.recv.count);
  const p2p::Buffer out = call_.in_place ? in : call_.send.part(0, call_.size * call_.send.count);
  if (!call_.in_place) {
    const uint64_t own = static_cast<uint64_t>(call_.rank) * block;
    copy_own_block(in, own, out, own, block, packed_bytes(in) == packed_bytes(out));
    if (single_copy_) return alltoall_single_copy();
  }
  const StepSegments segments{block, block_segment_bytes(call_.size - 1)};
  exchange(
      segments.steps(),
      [&](Step step, uint32_t i) { publish_blocks(step, out, segments.first(i), segments.bytes(i)); },
      [&](Step step, uint32_t i) {
        for_each_peer([&](int peer) {
          receive_block(peer, step, in, static_cast<uint64_t>(peer) * block + segments.first(i),
                        segments.bytes(i));
        });
      });
}

}  // namespace weft::coll::host
