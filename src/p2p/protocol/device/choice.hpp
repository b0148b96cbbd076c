// SPDX-License-Identifier: BSD-3-Clause
// Rules and limits of the protocols of device memory, which explain_send() evaluates for hypothetical
// messages, too.
#pragma once
#include <cstdint>

#include "device/memory.hpp"

namespace weft::p2p {

/// The source that the RTS of device memory names: the allocation, the allocation with strides, or a bounce
/// buffer. The sender falls back to the bounce buffer.
enum class RtsSource : uint8_t { region, strided, bounce };
/// `one_allocation`: the whole message lies in one allocation.
[[nodiscard]] inline RtsSource rts_source(device::MemoryKind from, bool contiguous, bool one_allocation) {
  if (from != device::MemoryKind::cuda_device) return RtsSource::bounce;
  if (!contiguous) return RtsSource::strided;
  return one_allocation ? RtsSource::region : RtsSource::bounce;
}

/// Returns whether a kernel reads a strided message of `bytes` bytes in runs of `length` over NVLink, rather
/// than packing it first (gpu.strided_overhead).
[[nodiscard]] bool prefers_strided_get(uint64_t length, uint64_t bytes);
/// Largest message in bytes that is packed eagerly, at the send (gpu.eager_pack_max).
[[nodiscard]] uint64_t eager_pack_limit();

/// Returns the time in ns that a message of `bytes` bytes takes longer through a bounce buffer than by one
/// copy of mapped memory (docs/adr/0052).
[[nodiscard]] uint64_t bounce_extra_ns(uint64_t bytes);

/// Returns whether a receive of `capacity` bytes in GPU memory is advertised to its sender, which then writes
/// into it (gpu.put).
[[nodiscard]] bool may_put(uint64_t capacity);
/// The same with a bounce buffer of the receiver, if neither side's memory can be mapped.
[[nodiscard]] bool may_put_bounce(uint64_t capacity);

}  // namespace weft::p2p
