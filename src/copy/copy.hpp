// SPDX-License-Identifier: BSD-3-Clause
// Copies between two views of any memory kind and layout. Threading: under the instance lock (datatypes
// create tables for kernels on first use); between plain views any thread.
#pragma once
#include <cstdint>

#include "base/result.hpp"
#include "copy/view.hpp"
#include "device/copy.hpp"
#include "device/pack.hpp"

namespace weft::copy {

/// Starts a copy of the first `n` bytes of `from` to those of `to`: by kernels, copy engines, or, for a
/// layout on one side and host memory that kernels cannot access on the other, in parts through pinned or GPU
/// memory. Copies in parts, and those between host memory, are complete on return, and the ticket is empty.
/// The views must not overlap. Precondition: a GPU driver knows one side, or both sides are host memory.
[[nodiscard]] Result<device::Ticket> submit(const View& to, const View& from, uint64_t n,
                                            device::StreamRole stream);
/// Copies and waits for the end. The CPU copies if it can access both sides.
[[nodiscard]] Status execute(const View& to, const View& from, uint64_t n,
                             device::StreamRole stream = device::StreamRole::local);

/// Starts a copy by one tiled kernel that synchronises with another one by tile flags (device/pack.hpp).
/// Errc::unsupported if no kernel can do it.
[[nodiscard]] Result<device::Ticket> submit_tile_sync(const View& to, const View& from, uint64_t n,
                                                      const device::TileSync& sync,
                                                      device::StreamRole stream);
/// Starts a copy of the first `n` bytes of a packed stream of layout `from` by a kernel. Errc::unsupported if
/// no kernel can do it.
[[nodiscard]] Result<device::Ticket> submit_shape(const View& to, const device::Shape& from,
                                                  const device::Memory& from_memory, uint64_t n,
                                                  device::StreamRole stream);

}  // namespace weft::copy
