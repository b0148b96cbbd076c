// SPDX-License-Identifier: BSD-3-Clause
// Launching the pack kernel: shapes become layouts in words as large as both sides allow.
#include "device/pack.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/config.hpp"
#include "device/cuda/submit.hpp"
#include "device/kernel/pack.hpp"

namespace weft::device {
namespace {

using kernel::Divisor;
using kernel::Layout;
using kernel::Pack;

config::Choice setting_pack("gpu.pack", 1, {"on", "safe", "off"},
                            "Noncontiguous GPU memory is packed and copied by a kernel, safe: by one that is "
                            "taken back from a GPU that the application fills; on: by one that waits there, "
                            "some 0.5 us quicker; off: by copy engines, run by run");
config::Size setting_patience(
    "gpu.pack_patience", 2'000'000, 1'000, 10'000'000'000,
    "Nanoseconds that such a kernel may wait for a place on the GPU before copy engines get its runs, with "
    "gpu.pack=safe; or 2000 for each run, when that is more");

constexpr uint64_t kRunTime = 2'000;  // ns that a copy engine needs for a run
constexpr size_t kSafe = 1, kOff = 2;

constexpr uint64_t kMostWords = uint64_t{1} << 31;  // of a launch, and of a slab
constexpr uint32_t kFew = 1 << 16;                  // words up to which small blocks spread them over the GPU
constexpr uint64_t kMostSegments = uint64_t{1} << 24;
constexpr uint64_t kLeastTile = 1 << 10;  // bytes
// Words of a tile: one a thread is quickest across NVLink, four cost large messages less dealing.
constexpr uint64_t kFewTiles = 1056, kSmallTile = kernel::PackTiles::kThreads, kTile = 4 * kSmallTile;
constexpr uint32_t kPatience = 100'000;  // ns that a kernel waits for another's tiles
// Plain bytes wait so many ns for a place, and one for so many of them, as long as the way through the host
// would take.
constexpr uint64_t kPlainPatience = 50'000, kPlainRate = 10;

Error too_large() {
  return Error(Errc::unsupported,
               "the datatype is too large for the pack kernel: one part of it has 2^31 words");
}

bool is_plain(const Shape& shape) { return shape.table == nullptr && shape.dimensions == 0; }

/// The largest word that divides everything.
uint32_t word_of(const Shape& shape, uint64_t bytes) {
  uint64_t all = 16 | shape.address | shape.offset | bytes;
  for (int i = 0; i < Shape::kDimensions; ++i) all |= static_cast<uint64_t>(shape.stride[i]);
  all |= shape.table != nullptr ? shape.table->word : static_cast<uint64_t>(shape.length);
  return static_cast<uint32_t>(all & -all);
}

/// What repeats along the outermost dimension: bytes of the stream, and the distance in memory.
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

/// The layout from byte `offset` of the stream on, in words. False: its numbers do not fit.
bool make_layout(const Shape& shape, uint64_t offset, uint32_t word, Layout& layout) {
  layout = {};
  layout.address = shape.address;
  layout.dimensions = shape.dimensions;
  if (is_plain(shape)) {
    layout.address += offset;
    layout.run = Divisor(std::numeric_limits<uint32_t>::max());
    return true;
  }
  const Slab slab = slab_of(shape);
  if (slab.bytes / word >= kMostWords) return false;
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

cuda::Code launch(cuda::LaneStream& lane, Pack& pack) {
  const uint32_t threads = pack.words <= kFew ? 64 : Pack::kThreads;
  const uint64_t words = uint64_t{threads} * Pack::kBatch;  // of a block
  const auto blocks =
      static_cast<unsigned>(std::clamp<uint64_t>((pack.words + words - 1) / words, 1, Pack::kBlocks));
  cuda::Launcher& launcher = is_flat(pack.dst) && is_flat(pack.src) ? lane.pack_flat : lane.pack;
  return launcher.launch(lane.stream, blocks, threads, &pack);
}

uint64_t runs_of(const Shape& shape, uint64_t bytes) {
  if (shape.table != nullptr)
    return bytes / shape.table->bytes * shape.table->segments + shape.table->segments;
  return is_plain(shape) ? 1 : bytes / static_cast<uint64_t>(shape.length);
}

/// The job of a launch that can be taken back; false: it is too large for one.
bool make_job(cuda::PackJob& job, const Relay& relay) {
  Pack& pack = job.tiles.pack;
  const uint32_t word = std::min(word_of(job.dst, job.bytes), word_of(job.src, job.bytes));
  const uint64_t words = job.bytes / word;
  if (words >= kMostWords || !make_layout(job.dst, job.dst.offset, word, pack.dst) ||
      !make_layout(job.src, job.src.offset, word, pack.src))
    return false;
  pack.size = word;
  pack.words = static_cast<uint32_t>(words);
  const bool relays = relay.role != Relay::Role::none;
  job.tiles.tile = relays                            ? relay.tile / word
                   : words <= kFewTiles * kSmallTile ? static_cast<uint32_t>(kSmallTile)
                                                     : static_cast<uint32_t>(kTile);
  job.tiles.chunks = static_cast<uint32_t>((words + job.tiles.tile - 1) / job.tiles.tile);
  job.tiles.patience = kPatience;
  const bool plain_bytes = is_plain(job.dst) && is_plain(job.src);
  job.tiles.checked = plain_bytes || cuda::packs_safely() ? 1 : 0;
  job.patience = plain_bytes
                     ? kPlainPatience + job.bytes / kPlainRate
                     : std::max<uint64_t>(setting_patience, kRunTime * std::max(runs_of(job.dst, job.bytes),
                                                                                runs_of(job.src, job.bytes)));
  job.tiles.epoch = relay.epoch;
  job.tiles.apart = relay.role == Relay::Role::awaits ? 1 : 0;
  (relay.role == Relay::Role::tells ? job.tiles.signals : job.tiles.awaited) = relay.flags;
  return true;
}

const Memory& side(const Memory& dst, const Memory& src) { return dst.on_device() ? dst : src; }

}  // namespace

Result<std::unique_ptr<SegmentTable>> SegmentTable::create(const std::vector<Segment>& segments,
                                                           const Memory& near) {
  auto table = std::make_unique<SegmentTable>();
  uint64_t all = 16;
  for (const Segment& segment : segments) {
    all |= static_cast<uint64_t>(segment.displacement) | static_cast<uint64_t>(segment.length);
    table->bytes += static_cast<uint64_t>(segment.length);
  }
  if (segments.size() > kMostSegments || table->bytes >= std::numeric_limits<uint32_t>::max())
    return Error(Errc::unsupported,
                 "the datatype has too many runs, or too many bytes, for a table on the GPU");
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

Shape plain(void* address) {
  Shape shape;
  shape.address = reinterpret_cast<uint64_t>(address);
  return shape;
}

bool can_pack(const Memory& dst, const Memory& src) {
  if (setting_pack.index() == kOff || (!dst.on_device() && !src.on_device())) return false;
  const auto state = cuda::state_of(side(dst, src));
  return state && (*state)->data.pack != nullptr && cuda::reaches(**state, dst) &&
         cuda::reaches(**state, src);
}

bool cuda::packs_safely() { return setting_pack.index() == kSafe; }

uint32_t relay_tile(uint64_t bytes) {
  uint64_t tile = kLeastTile;
  while (tile * Relay::kTiles < bytes) tile *= 2;
  return static_cast<uint32_t>(std::min<uint64_t>(tile, uint64_t{1} << 31));
}

bool relays() { return setting_pack.index() != kOff; }

bool can_relay(const Memory& near) {
  if (!relays() || !near.on_device()) return false;
  const auto state = cuda::state_of(near);
  return state && (*state)->packs.takes();
}

PackCounters pack_counters(const Memory& memory) {
  if (!available() || !memory.known_to_driver()) return {};
  const auto state = cuda::state_of(memory);
  return state ? (*state)->packs.counters() : PackCounters();
}

Result<Ticket> pack_async(const Shape& dst, const Memory& dst_memory, const Shape& src,
                          const Memory& src_memory, uint64_t bytes, Lane lane, const Relay& relay) {
  if (bytes == 0) return Ticket();
  auto state = cuda::state_of(side(dst_memory, src_memory));
  if (!state) return std::move(state).error();
  const bool tiles = relay.role != Relay::Role::none || cuda::packs_safely();
  if (tiles && (*state)->packs.takes()) {
    cuda::PackJob job{dst, src, dst_memory, src_memory, bytes};
    if (make_job(job, relay))
      if (const uint32_t id = (*state)->packs.start(job); id != 0) return cuda::pack_ticket(**state, id);
  }
  if (relay.role != Relay::Role::none)
    return Error(Errc::unsupported, "no kernel here may wait for another GPU's");
  const uint32_t word = std::min(word_of(dst, bytes), word_of(src, bytes));
  Pack pack{};
  pack.size = word;
  if (!make_layout(dst, dst.offset, word, pack.dst) || !make_layout(src, src.offset, word, pack.src))
    return too_large();
  auto issue = [&](cuda::LaneStream& there) {
    const cuda::RelaxedCapture relaxed;  // a first launch may load
    for (uint64_t moved = 0; moved < bytes;) {
      make_layout(dst, dst.offset + moved, word, pack.dst);
      make_layout(src, src.offset + moved, word, pack.src);
      pack.words = static_cast<uint32_t>(std::min((bytes - moved) / word, kMostWords));
      if (const cuda::Code code = launch(there, pack); code != cuda::kSuccess) return code;
      moved += uint64_t{pack.words} * word;
    }
    return cuda::kSuccess;
  };
  return cuda::submit_work(**state, dst_memory, src_memory, lane, "a pack kernel", cuda::Issue(issue));
}

}  // namespace weft::device
