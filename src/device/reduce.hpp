// SPDX-License-Identifier: BSD-3-Clause
// Reductions in GPU memory by a kernel, in Weft's streams. Threading: any thread.
#pragma once
#include <cstddef>
#include <span>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/kernel/reduce.hpp"
#include "device/kernel/scale.hpp"
#include "device/memory.hpp"

namespace weft::device {

using kernel::Reduction;
using kernel::reduction_of;

/// Whether a reduction kernel is loaded in the context of `dst` and can access both sides: device memory of
/// that context, memory mapped from a peer, pool memory of the same GPU, or managed memory.
[[nodiscard]] bool can_reduce(const Memory& dst, const Memory& src);

/// Starts dst[i] = sources[0][i] op sources[1][i] op ... on contiguous vectors of `bytes` bytes. Requires
/// can_reduce() for every source. dst may be one of the sources (only the first with more than
/// kernel::Reduce::kTerms sources); other overlap is forbidden. binary16 and bfloat16 round once, at the end,
/// 8-bit formats after each term.
[[nodiscard]] Result<Ticket> reduce_async(Reduction reduction, void* dst, const Memory& dst_memory,
                                          std::span<const void* const> sources, size_t bytes,
                                          StreamRole role);

/// Starts dst[i] = src[i] / divisor, or src[i] * factor if the divisor is 0, on contiguous vectors of `bytes`
/// bytes. Requires can_reduce() and kernel::can_scale(). dst may be src; other overlap is forbidden. factor:
/// an element in host memory, or in memory of the GPU that it can read; copied or read before the end.
[[nodiscard]] Result<Ticket> scale_async(kernel::Element element, void* dst, const Memory& dst_memory,
                                         const void* src, size_t bytes, uint32_t divisor, const void* factor,
                                         bool factor_on_device, StreamRole role);

}  // namespace weft::device
