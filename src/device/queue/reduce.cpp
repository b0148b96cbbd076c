// SPDX-License-Identifier: BSD-3-Clause
// Launches the reduction kernel.
#include "device/reduce.hpp"

#include <algorithm>

#include "device/queue/submit.hpp"

namespace weft::device {
namespace {

using cuda::Code;
using kernel::Reduce;

uint64_t address(const void* p) { return reinterpret_cast<uint64_t>(p); }

Code launch(cuda::TrackedStream& tracked, Reduce& reduce) {
  constexpr uint64_t kItems = uint64_t{Reduce::kThreads} * Reduce::kBatch;  // per block
  kernel::align(reduce);
  const auto blocks =
      static_cast<unsigned>(std::clamp<uint64_t>((reduce.items() + kItems - 1) / kItems, 1, Reduce::kBlocks));
  return tracked.reduce.launch(tracked.stream, blocks, Reduce::kThreads, &reduce);
}

}  // namespace

bool can_reduce(const Memory& dst, const Memory& src) {
  if (!dst.on_device() && dst.kind != MemoryKind::cuda_managed) return false;
  const auto queue = cuda::queue_of(dst);
  return queue && (*queue)->data.reduce != nullptr && cuda::reaches(**queue, dst) &&
         cuda::reaches(**queue, src);
}

Result<Ticket> reduce_async(Reduction reduction, void* dst, const Memory& dst_memory,
                            std::span<const void* const> sources, size_t bytes, StreamRole role) {
  if (bytes == 0) return Ticket();
  auto queue = cuda::queue_of(dst_memory);
  if (!queue) return std::move(queue).error();
  auto issue = [&](cuda::TrackedStream& there) {
    const cuda::RelaxedCapture relaxed;  // the first launch may load the kernel
    size_t used = 0;
    while (used < sources.size()) {
      Reduce part{};
      part.dst = address(dst);
      part.bytes = bytes;
      part.reduction = reduction;
      if (used != 0) part.sources[part.terms++] = part.dst;  // the partial result
      while (part.terms < Reduce::kTerms && used < sources.size())
        part.sources[part.terms++] = address(sources[used++]);
      if (const Code code = launch(there, part); code != cuda::kSuccess) return code;
    }
    return cuda::kSuccess;
  };
  return cuda::submit_work(**queue, dst_memory, dst_memory, role, "a reduction kernel", cuda::Issue(issue));
}

}  // namespace weft::device
