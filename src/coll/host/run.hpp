// SPDX-License-Identifier: BSD-3-Clause
// Run: one blocking collective through the slot areas of a channel. Data larger than a page take several
// steps. Threading: under the instance lock.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "coll/algorithm/order.hpp"
#include "coll/host/contiguous_buffer.hpp"
#include "coll/host/slot_steps.hpp"
#include "coll/schedule/call.hpp"

namespace weft::coll::host {

/// `total` bytes in steps of `segment` bytes; at least one step.
struct StepSegments {
  uint64_t total, segment;
  [[nodiscard]] uint32_t steps() const {
    return static_cast<uint32_t>(std::max<uint64_t>(1, (total + segment - 1) / segment));
  }
  [[nodiscard]] uint64_t first(uint32_t i) const { return i * segment; }
  [[nodiscard]] size_t bytes(uint32_t i) const { return std::min(segment, total - first(i)); }
};

/// Bytes of each block in one step, where a page holds a segment of `blocks` blocks.
inline uint64_t block_segment_bytes(int blocks) {
  const uint64_t segment = SlotSteps::kPageBytes / static_cast<uint64_t>(blocks);
  return segment > 64 ? segment & ~uint64_t{63} : segment;
}

class BlockPlacement;

/// One execution of a collective.
class Run {
 public:
  /// `single_copy`: the ranks of alltoall and scatter read each other's memory; otherwise each rank copies
  /// its data into shared memory.
  Run(const Call& call, SlotSteps& channel, bool single_copy)
      : call_(call), channel_(channel), single_copy_(single_copy), rank_order_(algorithm::rank_order(call)) {
    if (call.failed != nullptr) record_error(call.failed->copy());
  }
  /// Runs the collective to completion.
  [[nodiscard]] Status operator()();

 private:
  void barrier();
  void bcast();
  void reduce();
  void allreduce_redundant();
  void allreduce_partitioned();
  void allreduce_group(int64_t first, int64_t n, uint32_t pages);
  void reduce_scatter();
  void allgather();
  void alltoall();
  void gather();
  void scatter();
  void scatter_single_copy();
  void alltoall_single_copy();
  void exchange_sized_blocks();

  [[nodiscard]] bool root() const { return call_.rank == call_.root; }
  /// Opens `packed`. After a recorded error the rank publishes empty data.
  void open(ContiguousBuffer& packed, const p2p::Buffer& buffer, bool load) {
    if (call_.failed == nullptr || buffer.type->contiguous()) record_error(packed.open(buffer, load));
  }
  void close(ContiguousBuffer& packed) {
    if (outcome_.ok()) record_error(packed.store());
  }
  void record_error(Status status) {
    if (!status.ok() && outcome_.ok()) [[unlikely]]
      outcome_ = std::move(status);
  }
  /// Publishes `n` bytes. After an error the rank publishes no bytes, which the waiting ranks detect.
  void publish(Step step, const void* from, size_t n) {
    if (!outcome_.ok()) [[unlikely]]
      n = 0;
    p2p::copy_small(channel_.claim(step, n), from, n);
    channel_.publish(step, n);
  }
  /// Publishes bytes [offset, offset + n) of the packed data of a buffer.
  void publish(Step step, const p2p::Buffer& from, uint64_t offset, size_t n) {
    if (!outcome_.ok()) [[unlikely]]
      n = 0;
    pack(from, offset, channel_.claim(step, n), n);
    channel_.publish(step, n);
  }
  /// Waits for the data of a rank; records an error unless its size is `n` bytes.
  [[nodiscard]] Published wait_for(int rank, Step step, size_t n) {
    const Published published = channel_.wait_published(rank, step);
    if (channel_.broken()) [[unlikely]]
      record_error(channel_.failure());
    if (published.size != n) [[unlikely]]
      record_error(size_mismatch(rank, published.size, n));
    return published;
  }
  void receive(int rank, Step step, void* to, size_t n) {
    const Published published = wait_for(rank, step, n);
    if (outcome_.ok()) [[likely]]
      p2p::copy_small(to, published.data, n);
    channel_.check_unchanged(rank, step, published.size);
  }
  /// Receives bytes [offset, offset + n) of the packed data of a buffer.
  void receive(int rank, Step step, const p2p::Buffer& to, uint64_t offset, size_t n) {
    const Published published = wait_for(rank, step, n);
    if (outcome_.ok()) [[likely]]
      unpack(to, offset, published.data, n);
    channel_.check_unchanged(rank, step, published.size);
  }
  // Steps copy parts of the packed data between the buffers and shared memory, whatever their types.
  static void pack(const p2p::Buffer& from, uint64_t offset, std::byte* to, size_t n) {
    if (from.type->contiguous()) [[likely]]
      p2p::copy_small(to, static_cast<const std::byte*>(from.address) + offset, n);
    else
      datatype::pack(*from.type, from.count, from.address, static_cast<datatype::Count>(offset), to, n);
  }
  static void unpack(const p2p::Buffer& to, uint64_t offset, const std::byte* from, size_t n) {
    if (to.type->contiguous()) [[likely]]
      p2p::copy_small(static_cast<std::byte*>(to.address) + offset, from, n);
    else
      datatype::unpack(*to.type, to.count, to.address, static_cast<datatype::Count>(offset), from, n);
  }
  /// Copies this rank's own block of `n` bytes, at these offsets in the packed data. `equal`: the sizes of
  /// both sides are.
  void copy_own_block(const p2p::Buffer& to, uint64_t to_offset, const p2p::Buffer& from,
                      uint64_t from_offset, uint64_t n, bool equal) {
    if (!equal) [[unlikely]]
      record_error(own_block_mismatch());
    if (!outcome_.ok()) [[unlikely]]
      return;
    if (from.type->contiguous()) [[likely]]
      unpack(to, to_offset, static_cast<const std::byte*>(from.address) + from_offset, n);
    else
      repack_own_block(to, to_offset, from, from_offset, n);
  }
  [[nodiscard]] static Error own_block_mismatch();
  static void repack_own_block(const p2p::Buffer& to, uint64_t to_offset, const p2p::Buffer& from,
                               uint64_t from_offset, uint64_t n);
  void receive_block(int rank, Step step, const p2p::Buffer& to, uint64_t offset, size_t n);
  [[nodiscard]] static Error size_mismatch(int rank, size_t published, size_t expected);
  template <class F>
  void for_each_peer(F&& f) const {
    for (int rank = call_.rank + 1; rank < call_.size; ++rank) f(rank);
    for (int rank = 0; rank < call_.rank; ++rank) f(rank);
  }
  void publish_address(Step step, const void* address);
  void read_remote(int rank, Step step, void* to, uint64_t offset, size_t n);
  /// Every rank publishes its data and reads those of all ranks, up to kPipelineSteps steps at a time. A rank
  /// publishes the first step of a group after it has read all groups before.
  template <class Write, class Read>
  void exchange(uint32_t steps, Write&& write, Read&& read) {
    const Step first = channel_.reserve_steps(steps);
    for (uint32_t group = 0; group < steps; group += SlotSteps::kPipelineSteps) {
      const uint32_t end = std::min(steps, group + SlotSteps::kPipelineSteps);
      for (uint32_t i = group; i < end; ++i) write(first + i, i);
      channel_.sleep_until_published(first + end - 1);
      for (uint32_t i = group; i < end; ++i) read(first + i, i);
      channel_.exchanged(first + group, first + end - 1);
    }
  }
  void publish_blocks(Step step, const p2p::Buffer& blocks, uint64_t first, uint64_t n);
  /// Index of the block for rank `of` among the blocks that rank `by` publishes: all but its own.
  [[nodiscard]] static uint64_t block_index(int of, int by) {
    return static_cast<uint64_t>(of < by ? of : of - 1);
  }
  class Messages;
  template <class F>
  void for_each_sent(F&& f) const;
  template <class F>
  void for_each_received(F&& f) const;
  [[nodiscard]] bool receives_from_all() const;
  BlockPlacement publish_sized_blocks(Step step);
  void copy_own_sized_block();
  [[nodiscard]] size_t receive_sized_blocks(Step step, Messages& messages);
  /// Combines `n` elements of the terms of all ranks in `target`; term(rank) waits for a rank's term and
  /// returns it.
  template <class Term>
  void combine(std::byte* target, int64_t n, Term&& term);
  /// Terms of this run in algorithm::combine(). Stale after an error.
  template <class Term>
  struct Terms;
  /// The terms of the peers have not changed while they were combined.
  void check_terms(Step step, size_t n) const {
    if (outcome_.ok()) for_each_peer([&](int rank) { channel_.check_unchanged(rank, step, n); });
  }
  [[nodiscard]] size_t element() const { return static_cast<size_t>(call_.recv.type->size()); }

