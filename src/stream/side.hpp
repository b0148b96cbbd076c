// SPDX-License-Identifier: BSD-3-Clause
// Side: the memory of a message at one of its ends. Copies: how a queue moves messages of a rank to itself.
#pragma once
#include <cstdint>

#include "base/result.hpp"
#include "core/communicator.hpp"
#include "device/collective.hpp"
#include "device/kernel/enqueue.hpp"
#include "device/pack.hpp"
#include "device/stream.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::stream {

class Request;

/// Memory of a message, or of a receive buffer.
struct Side {
  device::Shape shape;  ///< without table
  uint64_t bytes = 0;
  int tag = 0;
  [[nodiscard]] bool contiguous() const { return shape.dimensions == 0; }
  [[nodiscard]] void* address() const { return reinterpret_cast<void*>(shape.address); }
};
[[nodiscard]] inline Side contiguous_side(void* address, uint64_t bytes, int tag) {
  return {device::contiguous_shape(address), bytes, tag};
}
/// The layout of a side in words of `word` bytes; Errc::unsupported: too large for the kernel.
[[nodiscard]] Result<device::kernel::enqueue::Runs> runs_of(const Side& side, uint32_t word);

/// Checks that a buffer is memory that the GPU of a stream can access, with a layout that kernels know.
[[nodiscard]] Result<Side> describe(const core::Communicator& comm, const device::UserStream& stream,
                                    const p2p::Buffer& buffer, int tag);
/// Ordinary calls: the program may access pinned memory as soon as a call returns, unless it promises not to.
[[nodiscard]] Status check_pinned(const core::Communicator& comm, const device::Memory& memory,
                                  const char* name);
/// Messages are pending, whose peers might reach the next collective only after them.
[[nodiscard]] Error unfinished_messages();

/// Copies between the sides of a message of a rank to itself.
class Copies {
 public:
  virtual ~Copies() = default;
  /// Enqueues the copy.
  [[nodiscard]] virtual Status copy_now(const Side& to, const Side& from) = 0;
  /// Keeps the copy for the launch that completes one of the requests.
  [[nodiscard]] virtual Status copy_later(const Side& to, const Side& from, Request& send,
                                          Request& receive) = 0;
};

}  // namespace weft::stream
