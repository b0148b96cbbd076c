// SPDX-License-Identifier: BSD-3-Clause
// Run: one blocking collective by the lanes of a channel. Data beyond a page go in several steps.
// Threading: under the instance lock.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "coll/call.hpp"
#include "coll/shared/channel.hpp"
#include "coll/shared/stream.hpp"

namespace weft::coll::shared {

/// `total` bytes cut into steps of `most` bytes; one step for nothing.
struct Slices {
  uint64_t total, most;
  [[nodiscard]] uint32_t steps() const {
    return static_cast<uint32_t>(std::max<uint64_t>(1, (total + most - 1) / most));
  }
  [[nodiscard]] uint64_t first(uint32_t i) const { return i * most; }
  [[nodiscard]] size_t bytes(uint32_t i) const { return std::min(most, total - first(i)); }
};

/// Of each of `blocks` blocks that one page shows, so many bytes.
inline uint64_t slice_of(int blocks) {
  const uint64_t most = Channel::kPageBytes / static_cast<uint64_t>(blocks);
  return most > 64 ? most & ~uint64_t{63} : most;
}

/// One run of a collective.
class Run {
 public:
  /// `direct`: ranks read each other's memory, instead of copies that each makes in shared memory.
  Run(const Call& call, Channel& channel, bool direct) : call_(call), channel_(channel), direct_(direct) {
    if (call.failed != nullptr) note(call.failed->copy());
  }
  /// Runs it to its end.
  [[nodiscard]] Status operator()();

 private:
  void barrier();
  void bcast();
  void reduce();
  void allreduce_all();
  void allreduce_parts();
  void allreduce_group(int64_t first, int64_t n, uint32_t pages);
  void allgather();
  void alltoall();
  void gather();
  void scatter();
  void bcast_direct(std::byte* data);
  void reduce_direct();
  void gather_direct(std::byte* in, const std::byte* mine);
  void scatter_direct(std::byte* in, const std::byte* blocks);
  void allgather_direct(std::byte* in, const std::byte* mine);
  void alltoall_direct(std::byte* in, const std::byte* blocks);

  [[nodiscard]] bool root() const { return call_.rank == call_.root; }
  /// Opens a stream; false, and noted, when that fails: the rank then shows and takes nothing.
  void open(Stream& stream, const p2p::Buffer& buffer, bool load) {
    if (call_.failed == nullptr || buffer.type->contiguous()) note(stream.open(buffer, load));
  }
  void close(Stream& stream) {
    if (outcome_.ok()) note(stream.store());
  }
  void note(Status status) {
    if (!status.ok() && outcome_.ok()) [[unlikely]]
      outcome_ = std::move(status);
  }
  /// Shows `n` bytes. A rank that has failed shows nothing, and those that wait for it see that.
  void put(uint32_t step, const void* from, size_t n) {
    if (!outcome_.ok()) [[unlikely]]
      n = 0;
    p2p::copy_small(channel_.claim(step, n), from, n);
    channel_.show(step, n);
  }
  /// What a rank shows; noted when that is not `n` bytes.
  [[nodiscard]] Shown take(int rank, uint32_t step, size_t n) {
    const Shown shown = channel_.await(rank, step);
    if (shown.size != n) [[unlikely]]
      note(size_error(rank, shown.size, n));
    return shown;
  }
  void get(int rank, uint32_t step, void* to, size_t n) {
    const Shown shown = take(rank, step, n);
    if (outcome_.ok()) [[likely]]
      p2p::copy_small(to, shown.data, n);
  }
  [[nodiscard]] static Error size_error(int rank, size_t shown, size_t awaited);
  template <class F>
  void others(F&& f) const {
    for (int rank = call_.rank + 1; rank < call_.size; ++rank) f(rank);
    for (int rank = 0; rank < call_.rank; ++rank) f(rank);
  }
  void put_address(uint32_t step, const void* address);
  void get_direct(int rank, uint32_t step, void* to, uint64_t offset, size_t n);
  /// Everybody shows and reads everybody's, some steps ahead.
  template <class Write, class Read>
  void exchange(uint32_t steps, Write&& write, Read&& read) {
    const uint32_t first = channel_.begin(steps);
    for (uint32_t group = 0; group < steps; group += Channel::kAhead) {
      const uint32_t end = std::min(steps, group + Channel::kAhead);
      for (uint32_t i = group; i < end; ++i) write(first + i, i);
      for (uint32_t i = group; i < end; ++i) read(first + i, i);
      channel_.met(first + end - 1);
    }
  }
  void write_blocks(uint32_t step, const std::byte* blocks, uint64_t first, uint64_t n);
  /// Where the block of rank `of` lies among those that rank `by` shows: all but its own.
  [[nodiscard]] static uint64_t place(int of, int by) { return static_cast<uint64_t>(of < by ? of : of - 1); }
  void fold(const std::byte* theirs, std::byte* mine, int64_t n) const {
    call_.op->apply(theirs, mine, n, *call_.recv.type);
  }
  [[nodiscard]] size_t element() const { return static_cast<size_t>(call_.recv.type->size()); }

  const Call& call_;
  Channel& channel_;
  const bool direct_;
  Status outcome_;
};

}  // namespace weft::coll::shared
