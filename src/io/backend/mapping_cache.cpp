// SPDX-License-Identifier: BSD-3-Clause
#include "io/backend/mapping_cache.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.hpp"
#include "base/config.hpp"

namespace weft::io {
namespace {

config::Size limit{
    "io.mapping_cache_bytes", size_t{1} << 30, 0, size_t{1} << 46,
    "Largest part in bytes of each file on tmpfs that a process keeps mapped until it closes the file, so "
    "that "
    "later accesses have no page faults. Its page tables take 1/512 of it; 0: nothing stays mapped."};

/// The bits of the blocks of a window that a range of it touches.
uint64_t blocks_of(const Range& range) {
  const int64_t first = range.first / MappingCache::kBlockBytes;
  const int64_t count = (range.end - 1) / MappingCache::kBlockBytes - first + 1;
  return (~uint64_t{0} >> (MappingCache::kBlocksPerWindow - count)) << first % MappingCache::kBlocksPerWindow;
}

}  // namespace

bool MappingCache::has(const Range& range) const {
  const std::lock_guard guard(mutex_);
  for (int64_t at = range.first, end = 0; at < range.end; at = end) {
    end = std::min(range.end, at / kWindowBytes * kWindowBytes + kWindowBytes);
    const auto chunk = chunks_.find(at / kChunkBytes);
    if (chunk == chunks_.end()) return false;
    const uint64_t wanted = blocks_of({at, end});
    const auto window = static_cast<size_t>(at % kChunkBytes / kWindowBytes);
    if ((chunk->second.windows[window] & wanted) != wanted) return false;
  }
  return true;
}

std::byte* MappingCache::provide(const Range& range) {
  WEFT_ASSERT(!range.empty() && range.first / kWindowBytes == (range.end - 1) / kWindowBytes);
  const int64_t index = range.first / kChunkBytes;
  const uint64_t wanted = blocks_of(range);
  std::unique_lock lock(mutex_);
  auto chunk = chunks_.find(index);
  uint64_t missing = wanted;
  if (chunk != chunks_.end())
    missing &= ~chunk->second.windows[static_cast<size_t>(range.first % kChunkBytes / kWindowBytes)];
  if (missing != 0 && bytes_ + std::popcount(missing) * kBlockBytes > static_cast<int64_t>(size_t{limit}))
    return nullptr;
  if (chunk == chunks_.end()) {
    const Range whole{index * kChunkBytes, (index + 1) * kChunkBytes};
    auto mapping = std::make_unique<const Mapping>(file_, whole, Mapping::Use::write);
    if (!mapping->valid()) mapping = std::make_unique<const Mapping>(file_, whole, Mapping::Use::read);
    if (!mapping->valid()) return nullptr;
    chunk = chunks_.emplace(index, Chunk{std::move(mapping)}).first;
  }
  Chunk& entry = chunk->second;  // its address is stable until clear()
  if (missing == 0) return entry.mapping->at(range.first);
  lock.unlock();
  if (!entry.mapping->populate_resident(range)) return nullptr;
  lock.lock();
  uint64_t& blocks = entry.windows[static_cast<size_t>(range.first % kChunkBytes / kWindowBytes)];
  bytes_ += std::popcount(wanted & ~blocks) * kBlockBytes;
  blocks |= wanted;
  return entry.mapping->at(range.first);
}

void MappingCache::clear() {
  const std::lock_guard guard(mutex_);
  chunks_.clear();
  bytes_ = 0;
}

}  // namespace weft::io
