// SPDX-License-Identifier: BSD-3-Clause
// Packing by copy engines after a pack kernel was cancelled: slow, but independent of the application's
// kernels. Copies inside one GPU go through host memory, since the driver executes them with kernels too.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/log.hpp"
#include "device/queue/submit.hpp"

namespace weft::device::cuda {
namespace {

log::SlowPath cancelled{"gpu.pack_cancelled", "copy engines pack run by run, about 2 us per run"};

constexpr size_t kMaxCopiesPerSubmission = 4096;

/// Iterates over the contiguous memory ranges of a packed stream.
class RangeWalker {
 public:
  /// Downloads the segment table of the shape, if any.
  [[nodiscard]] static Result<RangeWalker> of(const Shape& shape, WorkQueue& queue);
  /// Returns the next range, at most `max_bytes` bytes long.
  [[nodiscard]] CopyOp next(uint64_t max_bytes);
  /// Steps back by `n` unused bytes of the last range.
  void give_back(uint64_t n) { at_ -= n; }

 private:
  [[nodiscard]] CopyOp in_table(uint64_t max_bytes) const;
  Shape shape_;
  uint64_t at_ = 0;
  std::vector<int64_t> displacements_;
  std::vector<uint32_t> prefix_;
};

CopyOp piece(uint64_t address, uint64_t size) { return {reinterpret_cast<void*>(address), nullptr, size}; }

Status download(WorkQueue& queue, void* to, uint64_t from, size_t n) {
  const CopyOp one{to, reinterpret_cast<const void*>(from), n};
  auto ticket = copy_engines_async(queue, {}, {}, StreamRole::aux, {&one, 1});
  if (!ticket) return std::move(ticket).error();
  return wait(*ticket);
}

Result<RangeWalker> RangeWalker::of(const Shape& shape, WorkQueue& queue) {
  RangeWalker walker;
  walker.shape_ = shape;
  walker.at_ = shape.offset;
  if (shape.table == nullptr) return walker;
  const size_t n = shape.table->segments;
  const uint64_t base = shape.table->memory.memory().base;
  walker.displacements_.resize(n);
  walker.prefix_.resize(n + 1);
  WEFT_TRY(download(queue, walker.displacements_.data(), base, n * sizeof(int64_t)));
  WEFT_TRY(download(queue, walker.prefix_.data(), base + n * sizeof(int64_t), (n + 1) * sizeof(uint32_t)));
  return walker;
}

CopyOp RangeWalker::in_table(uint64_t max_bytes) const {
  const uint64_t element = at_ / shape_.table->bytes, at = at_ % shape_.table->bytes;
  const auto after = std::upper_bound(prefix_.begin(), prefix_.end() - 1, static_cast<uint32_t>(at));
  const auto segment = static_cast<size_t>(after - prefix_.begin()) - 1;
  const uint64_t inside = at - prefix_[segment];
  const auto start =
      static_cast<uint64_t>(displacements_[segment] + shape_.stride[0] * static_cast<int64_t>(element));
  return piece(shape_.address + start + inside, std::min(max_bytes, prefix_[segment + 1] - at));
}

CopyOp RangeWalker::next(uint64_t max_bytes) {
  CopyOp found{};
  if (shape_.table != nullptr) {
    found = in_table(max_bytes);
  } else if (shape_.dimensions == 0) {
    found = piece(shape_.address + at_, max_bytes);
  } else {
    const auto length = static_cast<uint64_t>(shape_.length);
    uint64_t run = at_ / length, address = shape_.address + at_ % length;
    for (int i = 0; i < shape_.dimensions; ++i) {
      const bool last = i + 1 == shape_.dimensions;
      const uint64_t here = last ? run : run % static_cast<uint64_t>(shape_.count[i]);
      run /= static_cast<uint64_t>(shape_.count[i]);
      address += here * static_cast<uint64_t>(shape_.stride[i]);
    }
    found = piece(address, std::min(max_bytes, length - at_ % length));
  }
  at_ += found.size;
  return found;
}

/// Copies `bytes` bytes between two packed streams. Returns the ticket of the last submission; all use one
/// CUDA stream and complete in order.
Result<Ticket> copy_stream(WorkQueue& queue, RangeWalker& to, const Memory& dst, RangeWalker& from,
                           const Memory& src, uint64_t bytes) {
  std::vector<CopyOp> copies;
  Ticket last;
  for (uint64_t moved = 0; moved < bytes;) {
    copies.clear();
    while (moved < bytes && copies.size() < kMaxCopiesPerSubmission) {
      const CopyOp source = from.next(bytes - moved), target = to.next(source.size);
      from.give_back(source.size - target.size);
      copies.push_back({target.dst, source.dst, target.size});
      moved += target.size;
    }
    auto ticket = copy_engines_async(queue, dst, src, StreamRole::aux, copies);
    if (!ticket) return ticket;
    last = std::move(*ticket);
  }
  return last;
}

/// Both sides on one GPU: copies through host memory in parts. Pinned memory cannot be allocated here, since
/// the allocation waits for running kernels.
Result<Ticket> through_host(WorkQueue& queue, RangeWalker& to, RangeWalker& from, const PackJob& job) {
  const std::lock_guard lock(queue.pack_queue.staging_mutex);
  const std::unique_ptr<char[]> unpinned(
      queue.pack_queue.staging() != nullptr ? nullptr : new char[PackQueue::kStagingBytes]);
  char* const staging = unpinned ? unpinned.get() : queue.pack_queue.staging();
  for (uint64_t moved = 0; moved < job.bytes;) {
    const uint64_t n = std::min<uint64_t>(PackQueue::kStagingBytes, job.bytes - moved);
    for (const bool down : {true, false}) {
      auto host = RangeWalker::of(contiguous_shape(staging), queue);
      if (!host) return std::move(host).error();
      auto ticket = down ? copy_stream(queue, *host, {}, from, job.src_memory, n)
                         : copy_stream(queue, to, job.dst_memory, *host, {}, n);
      if (!ticket) return ticket;
      WEFT_TRY(wait(*ticket));
    }
    moved += n;
  }
  return Ticket();
}

bool on_this_gpu(const WorkQueue& queue, const Memory& memory) {
  return memory.kind == MemoryKind::cuda_managed || (memory.on_device() && memory.device == queue.device);
}

}  // namespace

Result<Ticket> pack_by_copy_engines(WorkQueue& queue, const PackJob& job) {
  cancelled.hit("a kernel of the application occupies the GPU");
  auto to = RangeWalker::of(job.dst, queue), from = RangeWalker::of(job.src, queue);
  if (!to) return std::move(to).error();
  if (!from) return std::move(from).error();
  if (on_this_gpu(queue, job.dst_memory) && on_this_gpu(queue, job.src_memory))
    return through_host(queue, *to, *from, job);
  return copy_stream(queue, *to, job.dst_memory, *from, job.src_memory, job.bytes);
}

}  // namespace weft::device::cuda
