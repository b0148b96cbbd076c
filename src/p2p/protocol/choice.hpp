// SPDX-License-Identifier: BSD-3-Clause
// Rules and limits of protocol selection, which explain_send() evaluates for hypothetical messages, too. The
// receiver selects from the table of protocol.hpp.
#pragma once
#include <cstdint>

#include "device/memory.hpp"

namespace weft::p2p {

/// Returns whether copy engines and kernels move this memory: device memory, and managed memory, which the
/// CPU could touch only slowly.
[[nodiscard]] inline bool device_side(device::MemoryKind kind) {
  return kind == device::MemoryKind::cuda_device || kind == device::MemoryKind::cuda_managed;
}

/// Returns the largest eager payload in bytes for a transport that accepts messages of `max_message`. The
/// engine may lower it per peer to eager_break_even(), which explain_send() does not know.
[[nodiscard]] uint64_t eager_limit_of(uint64_t max_message);
/// Returns the size in bytes above which one copy by the kernel is faster than two copies through shared
/// memory. `copy_ns`: time of a copy of 8 KiB into the peer's memory; `call_ns`: time of the system call.
[[nodiscard]] uint64_t eager_break_even(uint64_t copy_ns, uint64_t call_ns);
/// Returns whether a message is sent eagerly, credit permitting.
[[nodiscard]] inline bool sends_eagerly(device::MemoryKind from, uint64_t bytes, uint64_t limit) {
  return !device_side(from) && bytes <= limit;
}

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

/// Returns whether a receive of `capacity` bytes in GPU memory is advertised to its sender, which then writes
/// into it (gpu.put).
[[nodiscard]] bool may_put(uint64_t capacity);
/// The same with a bounce buffer of the receiver, if neither side's memory can be mapped.
[[nodiscard]] bool may_put_bounce(uint64_t capacity);

}  // namespace weft::p2p
