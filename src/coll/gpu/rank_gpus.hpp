// SPDX-License-Identifier: BSD-3-Clause
// The GPUs of the ranks of a communicator: which ranks share one, and how many blocks of kernels that wait
// for each other run there at the same time. Published by the ranks, so all ranks draw the same conclusions.
#pragma once
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "device/info.hpp"

namespace weft::coll::gpu {

struct RankGpu {
  device::GpuId id;
  /// Multiprocessors of the GPU that this rank can use, if kernels of several ranks run there side by side
  /// (MPS); 0: they do not.
  uint32_t shared_multiprocessors;
  uint32_t known_ranks;  ///< ranks of the host that use the GPU and have published it
  /// The GPU of this rank; `device` is its ordinal.
  [[nodiscard]] static Result<RankGpu> of(int device);
};

/// Errc::unsupported with both ranks and the remedy if two ranks share a GPU without MPS: kernels that wait
/// for each other would be time-sliced.
[[nodiscard]] Status check_sharing(std::span<const RankGpu> gpus);
/// Most blocks of a collective kernel such that the kernels of all ranks run at the same time, and leave room
/// for those of other communicators whose ranks are known to use the GPUs; 0: no limit, since MPS is not in
/// use. A block counts for a multiprocessor.
[[nodiscard]] uint32_t max_resident_blocks(std::span<const RankGpu> gpus);
/// Records how many ranks share `device`, the GPU of rank `own`. Returns max_resident_blocks().
[[nodiscard]] uint32_t record_sharing(std::span<const RankGpu> gpus, int own, int device);

}  // namespace weft::coll::gpu
