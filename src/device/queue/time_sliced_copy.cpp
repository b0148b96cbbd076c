// SPDX-License-Identifier: BSD-3-Clause
#include "device/queue/time_sliced_copy.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "device/time_slices.hpp"

namespace weft::device::cuda {
namespace {

log::SlowPath shared_gpu{"gpu.time_sliced",
                         "copies inside the GPU go through host memory, or wait for a switch of the GPU "
                         "between processes: 2 to 40 times slower than under MPS"};

// Largest copies in bytes that take less time through host memory, at 18 GB/s, than a switch of the GPU
// (bench/results/time-sliced-gpu-h200.json).
constexpr size_t kMaxStagedBytes = size_t{2} << 20;
constexpr size_t kMaxStagedCopies = 16;  // each takes two or three calls of the driver

// Pinned chunks that are left to other transfers, which wait for one, since a stream keeps its own.
constexpr size_t kSpareChunks = 2;

/// The chunk of a stream. Its copies are in order, so that one chunk serves all of them.
PinnedBuffer& chunk_of(TrackedStream& tracked) {
  WorkQueue& queue = *tracked.queue;
  return queue.time_slice_chunks[static_cast<size_t>(&tracked - queue.streams.data())];
}

/// Whether copies submitted together take less time through host memory than a switch of the GPU.
bool worth_staging(std::span<const CopyOp> copies) {
  size_t bytes = 0, count = 0;
  for (const CopyOp& copy : copies) {
    if (copy.size == 0) continue;
    bytes += copy.size;
    if (bytes > kMaxStagedBytes || ++count > kMaxStagedCopies) return false;
  }
  return true;
}

/// Copies two rows of `width` bytes, `pitch` bytes apart, from host to device memory.
Code copy_two_rows(const kernel::CopyItem& item, size_t width, size_t pitch, Stream stream) {
  Memcpy2D copy{};
  copy.src_type = kMemoryHost;
  copy.src_host = reinterpret_cast<const void*>(item.src);
  copy.dst_type = kMemoryDevice;
  copy.dst_device = item.dst;
  copy.src_pitch = copy.dst_pitch = pitch;
  copy.width = width;
  copy.height = 2;
  return driver().memcpy_2d_async(&copy, stream);
}

}  // namespace

CopyForm form_of(const WorkQueue& queue, const Memory& dst, const Memory& src,
                 std::span<const CopyOp> copies) {
  if (!time_sliced(queue.device)) [[likely]]
    return CopyForm::plain;
  if (dst.on_device() && src.on_device() && dst.device == src.device) {
    shared_gpu.hit(
        "several ranks use it without MPS: give each rank a GPU of its own, or start them with mpiexec --mps "
        "on");
    return worth_staging(copies) ? CopyForm::staged : CopyForm::plain;
  }
  return dst.on_device() && src.kind == MemoryKind::host_pinned ? CopyForm::rows : CopyForm::plain;
}

bool can_stage(TrackedStream& tracked) {
  PinnedBuffer& chunk = chunk_of(tracked);
  if (chunk) return true;
  auto leased = lease_spare(*tracked.queue, kSpareChunks);
  if (leased) chunk = std::move(*leased);
  return leased.ok();
}

// The driver leaves a copy of less than 32 KiB from the host to the compute engine, unless it has several
// rows. An odd last byte is a row, with the first byte as the other.
Code copy_in_rows(const kernel::CopyItem& item, Stream stream) {
  constexpr size_t kMaxBytes = size_t{64} << 10;  // larger ones need no rows
  const size_t half = item.bytes / 2;
  if (half == 0 || item.bytes > kMaxBytes)
    return driver().memcpy_async(item.dst, item.src, item.bytes, stream);
  const Code code = copy_two_rows(item, half, half, stream);
  if (code != kSuccess || item.bytes % 2 == 0) return code;
  return copy_two_rows(item, 1, item.bytes - 1, stream);
}

Code copy_staged(const kernel::CopyItem& item, TrackedStream& tracked) {
  if (item.bytes == 1) return driver().memcpy_async(item.dst, item.src, 1, tracked.stream);
  const PinnedBuffer& chunk = chunk_of(tracked);
  const auto staging = reinterpret_cast<Address>(chunk.data());
  size_t n = 0;
  for (size_t at = 0; at < item.bytes; at += n) {
    n = std::min<size_t>(chunk.size(), item.bytes - at);
    if (item.bytes - at - n == 1) --n;  // a single byte has no rows
    Code code = driver().memcpy_async(staging, item.src + at, n, tracked.stream);
    if (code == kSuccess) code = copy_in_rows({item.dst + at, staging, n}, tracked.stream);
    if (code != kSuccess) return code;
  }
  return kSuccess;
}

}  // namespace weft::device::cuda
