// SPDX-License-Identifier: BSD-3-Clause
// Collectives with a root: bcast, reduce, gather, scatter. A publishing rank does not wait for its readers
// unless it has run out of free slots.
#include <cstring>

#include "coll/host/run.hpp"

namespace weft::coll::host {

void Run::bcast_single_copy(std::byte* data) {
  const uint32_t step = channel_.reserve_steps(1);
  if (root()) {
    publish_address(step, data);
    channel_.wait_acknowledged(step);
  } else {
    read_remote(call_.root, step, data, 0, call_.bytes);
  }
  channel_.acknowledge(step);
}

void Run::bcast() {
  ContiguousBuffer data;
  open(data, call_.recv.whole(), root());
  if (single_copy_) {
    bcast_single_copy(data.data());
    if (!root()) close(data);
    return;
  }
  const StepSegments segments{call_.bytes, SlotChannel::kPageBytes};
  const uint32_t first = channel_.reserve_steps(segments.steps());
  for (uint32_t i = 0; i < segments.steps(); ++i) {
    std::byte* at = data.data() + segments.first(i);
    root() ? publish(first + i, at, segments.bytes(i))
           : receive(call_.root, first + i, at, segments.bytes(i));
    channel_.acknowledge_batched(first + i, segments.bytes(i));
  }
  if (!root()) close(data);
}

/// The root reads the terms in descending rank order, in segments of half its page region.
void Run::reduce_single_copy() {
  constexpr size_t kHalf = SlotChannel::kPipelineSteps * SlotChannel::kPageBytes;
  const uint32_t step = channel_.reserve_steps(1);
  if (!root()) {
    publish_address(step, call_.send.address);
    channel_.wait_acknowledged(call_.root, step);
    return channel_.acknowledge(step);
  }
  for_each_peer([&](int rank) { static_cast<void>(channel_.wait_published(rank, step)); });
  channel_.all_arrived(step);
  std::byte* term = channel_.page_region();
  const StepSegments segments{call_.bytes, kHalf};
  for (uint32_t i = 0; i < segments.steps(); ++i) {
    const size_t n = segments.bytes(i), at = segments.first(i);
    std::byte* result = static_cast<std::byte*>(call_.recv.address) + at;
    std::byte* target = call_.in_place ? term + kHalf : result;
    for (int rank = call_.size - 1; rank >= 0; --rank) {
      const bool first = rank == call_.size - 1;
      std::byte* own = static_cast<std::byte*>(call_.send.address) + at;
      if (rank != call_.rank) read_remote(rank, step, first ? target : term, at, n);
      if (!outcome_.ok()) continue;
      if (first && rank == call_.rank) std::memcpy(target, own, n);
      if (!first) fold(rank == call_.rank ? own : term, target, static_cast<int64_t>(n / element()));
    }
    if (call_.in_place && outcome_.ok()) std::memcpy(result, target, n);
  }
  channel_.acknowledge(step);
}

// The root combines the terms in descending rank order.
void Run::reduce() {
  if (single_copy_) return reduce_single_copy();
  const auto* mine = static_cast<const std::byte*>(call_.send.address);
  const StepSegments segments{call_.bytes, SlotChannel::kPageBytes};
  const uint32_t first = channel_.reserve_steps(segments.steps());
  for (uint32_t i = 0; i < segments.steps(); ++i) {
    const uint32_t step = first + i;
    const size_t n = segments.bytes(i), at = segments.first(i);
    if (!root()) {
      publish(step, mine + at, n);
      channel_.acknowledge_batched(step, n);
      continue;
    }
    std::byte* result = static_cast<std::byte*>(call_.recv.address) + at;
    std::byte* target = call_.in_place ? channel_.claim(step, n) : result;
    for (int rank = call_.size - 1; rank >= 0; --rank) {
      const std::byte* term = rank == call_.rank ? mine + at : wait_for(rank, step, n).data;
      if (!outcome_.ok()) continue;
      rank == call_.size - 1 ? p2p::copy_small(target, term, n)
                             : fold(term, target, static_cast<int64_t>(n / element()));
    }
    if (call_.in_place && outcome_.ok()) p2p::copy_small(result, target, n);
    channel_.acknowledge_batched(step, n);
  }
}

void Run::gather_single_copy(std::byte* in, const std::byte* mine) {
  const uint32_t step = channel_.reserve_steps(1);
  if (root()) {
    for_each_peer([&](int peer) {
      read_remote(peer, step, in + static_cast<uint64_t>(peer) * call_.bytes, 0, call_.bytes);
    });
  } else {
    publish_address(step, mine);
    channel_.wait_acknowledged(call_.root, step);
  }
  channel_.acknowledge(step);
}

void Run::gather() {
  const uint64_t block = call_.bytes;
  const auto rank = static_cast<uint64_t>(call_.rank);
  ContiguousBuffer in, out;
  if (root()) open(in, call_.recv.part(0, call_.size * call_.recv.count), call_.in_place);
  if (!root() || !call_.in_place) open(out, call_.send.whole(), true);
  if (root() && !call_.in_place) {
    if (out.bytes() != block)
      record_error(Error(
          Errc::truncate,
          "the root's own block differs in size on the send and receive side: make counts and types agree"));
    if (outcome_.ok()) p2p::copy_small(in.data() + rank * block, out.data(), block);
  }
  if (single_copy_) {
    gather_single_copy(in.data(), out.data());
    if (root()) close(in);
    return;
  }
  const StepSegments segments{block, SlotChannel::kPageBytes};
  const uint32_t first = channel_.reserve_steps(segments.steps());
  for (uint32_t i = 0; i < segments.steps(); ++i) {
    const size_t n = segments.bytes(i);
    if (root())
      for_each_peer([&](int peer) {
        receive(peer, first + i, in.data() + static_cast<uint64_t>(peer) * block + segments.first(i), n);
      });
    else
      publish(first + i, out.data() + segments.first(i), n);
    channel_.acknowledge_batched(first + i, n);
  }
  if (root()) close(in);
}

void Run::scatter_single_copy(std::byte* in, const std::byte* blocks) {
  const uint32_t step = channel_.reserve_steps(1);
  if (root()) {
    publish_address(step, blocks);
    channel_.wait_acknowledged(step);
  } else {
    read_remote(call_.root, step, in, static_cast<uint64_t>(call_.rank) * call_.bytes, call_.bytes);
  }
  channel_.acknowledge(step);
}

void Run::scatter() {
  const uint64_t block = call_.bytes;
  ContiguousBuffer in, out;
  if (root()) open(out, call_.send.part(0, call_.size * call_.send.count), true);
  if (!root() || !call_.in_place) open(in, call_.recv.whole(), false);
  if (root() && !call_.in_place) {
    if (in.bytes() != block)
      record_error(Error(
          Errc::truncate,
          "the root's own block differs in size on the send and receive side: make counts and types agree"));
    if (outcome_.ok())
      p2p::copy_small(in.data(), out.data() + static_cast<uint64_t>(call_.rank) * block, block);
  }
  if (single_copy_) {
    scatter_single_copy(in.data(), out.data());
    return close(in);
  }
  const StepSegments segments{block, block_segment_bytes(call_.size - 1)};
  const uint32_t first = channel_.reserve_steps(segments.steps());
  for (uint32_t i = 0; i < segments.steps(); ++i) {
    const size_t n = segments.bytes(i);
    if (root()) {
      publish_blocks(first + i, out.data(), segments.first(i), n);
    } else {
      const Published published = wait_for(call_.root, first + i, n * static_cast<size_t>(call_.size - 1));
      if (outcome_.ok())
        p2p::copy_small(in.data() + segments.first(i),
                        published.data + block_index(call_.rank, call_.root) * n, n);
    }
    channel_.acknowledge_batched(first + i, n * static_cast<size_t>(call_.size - 1));
  }
  close(in);
}

}  // namespace weft::coll::host
