// SPDX-License-Identifier: BSD-3-Clause
// Collectives with an arrival phase of all ranks: barrier, allgather, alltoall.
#include "coll/host/run.hpp"

namespace weft::coll::host {

void Run::barrier() { channel_.barrier(); }

/// Returns only after all ranks have read this rank's memory.
void Run::allgather_single_copy(std::byte* in, const std::byte* mine) {
  const uint32_t step = channel_.reserve_steps(1);
  publish_address(step, mine);
  for_each_peer([&](int peer) {
    read_remote(peer, step, in + static_cast<size_t>(peer) * call_.bytes, 0, call_.bytes);
  });
  channel_.acknowledge(step);
  channel_.wait_acknowledged(step);
}

void Run::alltoall_single_copy(std::byte* in, const std::byte* blocks) {
  const uint32_t step = channel_.reserve_steps(1);
  publish_address(step, blocks);
  for_each_peer([&](int peer) {
    read_remote(peer, step, in + static_cast<size_t>(peer) * call_.bytes,
                static_cast<uint64_t>(call_.rank) * call_.bytes, call_.bytes);
  });
  channel_.acknowledge(step);
  channel_.wait_acknowledged(step);
}

void Run::allgather() {
  const size_t block = call_.bytes;
  const auto rank = static_cast<size_t>(call_.rank);
  ContiguousBuffer in, out;
  open(in, call_.recv.part(0, call_.size * call_.recv.count), call_.in_place);
  std::byte* own = in.data() + rank * block;
  const std::byte* mine = own;
  if (!call_.in_place) {
    open(out, call_.send.whole(), true);
    mine = out.data();
    if (out.bytes() != block)
      record_error(Error(
          Errc::truncate,
          "this rank's own block differs in size on the send and receive side: make counts and types agree"));
    if (outcome_.ok()) p2p::copy_small(own, mine, block);
  }
  if (single_copy_) {
    allgather_single_copy(in.data(), mine);
    return close(in);
  }
  const StepSegments segments{block, SlotChannel::kPageBytes};
  exchange(
      segments.steps(),
      [&](uint32_t step, uint32_t i) { publish(step, mine + segments.first(i), segments.bytes(i)); },
      [&](uint32_t step, uint32_t i) {
        for_each_peer([&](int peer) {
          receive(peer, step, in.data() + static_cast<size_t>(peer) * block + segments.first(i),
                  segments.bytes(i));
        });
      });
  close(in);
}

void Run::alltoall() {
  const uint64_t block = call_.bytes;
  const auto own = static_cast<uint64_t>(call_.rank) * block;
  ContiguousBuffer in, out;
  open(in, call_.recv.part(0, call_.size * call_.recv.count), call_.in_place);
  const std::byte* blocks = in.data();
  if (!call_.in_place) {
    open(out, call_.send.part(0, call_.size * call_.send.count), true);
    blocks = out.data();
    if (out.bytes() != in.bytes())
      record_error(
          Error(Errc::truncate, "the blocks sent and received differ in size: make counts and types agree"));
    if (outcome_.ok()) p2p::copy_small(in.data() + own, blocks + own, block);
  }
  if (single_copy_ && !call_.in_place) {
    alltoall_single_copy(in.data(), blocks);
    return close(in);
  }
  const StepSegments segments{block, block_segment_bytes(call_.size - 1)};
  exchange(
      segments.steps(),
      [&](uint32_t step, uint32_t i) { publish_blocks(step, blocks, segments.first(i), segments.bytes(i)); },
      [&](uint32_t step, uint32_t i) {
        const size_t n = segments.bytes(i);
        for_each_peer([&](int peer) {
          const Published published = wait_for(peer, step, n * static_cast<size_t>(call_.size - 1));
          if (outcome_.ok())
            p2p::copy_small(in.data() + static_cast<uint64_t>(peer) * block + segments.first(i),
                            published.data + block_index(call_.rank, peer) * n, n);
        });
      });
  close(in);
}

}  // namespace weft::coll::host
