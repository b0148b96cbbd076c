// SPDX-License-Identifier: BSD-3-Clause
// Packing, unpacking and copies between layouts in GPU memory by a kernel, in Weft's streams.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/memory.hpp"
#include "device/pool.hpp"

namespace weft::device {

/// Contiguous bytes at `displacement` from the address of a buffer.
struct Segment {
  int64_t displacement;
  int64_t length;
};

/// Segments of an irregular datatype, in the device memory of one context.
class SegmentTable {
 public:
  /// Uploads the segments; blocks. Errc::unsupported: too large for the kernel or for the workspace.
  [[nodiscard]] static Result<std::unique_ptr<SegmentTable>> create(const std::vector<Segment>& segments,
                                                                    const Memory& near);
  /// Whether kernels in the context of `near` can use the table.
  [[nodiscard]] bool serves(const Memory& near) const;

  Workspace memory;
  uint32_t segments = 0;
  uint32_t word = 16;  ///< every displacement and length is a multiple of this
  uint64_t bytes = 0;  ///< packed size of one element
};

/// Layout of a typed buffer: runs of `length` bytes along up to three dimensions, innermost first, or one
/// segment table per element.
struct Shape {
  static constexpr int kDimensions = 3;
  uint64_t address = 0;
  int64_t length = 0;
  int dimensions = 0;
  int64_t count[kDimensions] = {1, 1, 1};
  int64_t stride[kDimensions] = {0, 0, 0};
  const SegmentTable* table = nullptr;  ///< if set, elements are stride[0] bytes apart
  uint64_t offset = 0;                  ///< first byte of the packed stream
};
/// Contiguous bytes.
[[nodiscard]] Shape contiguous_shape(void* address);

/// Synchronisation between a pack kernel and an unpack kernel on another GPU: a flag per tile of the packed
/// stream. With consumes_all, one flag covers all tiles, e.g. the flag of copy_signal_async().
struct TileSync {
  enum class Role : uint8_t { none, produces, consumes, consumes_all };
  static constexpr uint32_t kTiles = 256;  ///< maximum number of tiles with sync_tile_bytes()
  Role role = Role::none;
  uint32_t tile = 0;   ///< size of a tile in bytes
  uint64_t flags = 0;  ///< address in GPU memory: a uint64_t per tile, or one for all
  // A flag equals `epoch` once its tile is written; flags must never have had this value before.
  uint64_t epoch = 0;
};
/// Tile size in bytes for a stream of `bytes` bytes.
[[nodiscard]] uint32_t sync_tile_bytes(uint64_t bytes);
/// Whether the settings allow kernels that wait for kernels of other GPUs.
[[nodiscard]] bool kernels_may_wait();
/// Whether kernels in the context of `near` may wait for kernels of other GPUs.
[[nodiscard]] bool can_sync_tiles(const Memory& near);

/// Whether a pack kernel is loaded and can access both sides. The kernel runs in the context of `dst` if that
/// is device memory, else of `src`.
[[nodiscard]] bool can_pack(const Memory& dst, const Memory& src);

/// Starts moving `bytes` bytes of the packed stream of `src` into `dst`. Requires can_pack().
/// Errc::unsupported for layouts beyond the kernel's 32-bit counters. Segment tables must live until the
/// ticket is done. With gpu.pack=safe, a kernel that does not start in time is cancelled, and copy engines
/// copy run by run. With a TileSync: Errc::unsupported if kernels cannot wait here; done() returns
/// Errc::again if the flags did not arrive within 100 us of the kernel's start, or if the kernel was
/// cancelled.
[[nodiscard]] Result<Ticket> pack_async(const Shape& dst, const Memory& dst_memory, const Shape& src,
                                        const Memory& src_memory, uint64_t bytes, StreamRole role,
                                        const TileSync& sync = {});

}  // namespace weft::device
