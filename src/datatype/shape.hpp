// SPDX-License-Identifier: BSD-3-Clause
// Datatypes for pack kernels: a strided block if the layout is one, else a table of runs in GPU memory,
// created once per type and context. Threading: under the instance lock.
#pragma once
#include "datatype/datatype.hpp"
#include "device/pack.hpp"

namespace weft::datatype {

/// `count` elements of `type` at `address`, starting at byte `offset` of their packed stream, for kernels in
/// the CUDA context of `near`. Errc::unsupported: too many runs.
[[nodiscard]] Result<device::Shape> shape_of(const Datatype& type, Count count, void* address, Count offset,
                                             const device::Memory& near);
/// Mean length of the contiguous runs, in bytes.
[[nodiscard]] inline uint64_t mean_run_length(const device::Shape& shape) {
  return shape.table != nullptr ? shape.table->bytes / shape.table->segments
                                : static_cast<uint64_t>(shape.length);
}

}  // namespace weft::datatype
