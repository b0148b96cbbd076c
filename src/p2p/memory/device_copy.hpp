// SPDX-License-Identifier: BSD-3-Clause
// Copies between two typed buffers of any memory kind, as one asynchronous submission.
#pragma once
#include <cstdint>

#include "datatype/datatype.hpp"
#include "device/copy.hpp"
#include "device/pack.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

/// A buffer to copy from or to; `type` null: plain bytes.
struct View {
  std::byte* address;
  const datatype::Datatype* type;
  int64_t count;
  device::Memory memory;
};
[[nodiscard]] View view_of(const Transfer& t);

/// Copies the first `bytes` of both packed streams.
[[nodiscard]] Result<device::Ticket> submit(const View& to, const View& from, uint64_t bytes,
                                            device::StreamRole stream);
/// Copies a whole packed stream by one tiled kernel that synchronises with another one by tile flags.
/// Errc::unsupported if no kernel can do it.
[[nodiscard]] Result<device::Ticket> submit_tile_sync(const View& to, const View& from, uint64_t bytes,
                                                      const device::TileSync& sync,
                                                      device::StreamRole stream);
/// Copies plain bytes `from` to bytes [offset, offset + n) of the packed stream of `to`.
[[nodiscard]] Result<device::Ticket> submit_part(const View& to, uint64_t offset, const View& from, size_t n,
                                                 device::StreamRole stream);
/// Copies the first `bytes` of a packed stream of layout `from` by a kernel. Errc::unsupported if no kernel
/// can do it.
[[nodiscard]] Result<device::Ticket> submit_from(const View& to, const device::Shape& from,
                                                 const device::Memory& from_memory, uint64_t bytes,
                                                 device::StreamRole stream);
/// Copies bytes [offset, offset + n) of the packed stream of `from` to plain bytes `to`.
[[nodiscard]] Result<device::Ticket> submit_part_out(const View& to, const View& from, uint64_t offset,
                                                     size_t n, device::StreamRole stream);

/// Packs the whole buffer of a send, of any memory kind, into host memory `to`. Blocks.
[[nodiscard]] Status pack_out(const Transfer& t, std::byte* to);

}  // namespace weft::p2p
