// SPDX-License-Identifier: BSD-3-Clause
// Copies between two typed buffers of any memory kind, as one submission to a copy engine.
#pragma once
#include <cstdint>

#include "datatype/datatype.hpp"
#include "device/copy.hpp"
#include "device/pack.hpp"
#include "p2p/scratch.hpp"
#include "p2p/transfer.hpp"

namespace weft::p2p {

/// A buffer to copy from or to; `type` null: plain bytes.
struct View {
  std::byte* address;
  const datatype::Datatype* type;
  int64_t count;
  device::Memory memory;
};
[[nodiscard]] View view_of(const Transfer& t);
/// From the start of a chunk of scratch on.
[[nodiscard]] View view_of(const ScratchPool::Area& area, uint32_t chunk);

/// The first `bytes` of both packed streams.
[[nodiscard]] Result<device::Ticket> submit(const View& to, const View& from, uint64_t bytes,
                                            device::Lane lane);
/// All of a packed stream in one tiled launch, told or awaited as the relay says. Errc::unsupported: it
/// cannot.
[[nodiscard]] Result<device::Ticket> submit_relayed(const View& to, const View& from, uint64_t bytes,
                                                    const device::Relay& relay, device::Lane lane);
/// Plain bytes `from` to bytes [offset, offset + n) of the stream of `to`.
[[nodiscard]] Result<device::Ticket> submit_part(const View& to, uint64_t offset, const View& from, size_t n,
                                                 device::Lane lane);
/// The first `bytes` of a packed stream that lies elsewhere as `from` says, by a kernel. Errc::unsupported:
/// it cannot.
[[nodiscard]] Result<device::Ticket> submit_from(const View& to, const device::Shape& from,
                                                 const device::Memory& from_memory, uint64_t bytes,
                                                 device::Lane lane);
/// Bytes [offset, offset + n) of the stream of `from` to plain bytes `to`.
[[nodiscard]] Result<device::Ticket> submit_part_out(const View& to, const View& from, uint64_t offset,
                                                     size_t n, device::Lane lane);

}  // namespace weft::p2p
