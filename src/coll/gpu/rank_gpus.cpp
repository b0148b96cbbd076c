// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/rank_gpus.hpp"

#include <algorithm>
#include <string>

#include "device/copy.hpp"
#include "device/kernel/collective.hpp"

namespace weft::coll::gpu {
namespace {

constexpr uint32_t kBlocks = device::kernel::Collective::kBlocks;

/// Number of ranks with the GPU of `gpu`.
uint32_t ranks_on(const RankGpu& gpu, std::span<const RankGpu> gpus) {
  return static_cast<uint32_t>(
      std::count_if(gpus.begin(), gpus.end(), [&](const RankGpu& other) { return other.id == gpu.id; }));
}

}  // namespace

Result<RankGpu> RankGpu::of(int device) {
  auto id = device::id_of(device);
  if (!id) return std::move(id).error();
  RankGpu gpu{*id, 0, device::ranks_on_device(device)};
  if (!device::kernels_run_side_by_side(device)) return gpu;
  auto multiprocessors = device::multiprocessors(device);
  if (!multiprocessors) return std::move(multiprocessors).error();
  gpu.shared_multiprocessors = static_cast<uint32_t>(*multiprocessors);
  return gpu;
}

Status check_sharing(std::span<const RankGpu> gpus) {
  for (size_t rank = 0; rank < gpus.size(); ++rank)
    for (size_t other = 0; other < rank; ++other)
      if (gpus[other].id == gpus[rank].id &&
          (gpus[other].shared_multiprocessors == 0 || gpus[rank].shared_multiprocessors == 0))
        return Error(Errc::unsupported,
                     "ranks " + std::to_string(other) + " and " + std::to_string(rank) +
                         " use the same GPU without MPS, where kernels that wait for each other would be "
                         "time-sliced: give each rank a GPU of its own, or start MPS");
  return {};
}

uint32_t max_resident_blocks(std::span<const RankGpu> gpus) {
  uint32_t limit = 0;
  for (const RankGpu& gpu : gpus) {
    if (gpu.shared_multiprocessors == 0) continue;
    const uint32_t ranks = std::max(ranks_on(gpu, gpus), gpu.known_ranks);
    // Blocks beyond kBlocks / 2 have half as many threads: two fit on a multiprocessor.
    const bool all_fit = ranks == 1 && gpu.shared_multiprocessors >= kBlocks / 2;
    const uint32_t blocks = all_fit ? kBlocks : std::max(gpu.shared_multiprocessors / ranks, 1u);
    limit = limit == 0 ? blocks : std::min(limit, blocks);
  }
  return limit;
}

uint32_t record_sharing(std::span<const RankGpu> gpus, int own, int device) {
  device::note_shared_device(device, ranks_on(gpus[static_cast<size_t>(own)], gpus));
  return max_resident_blocks(gpus);
}

}  // namespace weft::coll::gpu
