// SPDX-License-Identifier: BSD-3-Clause
// Kernel of device_random_hosts.cpp: the operations of a rank in one round (random_operations.hpp).
#include "random_operations.hpp"
#include "weft_device.cuh"

namespace {

using weft::device::Block;
using weft::device::Error;
using weft::device::Target;
using weft::device::Thread;
using weft::device::Warp;
using weft::device::Window;
using weft::test::traffic::Segment;
using weft::test::traffic::Sum;

/// Executes a segment, then overwrites the buffer of a put: its memory may be reused.
template <class Scope>
__device__ bool execute(Scope scope, const Window& window, const Segment& segment, long long* buffer) {
  const Target target = window.target(segment.target);
  const size_t bytes = segment.words * sizeof(long long);
  Error error = Error::none;
  if (segment.kind == Segment::get)
    error = target.get(scope, segment.first, buffer, bytes);
  else if (segment.kind == Segment::put)
    error = target.put(scope, segment.first, buffer, bytes);
  else if (segment.kind == Segment::put_notify)
    error = target.put_notify(scope, segment.first, buffer, bytes, segment.notification);
  if (segment.kind == Segment::put || segment.kind == Segment::put_notify)
    for (size_t i = scope.index(); i < segment.words; i += scope.count()) buffer[i] = -1;
  scope.sync();
  return error == Error::none;
}

}  // namespace

/// One scope of the plan is a block. buffers: as many words as all windows, with the data to put; gets write
/// there. counts: the notifications that this rank gets. snapshot: gets the window memory `own` of this rank
/// as it is once they have arrived. result: errors, blocks that have ended.
extern "C" __global__ void hosts_random(const void* handle, const Segment* segments, int segment_count,
                                        const Sum* sums, int sum_count, long long* buffers,
                                        unsigned long long words, const unsigned long long* counts,
                                        const long long* own, long long* snapshot, long long* result) {
  const Window window(handle);
  const auto mine = static_cast<int>(blockIdx.x);
  bool good = true;
  for (int i = 0; i < segment_count; ++i) {
    const Segment segment = segments[i];
    if (segment.by != mine) continue;
    long long* const buffer = buffers + static_cast<uint64_t>(segment.target) * words + segment.first;
    if (segment.width == 2)
      good &= execute(Block(), window, segment, buffer);
    else if (segment.width == 1 && Block().index() < 32)
      good &= execute(Warp(), window, segment, buffer);
    else if (segment.width == 0 && Block().index() == 0)
      good &= execute(Thread(), window, segment, buffer);
    __syncthreads();
  }
  if (Block().index() == 0)
    for (int i = 0; i < sum_count; ++i)
      if (sums[i].by == mine)
        window.target(sums[i].target)
            .atomic_add<long long>(static_cast<uint64_t>(sums[i].index), sums[i].value);
  for (int to = 0; to < window.size(); ++to)
    good &= window.notify(Block(), to, weft::test::traffic::kLast) == Error::none;
  if (mine == 0) {
    for (uint32_t i = 0; i <= weft::test::traffic::kLast; ++i)
      good &= window.wait_notify(Block(), i, counts[i]) == Error::none;
    const auto* const now = static_cast<const volatile long long*>(own);
    for (unsigned long long i = Block().index(); i < words; i += Block().count()) snapshot[i] = now[i];
    good &= window.barrier(Block()) == Error::none;
  }
  if (!good) atomicAdd(reinterpret_cast<unsigned long long*>(result), 1ull);
  __syncthreads();
  if (Block().index() == 0) atomicAdd(reinterpret_cast<unsigned long long*>(result + 1), 1ull);
}
