// SPDX-License-Identifier: BSD-3-Clause
// Collectives with a root: bcast, reduce, gather, scatter. A publishing rank does not wait for its readers
// unless it has run out of free slots.
#include "coll/host/run.hpp"

namespace weft::coll::host {

void Run::bcast() {
  const p2p::Buffer data = call_.recv.whole();
  const StepSegments segments{call_.bytes, SlotSteps::kPageBytes};
  const Step first = channel_.reserve_steps(segments.steps());
  for (uint32_t i = 0; i < segments.steps(); ++i) {
    const size_t n = segments.bytes(i);
    root() ? publish(first + i, data, segments.first(i), n)
           : receive(call_.root, first + i, data, segments.first(i), n);
    channel_.acknowledge_batched(first + i, n);
  }
}

void Run::reduce() {
  const auto* mine = static_cast<const std::byte*>(call_.send.address);
  const StepSegments segments{call_.bytes, SlotSteps::kPageBytes};
  const Step first = channel_.reserve_steps(segments.steps());
  for (uint32_t i = 0; i < segments.steps(); ++i) {
    const Step step = first + i;
    const size_t n = segments.bytes(i), at = segments.first(i);
    if (!root()) {
      publish(step, mine + at, n);
      channel_.acknowledge_batched(step, n);
      continue;
    }
    std::byte* result = static_cast<std::byte*>(call_.recv.address) + at;
    std::byte* target = call_.in_place ? channel_.claim(step, n) : result;
    combine(target, static_cast<int64_t>(n / element()),
            [&](int rank) { return rank == call_.rank ? mine + at : wait_for(rank, step, n).data; });
    check_terms(step, n);
    if (call_.in_place && outcome_.ok()) p2p::copy_small(result, target, n);
    channel_.acknowledge_batched(step, n);
  }
}

void Run::gather() {
  const uint64_t block = call_.bytes;
  p2p::Buffer in, mine;
  if (root()) in = call_.recv.part(0, call_.size * call_.recv.count);
  if (!root() || !call_.in_place) mine = call_.send.whole();
  if (root() && !call_.in_place)
    copy_own_block(in, static_cast<uint64_t>(call_.rank) * block, mine, 0, block,
                   packed_bytes(mine) == static_cast<int64_t>(block));
  const StepSegments segments{block, SlotSteps::kPageBytes};
  const Step first = channel_.reserve_steps(segments.steps());
  for (uint32_t i = 0; i < segments.steps(); ++i) {
    const size_t n = segments.bytes(i);
    if (root())
      for_each_peer([&](int peer) {
        receive(peer, first + i, in, static_cast<uint64_t>(peer) * block + segments.first(i), n);
      });
    else
      publish(first + i, mine, segments.first(i), n);
    channel_.acknowledge_batched(first + i, n);
  }
}

void Run::scatter_single_copy() {
  const Step step = channel_.reserve_steps(1);
  ContiguousBuffer data;
  if (root()) {
    open(data, call_.send.part(0, call_.size * call_.send.count), true);
    publish_address(step, data.data());
    channel_.wait_acknowledged(step);
  } else {
    open(data, call_.recv.whole(), false);
    read_remote(call_.root, step, data.data(), static_cast<uint64_t>(call_.rank) * call_.bytes, call_.bytes);
    close(data);
  }
  channel_.acknowledge(step);
}

void Run::scatter() {
  const uint64_t block = call_.bytes;
  p2p::Buffer in, out;
  if (root()) out = call_.send.part(0, call_.size * call_.send.count);
  if (!root() || !call_.in_place) in = call_.recv.whole();
  if (root() && !call_.in_place)
    copy_own_block(in, 0, out, static_cast<uint64_t>(call_.rank) * block, block,
                   packed_bytes(in) == static_cast<int64_t>(block));
  if (single_copy_) return scatter_single_copy();
  const StepSegments segments{block, block_segment_bytes(call_.size - 1)};
  const Step first = channel_.reserve_steps(segments.steps());
  for (uint32_t i = 0; i < segments.steps(); ++i) {
    const size_t n = segments.bytes(i);
    root() ? publish_blocks(first + i, out, segments.first(i), n)
           : receive_block(call_.root, first + i, in, segments.first(i), n);
    channel_.acknowledge_batched(first + i, n * static_cast<size_t>(call_.size - 1));
  }
}

}  // namespace weft::coll::host
