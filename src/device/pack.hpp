// SPDX-License-Identifier: BSD-3-Clause
// Packing, unpacking and copies between layouts in GPU memory by a kernel, in Weft's own streams.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/memory.hpp"
#include "device/workspace.hpp"

namespace weft::device {

/// A stretch of bytes, `displacement` from a buffer's address.
struct Segment {
  int64_t displacement;
  int64_t length;
};

/// The runs of an irregular datatype, in one context's memory.
class SegmentTable {
 public:
  /// Uploads them; waits for that. Errc::unsupported: too large for the kernel, or for the workspace.
  [[nodiscard]] static Result<std::unique_ptr<SegmentTable>> create(const std::vector<Segment>& segments,
                                                                    const Memory& near);
  /// It can be used by kernels in the context of `near`.
  [[nodiscard]] bool serves(const Memory& near) const;

  Workspace memory;
  uint32_t segments = 0;
  uint32_t word = 16;  ///< every displacement and length is a multiple of this
  uint64_t bytes = 0;  ///< of one element's stream
};

/// A typed buffer, as kernels see it: runs of `length` bytes along up to three dimensions, innermost first,
/// or a table for each element.
struct Shape {
  static constexpr int kDimensions = 3;
  uint64_t address = 0;
  int64_t length = 0;
  int dimensions = 0;
  int64_t count[kDimensions] = {1, 1, 1};
  int64_t stride[kDimensions] = {0, 0, 0};
  const SegmentTable* table = nullptr;  ///< then elements lie stride[0] apart
  uint64_t offset = 0;                  ///< the byte of the packed stream to begin with
};
/// Plain bytes.
[[nodiscard]] Shape plain(void* address);

/// A kernel that packs tells one on another GPU which tiles of the stream are written, by a word for each. Or
/// a kernel awaits the word behind a copy (copy_told_async()).
struct Relay {
  enum class Role : uint8_t { none, tells, awaits, awaits_all };
  static constexpr uint32_t kTiles = 256;  ///< that relay_tile() makes, at most
  Role role = Role::none;
  uint32_t tile = 0;   ///< bytes
  uint64_t flags = 0;  ///< a uint64_t for each tile, or for all, in GPU memory, never `epoch` before
  uint64_t epoch = 0;
};
/// The tile's size for so many bytes.
[[nodiscard]] uint32_t relay_tile(uint64_t bytes);
/// Kernels may wait for those of other GPUs, by the settings.
[[nodiscard]] bool relays();
/// Kernels in the context of `near` may wait for those of other GPUs.
[[nodiscard]] bool can_relay(const Memory& near);

/// A kernel in the context of one side can reach both, and there are kernels. That side: of `dst` where it is
/// memory of this process, else of `src`.
[[nodiscard]] bool can_pack(const Memory& dst, const Memory& src);

/// Starts moving `bytes` bytes of the packed stream of `src` to where they belong in `dst`. The memories must
/// be such that can_pack(). Errc::unsupported for what the kernel's 32-bit numbers cannot describe.
/// With gpu.pack=safe copy engines do it, run by run, where the application fills the GPU and waits. Tables
/// must live until the ticket is done. With a relay: Errc::unsupported when kernels cannot wait here;
/// done() says Errc::again when what was awaited did not come within 100 us of the kernel's start, or when
/// the kernel found no place.
[[nodiscard]] Result<Ticket> pack_async(const Shape& dst, const Memory& dst_memory, const Shape& src,
                                        const Memory& src_memory, uint64_t bytes, Lane lane,
                                        const Relay& relay = {});

/// What became of pack kernels in the context of `memory`: launched, taken back from a GPU without a place
/// for them, and those that waited in vain for another's tiles.
struct PackCounters {
  uint64_t launched = 0, taken_back = 0, missed = 0;
  uint64_t touched = 0;  ///< fetched their places while they waited
};
[[nodiscard]] PackCounters pack_counters(const Memory& memory);

}  // namespace weft::device
