// SPDX-License-Identifier: BSD-3-Clause
// Arguments of one-sided operations: the target area, the place of its memory, and the kinds of buffers.
#pragma once
#include <cstddef>
#include <cstdint>

#include "device/memory.hpp"
#include "p2p/p2p.hpp"
#include "transport/rma/rma.hpp"

namespace weft::rma {

struct Peer;
/// Attached memory of a peer, and the place of its window memory in it.
using Target = transport::rma::Target;

/// The memory of a buffer with data. The first byte is asked for: MPI_BOTTOM is no address of the memory.
[[nodiscard]] inline device::Memory kind_of(const p2p::Buffer& buffer) {
  if (!device::available()) [[likely]]
    return {};
  return device::classify(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(buffer.address) +
                                                  static_cast<uintptr_t>(buffer.type->true_lb())));
}

/// The same for another buffer of the call: no query of the driver if it lies in the GPU memory `known`.
[[nodiscard]] inline device::Memory kind_of(const p2p::Buffer& buffer, const device::Memory& known) {
  const auto* const first = static_cast<const std::byte*>(buffer.address) + buffer.type->true_lb();
  if (known.on_device() && buffer.type->contiguous() &&
      known.covers(first, static_cast<size_t>(buffer.count * buffer.type->size())))
    return known;
  return kind_of(buffer);
}

/// Target arguments of an operation.
struct Area {
  int rank;
  int64_t disp;
  int64_t count;
  const datatype::Datatype& type;
};

/// Target memory of an operation. Offsets wrap around: with MPI_BOTTOM they are negative.
struct Place {
  Peer* peer = nullptr;
  Target* target = nullptr;
  uint64_t offset = 0;         ///< of displacement 0 of the target type in `target`
  uint64_t window_offset = 0;  ///< the same from the window's base, or the address in a dynamic window
  std::byte* host = nullptr;   ///< the same as an address of this process; null: not mapped
  bool on_device = false;
  bool gpu_atomics = false;
  uint64_t bytes = 0;  ///< packed size
};

}  // namespace weft::rma
