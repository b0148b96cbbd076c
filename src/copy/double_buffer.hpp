// SPDX-License-Identifier: BSD-3-Clause
// DoubleBuffer: two chunks of host memory between a view and a source or sink on the host. The GPU copies one
// chunk while the CPU fills or empties the other. Threading: as copy.hpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.hpp"
#include "copy/host_chunk.hpp"
#include "device/copy.hpp"

namespace weft::copy {

class DoubleBuffer {
 public:
  /// Fills or empties `n` bytes of a chunk, which are those from `at` on in the stream.
  using Step = std::function<Status(std::byte* chunk, uint64_t at, size_t n)>;

  /// Leases pinned chunks near a GPU for `n` bytes: one if they fit in it, or if no second one is free.
  /// Errors as device::lease_pinned().
  [[nodiscard]] static Result<DoubleBuffer> lease(const device::Memory& near, uint64_t n);
  /// The same; pageable memory, reported as the slow path gpu.pageable_staging, if no pinned chunk is free.
  [[nodiscard]] static DoubleBuffer lease_any(const device::Memory& near, uint64_t n);
  DoubleBuffer() = default;
  DoubleBuffer(DoubleBuffer&&) = default;
  DoubleBuffer& operator=(DoubleBuffer&&) = delete;
  /// Waits for the copies in flight.
  ~DoubleBuffer() { (void)wait(); }

  /// Copies `n` bytes, which `fill` produces chunk by chunk, to `to`. On success the copies from the last
  /// chunks may still be in flight: wait().
  [[nodiscard]] Status upload(const View& to, uint64_t n, device::StreamRole stream, const Step& fill);
  /// Copies `n` bytes of `from`, which `drain` consumes chunk by chunk, in order. Complete on return.
  [[nodiscard]] Status download(const View& from, uint64_t n, device::StreamRole stream, const Step& drain);
  /// Waits for the copies in flight; returns the first error.
  [[nodiscard]] Status wait();

 private:
  struct Chunk {
    HostChunk memory;
    device::Ticket ticket;  ///< of the copy from or to `memory`
  };
  [[nodiscard]] Chunk& chunk(uint64_t step) { return chunks_[chunks_[1].memory ? step % 2 : 0]; }

  Chunk chunks_[2];
};

}  // namespace weft::copy
