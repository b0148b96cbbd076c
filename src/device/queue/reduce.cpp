// SPDX-License-Identifier: BSD-3-Clause
// Launches the reduction kernel, and the kernel that scales.
#include "device/reduce.hpp"

#include <algorithm>
#include <cstring>

#include "device/queue/submit.hpp"

namespace weft::device {
namespace {

using cuda::Code;
using kernel::Reduce;
using kernel::Scale;

uint64_t address(const void* p) { return reinterpret_cast<uint64_t>(p); }

/// Aligns a vector; returns the number of blocks whose threads have `batch` items each.
unsigned blocks_for(Reduce& vector, uint64_t batch) {
  const uint64_t items = Reduce::kThreads * batch;  // per block
  kernel::align(vector);
  return static_cast<unsigned>(
      std::clamp<uint64_t>((vector.items() + items - 1) / items, 1, Reduce::kBlocks));
}

Code launch(cuda::TrackedStream& tracked, Reduce& reduce) {
  const unsigned blocks = blocks_for(reduce, Reduce::kBatch);
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

Result<Ticket> scale_async(kernel::Element element, void* dst, const Memory& dst_memory, const void* src,
                           size_t bytes, uint32_t divisor, const void* factor, bool factor_on_device,
                           StreamRole role) {
  if (bytes == 0) return Ticket();
  auto queue = cuda::queue_of(dst_memory);
  if (!queue) return std::move(queue).error();
  Scale scale{};
  scale.vector.dst = address(dst);
  scale.vector.sources[0] = address(src);
  scale.vector.terms = 1;
  scale.vector.bytes = bytes;
  scale.vector.reduction = {element::ReduceOp::prod, element};
  scale.divisor = divisor;
  if (divisor == 0 && factor_on_device)
    scale.factor_address = address(factor);
  else if (divisor == 0)
    std::memcpy(&scale.factor, factor, kernel::element_size(element));
  auto issue = [&](cuda::TrackedStream& there) {
    const cuda::RelaxedCapture relaxed;
    const unsigned blocks = blocks_for(scale.vector, 1);
    return there.scale.launch(there.stream, blocks, Reduce::kThreads, &scale);
  };
  return cuda::submit_work(**queue, dst_memory, dst_memory, role, "a scaling kernel", cuda::Issue(issue));
}

}  // namespace weft::device
