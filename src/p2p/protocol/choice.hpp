// SPDX-License-Identifier: BSD-3-Clause
// Which way a message takes, by what its two ends know. The engine asks here at each decision, and explain()
// asks the same for messages that nobody has sent.
#pragma once
#include <cstdint>

#include "device/memory.hpp"

namespace weft::p2p {

/// Moved by copy engines and kernels: device memory, and managed memory (which the CPU could touch, slowly).
[[nodiscard]] inline bool device_side(device::MemoryKind kind) {
  return kind == device::MemoryKind::cuda_device || kind == device::MemoryKind::cuda_managed;
}

/// The largest payload that leaves with its header, through a transport that takes messages of `max_message`;
/// to a peer whose copies were timed, eager_crossing() if that is less (explain() knows no such peer).
[[nodiscard]] uint64_t eager_limit_of(uint64_t max_message);
/// The size in bytes above which a host message to a peer of this host is quicker read by the kernel than
/// copied twice through shared memory: from nanoseconds that a copy of 8 KiB into the peer's memory and a
/// call of the kernel take.
[[nodiscard]] uint64_t eager_crossing(uint64_t copy_ns, uint64_t call_ns);
/// Whether a message leaves with its header, credit permitting.
[[nodiscard]] inline bool sends_eagerly(device::MemoryKind from, uint64_t bytes, uint64_t limit) {
  return !device_side(from) && bytes <= limit;
}

/// How the sender's device memory is offered first; what turns out impossible goes by scratch.
enum class Offer : uint8_t { as_it_lies, strides, scratch };
/// `one_allocation`: all of it lies in one.
[[nodiscard]] inline Offer offer_of(device::MemoryKind from, bool contiguous, bool one_allocation) {
  if (from != device::MemoryKind::cuda_device) return Offer::scratch;
  if (!contiguous) return Offer::strides;
  return one_allocation ? Offer::as_it_lies : Offer::scratch;
}

/// A strided message of `bytes` bytes in runs of `length` is quicker read over NVLink than packed first:
/// gpu.strided_overhead.
[[nodiscard]] bool reads_well(uint64_t length, uint64_t bytes);
/// Messages that are packed first are packed when they are sent, up to this size: gpu.pack_ahead.
[[nodiscard]] uint64_t ahead_limit();

/// What the receiver knows of an announced message.
struct Announced {
  bool device = false;      ///< no CPU path may read it
  bool contiguous = false;  ///< in the sender's memory
  bool region = false;      ///< an allocation to be mapped: the data lie in it, or ...
  bool scratch = false;     ///< ... will be packed into it
  bool strided = false;     ///< ... lie in it as strides say
  uint64_t bytes = 0;
};

/// How the receiver gets an announced message.
enum class Way : uint8_t {
  single_copy,  ///< the kernel reads the sender's memory
  upload,       ///< the same into pinned chunks, copied up from there
  mapped,       ///< one copy from the sender's mapped allocation
  strided,      ///< a kernel reads the sender's runs where they lie
  scratch,      ///< chunk by chunk from the sender's mapped scratch
  offered,      ///< the sender fills pinned chunks, which the receiver reads
  fragments     ///< through shared memory
};
[[nodiscard]] const char* name(Way way);

/// Whether a message into plain GPU memory is written by its sender when the receive comes first: gpu.put.
[[nodiscard]] bool may_put(uint64_t room);
/// The same into GPU scratch of the receiver, where neither side's memory can be mapped: gpu.put_aside_min.
[[nodiscard]] bool may_put_aside(uint64_t room);

/// Messages from here on are read from the sender's pinned chunks: gpu.staged_read_min.
[[nodiscard]] uint64_t staged_read_min();

/// What is left when nothing quicker works. readable(): the sender's host memory can be read.
template <class Readable>
[[nodiscard]] Way staged_way(device::MemoryKind to, const Announced& message, Readable&& readable) {
  const bool reads = !device_side(to) && message.device && message.bytes >= staged_read_min() && readable();
  return reads ? Way::offered : Way::fragments;
}

template <class Readable>
[[nodiscard]] Way way_of(device::MemoryKind to, const Announced& message, Readable&& readable) {
  if (!message.device) {
    if (!message.contiguous || !readable()) return Way::fragments;
    return device_side(to) ? Way::upload : Way::single_copy;
  }
  const bool reached =
      message.region &&
      (device_side(to) || (!message.scratch && !message.strided && to == device::MemoryKind::host_pinned));
  if (!reached) return staged_way(to, message, readable);
  if (message.scratch) return Way::scratch;
  return message.strided ? Way::strided : Way::mapped;
}

}  // namespace weft::p2p
