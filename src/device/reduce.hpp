// SPDX-License-Identifier: BSD-3-Clause
// Reductions in GPU memory by a kernel, in Weft's own streams. Threading: any thread.
#pragma once
#include <cstddef>
#include <span>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/kernel/reduce.hpp"
#include "device/memory.hpp"

namespace weft::device {

using kernel::Reduction;
using kernel::reduction_of;

/// A kernel in the context of `dst` can reduce into it from `src`: device memory of that context, mapped from
/// a peer, of a pool of the same GPU, or managed; and there are kernels.
[[nodiscard]] bool can_reduce(const Memory& dst, const Memory& src);

/// Starts dst[i] = sources[0][i] op sources[1][i] op ...: vectors of `bytes` bytes, whole elements one behind
/// the other. Every source must be such that can_reduce(). dst may be one of the sources, else nothing
/// overlaps. With more than kernel::Reduce::kTerms sources dst must not be one but the first. binary16 and
/// bfloat16 are rounded once, at the end.
[[nodiscard]] Result<Ticket> reduce_async(Reduction reduction, void* dst, const Memory& dst_memory,
                                          std::span<const void* const> sources, size_t bytes, Lane lane);

}  // namespace weft::device
