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

namespace {

/// A segment of all terms in the root's memory, for algorithm::combine().
template <class Read, class Combine>
struct RemoteTerms {
  const Read& read;         // read(rank, to)
  const Combine& combined;  // combined(left, right, to)
  std::byte* memory;        // two terms, then intermediate results
  size_t segment;
  const void* term(int rank) const {
    std::byte* const to = memory + static_cast<size_t>(rank % 2) * segment;
    read(rank, to);
    return to;
  }
  void copy(int rank, void* to) const { read(rank, to); }
  void combine(const void* left, const void* right, void* to) const { combined(left, right, to); }
  void* scratch(int, int i) const { return memory + static_cast<size_t>(i + 2) * segment; }
};

}  // namespace

/// The root reads the terms in segments of its page region.
void Run::reduce_single_copy() {
  const uint32_t step = channel_.reserve_steps(1);
  if (!root()) {
    publish_address(step, call_.send.address);
    channel_.wait_acknowledged(call_.root, step);
    return channel_.acknowledge(step);
  }
  for_each_peer([&](int rank) { static_cast<void>(channel_.wait_published(rank, step)); });
  channel_.all_arrived(step);
  std::byte* const memory = channel_.page_region();
  const auto results = static_cast<size_t>(std::max(2, algorithm::TreeShape::depth(call_.size)));
  constexpr size_t kRegionBytes = 2 * SlotChannel::kPipelineSteps * SlotChannel::kPageBytes;
  const StepSegments segments{call_.bytes, kRegionBytes / (results + 3) / element() * element()};
  for (uint32_t i = 0; i < segments.steps(); ++i) {
    const size_t n = segments.bytes(i), at = segments.first(i);
    std::byte* const result = static_cast<std::byte*>(call_.recv.address) + at;
    std::byte* const target = call_.in_place ? memory + (results + 2) * segments.segment : result;
    const auto read = [&](int rank, void* to) {
      if (rank != call_.rank) return read_remote(rank, step, to, at, n);
      if (outcome_.ok()) std::memcpy(to, static_cast<std::byte*>(call_.send.address) + at, n);
    };
    const auto combined = [&](const void* left, const void* right, void* to) {
      if (outcome_.ok())
        call_.op->combine(left, right, to, static_cast<int64_t>(n / element()), *call_.recv.type);
    };
    const RemoteTerms<decltype(read), decltype(combined)> terms{read, combined, memory, segments.segment};
    algorithm::combine(terms, call_.size, rank_order_, target);
    if (call_.in_place && outcome_.ok()) std::memcpy(result, target, n);
  }
  channel_.acknowledge(step);
}

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
    combine(target, static_cast<int64_t>(n / element()),
            [&](int rank) { return rank == call_.rank ? mine + at : wait_for(rank, step, n).data; });
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
