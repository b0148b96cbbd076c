// SPDX-License-Identifier: BSD-3-Clause
// Launches the pack kernels: converts shapes to layouts in the largest word size that both sides allow.
#include "device/pack.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/config.hpp"
#include "device/collective.hpp"
#include "device/kernel/pack.hpp"
#include "device/queue/submit.hpp"

namespace weft::device {
namespace {

using kernel::Divisor;
using kernel::Layout;
using kernel::Pack;

config::Choice setting_pack(
    "gpu.pack", 1, {"on", "safe", "off"},
    "Executor for packing and copying noncontiguous GPU memory: on (kernel, waits while the application "
    "occupies the GPU), safe (kernel, cancelled after gpu.pack_timeout_ns if it cannot start; "
    "about 0.5 us slower), off (copy engines, run by run).",
    "application kernels never fill the GPU while they wait for a message (on), or Weft must run no "
    "pack kernels (off)");
config::Size setting_timeout("gpu.pack_timeout_ns", 2'000'000, 1'000, 10'000'000'000,
                             "With gpu.pack=safe, time in ns after which a pack kernel that has not started "
                             "is cancelled and copy engines "
                             "take over; at least 2000 per run of bytes");

constexpr uint64_t kRunTimeNs = 2'000;  // time of a copy engine for one run
constexpr size_t kCancellable = 1, kOff = 2;

constexpr uint64_t kMaxWords = uint64_t{1} << 31;  // per launch and per slab
constexpr uint32_t kMaxSmallBlockWords = 1 << 16;  // up to here, small blocks spread the words over the GPU
constexpr uint64_t kMaxSegments = uint64_t{1} << 24;
constexpr uint64_t kMinTileBytes = 1 << 10;
// Tile sizes: one word per thread is fastest across NVLink; four reduce the scheduling cost of large
// messages.
constexpr uint64_t kMaxSmallTiles = 1056, kSmallTileWords = kernel::PackTiles::kThreads,
                   kLargeTileWords = 4 * kSmallTileWords;
constexpr uint32_t kFlagTimeoutNs = 100'000;  // wait for the tiles of another GPU
// Start timeout of contiguous copies: a base plus 1 ns per so many bytes, about the time of a copy through
// the host.
constexpr uint64_t kContiguousTimeoutNs = 50'000, kBytesPerTimeoutNs = 10;

Error too_large() {
  return Error(Errc::unsupported,
               "the datatype is too large for the pack kernel: one repeated part has 2^31 words");
}

bool is_contiguous(const Shape& shape) { return shape.table == nullptr && shape.dimensions == 0; }

/// The repeated part along the outermost dimension: packed bytes, and the distance in memory.
struct Slab {
  uint64_t bytes;
  int64_t stride;
};
Slab slab_of(const Shape& shape) {
  if (shape.table != nullptr) return {shape.table->bytes, shape.stride[0]};
  auto bytes = static_cast<uint64_t>(shape.length);
  for (int i = 0; i + 1 < shape.dimensions; ++i) bytes *= static_cast<uint64_t>(shape.count[i]);
  return {bytes, shape.dimensions > 0 ? shape.stride[shape.dimensions - 1] : 0};
}

/// Builds the layout from byte `offset` of the packed stream on, in words. False: 32-bit counters overflow.
bool make_layout(const Shape& shape, uint64_t offset, uint32_t word, Layout& layout) {
  layout = {};
  layout.address = shape.address;
  layout.dimensions = shape.dimensions;
  if (is_contiguous(shape)) {
    layout.address += offset;
    layout.run = Divisor(std::numeric_limits<uint32_t>::max());
    return true;
  }
  const Slab slab = slab_of(shape);
  if (slab.bytes / word >= kMaxWords) return false;
  layout.address += static_cast<uint64_t>(slab.stride) * (offset / slab.bytes);
  layout.first = static_cast<uint32_t>(offset % slab.bytes / word);
  for (int i = 0; i < Shape::kDimensions; ++i) layout.stride[i] = shape.stride[i];
  if (shape.table != nullptr) {
    const uint64_t base = shape.table->memory.memory().base;
    layout.segments = shape.table->segments;
    layout.displacement = base;
    layout.prefix = base + layout.segments * sizeof(int64_t);
    layout.run = Divisor(static_cast<uint32_t>(slab.bytes / word));
    return true;
  }
  layout.run = Divisor(static_cast<uint32_t>(static_cast<uint64_t>(shape.length) / word));
  for (int i = 0; i + 1 < shape.dimensions; ++i)
    layout.count[i] = Divisor(static_cast<uint32_t>(shape.count[i]));
  return true;
}

cuda::Code launch(cuda::TrackedStream& tracked, Pack& pack) {
  const uint32_t threads = pack.words <= kMaxSmallBlockWords ? 64 : Pack::kThreads;
  const uint64_t words = uint64_t{threads} * Pack::kBatch;  // per block
  const auto blocks =
      static_cast<unsigned>(std::clamp<uint64_t>((pack.words + words - 1) / words, 1, Pack::kBlocks));
  cuda::Launcher& launcher = is_flat(pack.dst) && is_flat(pack.src) ? tracked.pack_flat : tracked.pack;
  return launcher.launch(tracked.stream, blocks, threads, &pack);
}

uint64_t runs_of(const Shape& shape, uint64_t bytes) {
  if (shape.table != nullptr)
    return bytes / shape.table->bytes * shape.table->segments + shape.table->segments;
  return is_contiguous(shape) ? 1 : bytes / static_cast<uint64_t>(shape.length);
}

/// Fills in the job of a cancellable launch; false: too large for one launch.
bool make_job(cuda::PackJob& job, const TileSync& sync) {
  Pack& pack = job.tiles.pack;
  const uint32_t word = std::min(word_of(job.dst, job.bytes), word_of(job.src, job.bytes));
  const uint64_t words = job.bytes / word;
  if (words >= kMaxWords || !make_layout(job.dst, job.dst.offset, word, pack.dst) ||
      !make_layout(job.src, job.src.offset, word, pack.src))
    return false;
  pack.size = word;
  pack.words = static_cast<uint32_t>(words);
  const bool relays = sync.role != TileSync::Role::none;
  job.tiles.tile_words = relays                                      ? sync.tile / word
                         : words <= kMaxSmallTiles * kSmallTileWords ? static_cast<uint32_t>(kSmallTileWords)
                                                                     : static_cast<uint32_t>(kLargeTileWords);
  job.tiles.chunks = static_cast<uint32_t>((words + job.tiles.tile_words - 1) / job.tiles.tile_words);
  job.tiles.timeout_ns = kFlagTimeoutNs;
  const bool contiguous = is_contiguous(job.dst) && is_contiguous(job.src);
  job.tiles.cancellable = contiguous || cuda::pack_is_cancellable() ? 1 : 0;
  job.timeout_ns =
      contiguous ? kContiguousTimeoutNs + job.bytes / kBytesPerTimeoutNs
                 : std::max<uint64_t>(setting_timeout, kRunTimeNs * std::max(runs_of(job.dst, job.bytes),
                                                                             runs_of(job.src, job.bytes)));
  job.tiles.epoch = sync.epoch;
  job.tiles.flag_stride = sync.role == TileSync::Role::consumes ? 1 : 0;
  (sync.role == TileSync::Role::produces ? job.tiles.signals : job.tiles.wait_flags) = sync.flags;
  return true;
}

const Memory& side(const Memory& dst, const Memory& src) { return dst.on_device() ? dst : src; }

}  // namespace

uint32_t word_of(const Shape& shape, uint64_t bytes) {
  uint64_t all = 16 | shape.address | shape.offset | bytes;
  for (int i = 0; i < Shape::kDimensions; ++i) all |= static_cast<uint64_t>(shape.stride[i]);
  all |= shape.table != nullptr ? shape.table->word : static_cast<uint64_t>(shape.length);
  return static_cast<uint32_t>(all & -all);
}

Result<kernel::Block> block_of(const Shape& shape, uint64_t bytes, uint32_t word, uint64_t first) {
  kernel::Block block{};
  block.first = first;
  block.bytes = bytes;
  block.word = word;
  if (bytes / word >= kMaxWords || !make_layout(shape, shape.offset, word, block.layout)) return too_large();
  return block;
}

Result<kernel::enqueue::Runs> strided_runs(const Shape& shape, uint64_t bytes, uint32_t word) {
  auto block = block_of(shape, bytes, word, 0);
  if (!block) return std::move(block).error();
  const kernel::Layout& layout = block->layout;
  return kernel::enqueue::Runs{{layout.stride[0], layout.stride[1], layout.stride[2]},
                               layout.run,
                               {layout.count[0], layout.count[1]},
                               static_cast<uint16_t>(layout.dimensions),
                               static_cast<uint16_t>(word)};
}

Result<std::unique_ptr<SegmentTable>> SegmentTable::create(const std::vector<Segment>& segments,
                                                           const Memory& near) {
  auto table = std::make_unique<SegmentTable>();
  uint64_t all = 16;
  for (const Segment& segment : segments) {
    all |= static_cast<uint64_t>(segment.displacement) | static_cast<uint64_t>(segment.length);
    table->bytes += static_cast<uint64_t>(segment.length);
  }
  if (segments.size() > kMaxSegments || table->bytes >= std::numeric_limits<uint32_t>::max())
    return Error(Errc::unsupported,
                 "the datatype has too many segments, or too many bytes, for a segment table on the GPU");
  table->word = static_cast<uint32_t>(all & -all);
  table->segments = static_cast<uint32_t>(segments.size());
  const size_t head = segments.size() * sizeof(int64_t);
  std::vector<char> image(head + (segments.size() + 1) * sizeof(uint32_t));
  uint32_t before = 0;
  for (size_t i = 0; i <= segments.size(); ++i) {
    std::memcpy(image.data() + head + i * sizeof before, &before, sizeof before);
    if (i == segments.size()) break;
    std::memcpy(image.data() + i * sizeof(int64_t), &segments[i].displacement, sizeof(int64_t));
    before += static_cast<uint32_t>(segments[i].length);
  }
  auto memory = Workspace::lease(near, image.size());
  if (!memory) return std::move(memory).error();
  table->memory = std::move(*memory);
  const Memory& there = table->memory.memory();
  WEFT_TRY(copy(reinterpret_cast<void*>(there.base), there, image.data(), {}, image.size()));
  return table;
}

bool SegmentTable::serves(const Memory& near) const {
  const Memory& here = memory.memory();
  return here.device == near.device && (near.context == nullptr || near.context == here.context) &&
         memory.alive();
}

Shape contiguous_shape(void* address) {
  Shape shape;
  shape.address = reinterpret_cast<uint64_t>(address);
  return shape;
}

bool can_pack(const Memory& dst, const Memory& src) {
  if (setting_pack.index() == kOff || (!dst.on_device() && !src.on_device())) return false;
  const auto queue = cuda::queue_of(side(dst, src));
  return queue && (*queue)->data.pack != nullptr && cuda::reaches(**queue, dst) &&
         cuda::reaches(**queue, src);
}

bool cuda::pack_is_cancellable() { return setting_pack.index() == kCancellable; }

uint32_t sync_tile_bytes(uint64_t bytes) {
  uint64_t tile = kMinTileBytes;
  while (tile * TileSync::kTiles < bytes) tile *= 2;
  return static_cast<uint32_t>(std::min<uint64_t>(tile, uint64_t{1} << 31));
}

bool kernels_may_wait() { return setting_pack.index() != kOff; }

bool can_sync_tiles(const Memory& near) {
  if (!kernels_may_wait() || !near.on_device()) return false;
  const auto queue = cuda::queue_of(near);
  return queue && (*queue)->pack_queue.accepts();
}

Result<Ticket> pack_async(const Shape& dst, const Memory& dst_memory, const Shape& src,
                          const Memory& src_memory, uint64_t bytes, StreamRole role, const TileSync& sync) {
  if (bytes == 0) return Ticket();
  auto queue = cuda::queue_of(side(dst_memory, src_memory));
  if (!queue) return std::move(queue).error();
  const bool tiles = sync.role != TileSync::Role::none || cuda::pack_is_cancellable();
  if (tiles && (*queue)->pack_queue.accepts()) {
    cuda::PackJob job{dst, src, dst_memory, src_memory, bytes};
    if (make_job(job, sync))
      if (const uint32_t id = (*queue)->pack_queue.start(job); id != 0) return cuda::pack_ticket(**queue, id);
  }
  if (sync.role != TileSync::Role::none)
    return Error(Errc::unsupported, "kernels on this GPU may not wait for kernels of another GPU");
  const uint32_t word = std::min(word_of(dst, bytes), word_of(src, bytes));
  Pack pack{};
  pack.size = word;
  if (!make_layout(dst, dst.offset, word, pack.dst) || !make_layout(src, src.offset, word, pack.src))
    return too_large();
  auto issue = [&](cuda::TrackedStream& there) {
    const cuda::RelaxedCapture relaxed;  // the first launch may load the kernel
    for (uint64_t moved = 0; moved < bytes;) {
      make_layout(dst, dst.offset + moved, word, pack.dst);
      make_layout(src, src.offset + moved, word, pack.src);
      pack.words = static_cast<uint32_t>(std::min((bytes - moved) / word, kMaxWords));
      if (const cuda::Code code = launch(there, pack); code != cuda::kSuccess) return code;
      moved += uint64_t{pack.words} * word;
    }
    return cuda::kSuccess;
  };
  return cuda::submit_work(**queue, dst_memory, src_memory, role, "a pack kernel", cuda::Issue(issue));
}

}  // namespace weft::device