  const Call& call_;
  SlotSteps& channel_;
  const bool single_copy_, rank_order_;
  Status outcome_;
};

template <class Term>
struct Run::Terms {
  Run& run;
  Term& term_of;
  std::byte* scratch_memory;
  size_t scratch_bytes;  // per intermediate result
  int64_t n;
  size_t at, bytes;  // of the elements in the terms
  [[nodiscard]] const std::byte* term(int rank) const { return term_of(rank) + at; }
  void copy(int rank, void* to) const { std::memcpy(to, term(rank), bytes); }
  void combine(const void* left, const void* right, void* to) const {
    if (run.outcome_.ok()) [[likely]]
      run.call_.op->combine(left, right, to, n, *run.call_.recv.type);
  }
  [[nodiscard]] void* scratch(int, int i) const {
    return scratch_memory + static_cast<size_t>(i) * scratch_bytes;
  }
};

template <class Term>
void Run::combine(std::byte* target, int64_t n, Term&& term) {
  if (call_.size == 2) {  // no intermediate result
    const std::byte *const left = term(0), *const right = term(1);
    if (outcome_.ok()) [[likely]]
      call_.op->combine(left, right, target, n, *call_.recv.type);
    return;
  }
  constexpr size_t kScratchBytes = 16 << 10;
  alignas(64) std::byte memory[kScratchBytes];
  const auto vectors = static_cast<size_t>(rank_order_ ? 2 : algorithm::TreeShape::depth(call_.size));
  const size_t size = element(), all = static_cast<size_t>(n) * size;
  const auto combine_part = [&](size_t at, size_t bytes, int64_t elements, size_t block) {
    Terms<Term> terms{*this, term, memory, block, elements, at, bytes};
    algorithm::combine(terms, call_.size, rank_order_, target + at);
  };
  // Without the divisions below, which take a tenth of an all-reduce of 8 bytes.
  if (all * vectors <= kScratchBytes) return combine_part(0, all, n, all);
  const size_t block = kScratchBytes / vectors / size * size;
  size_t at = 0;
  do {
    const size_t bytes = std::min(block, all - at);
    combine_part(at, bytes, static_cast<int64_t>(bytes / size), block);
    at += bytes;
  } while (at < all);
}

}  // namespace weft::coll::host
