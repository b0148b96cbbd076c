// SPDX-License-Identifier: BSD-3-Clause
// MappingCache: parts of a file in memory (tmpfs) that stay mapped until the file is closed. The page faults
// of a first access cost about as much as its copies; later accesses have none. Threading: any thread.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "io/backend/mapping.hpp"

namespace weft::io {

class MappingCache {
 public:
  /// The unit of the cache: 16 pages, which one page fault maps.
  static constexpr int64_t kBlockBytes = 64 << 10;
  static constexpr int64_t kBlocksPerWindow = 64;
  static constexpr int64_t kWindowBytes = kBlocksPerWindow * kBlockBytes;

  explicit MappingCache(const Descriptor& file) : file_(file) {}
  MappingCache(const MappingCache&) = delete;
  MappingCache& operator=(const MappingCache&) = delete;

  /// Whether the pages of a range are mapped. They may be touched while the range is in the file and the file
  /// has no holes (Descriptor::filled()): a page of tmpfs fails for no other reason.
  [[nodiscard]] bool has(const Range& range) const;
  /// Maps the pages of a range of one window, which must be in memory. Returns the address of its first byte;
  /// null: io.mapping_cache_bytes are mapped, or the kernel refuses.
  [[nodiscard]] std::byte* provide(const Range& range);
  /// Removes all mappings. No access is in flight.
  void clear();

 private:
  static constexpr int64_t kWindowsPerChunk = 64;
  static constexpr int64_t kChunkBytes = kWindowsPerChunk * kWindowBytes;
  /// Address space that is reserved at once. Windows: a bit for each block that is mapped.
  struct Chunk {
    std::unique_ptr<const Mapping> mapping;
    std::array<uint64_t, kWindowsPerChunk> windows{};
  };

  const Descriptor& file_;
  mutable std::mutex mutex_;
  std::unordered_map<int64_t, Chunk> chunks_;  ///< by offset / kChunkBytes
  int64_t bytes_ = 0;                          ///< mapped
};

}  // namespace weft::io
