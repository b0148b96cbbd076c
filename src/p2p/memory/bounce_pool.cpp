// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/memory/bounce_pool.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/cold.hpp"
#include "base/config.hpp"
#include "device/collective.hpp"
#include "device/copy.hpp"
#include "device/pool.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::p2p {
namespace {

config::Size setting_bytes(
    "gpu.bounce_bytes", size_t{16} << 20, 0, size_t{4} << 30,
    "Bytes of GPU memory per GPU for bounce buffers, into which messages are packed that a peer "
    "cannot map or has not mapped yet, or that are not contiguous. Allocated in MPI_Init or with the first "
    "message; 0: memory is mapped with its first message, and what cannot be is staged through the host.",
    "GPU memory is scarce (smaller), or many large messages from pools or strided buffers are in "
    "flight (larger)");
constexpr size_t kChunkBytes = size_t{2} << 20;        // of the bounce buffers, packed at a time
constexpr size_t kRegionAlignment = size_t{64} << 10;  // of the region of collectives behind them

/// The first copy of a context, which follows, loads kernels: another part of the cold time.
Result<device::Memory> allocate(const device::Memory& near, size_t bytes) {
  const cold::Timer timer(cold::Part::bounce);
  return device::allocate_scratch(near, bytes);
}

}  // namespace

BouncePool::Arena* BouncePool::find(const device::Memory& near) const {
  for (const auto& arena : arenas_)
    if (arena->memory.device == near.device &&
        (near.context == nullptr || near.context == arena->memory.context) && device::alive(arena->memory))
      return arena.get();
  return nullptr;
}

Result<BouncePool::Arena*> BouncePool::arena(const device::Memory& near) {
  if (Arena* found = find(near)) return found;
  const size_t chunks = chunk_count();
  if (chunks == 0)
    return Error(Errc::unsupported, "WEFT_GPU_BOUNCE_BYTES is smaller than one chunk: raise it");
  const size_t data = chunks * kChunkBytes;
  const size_t bytes = data + chunks * kFlagBytes + transport::cuda_ipc::Exporter::kProbeBytes;
  const size_t region = (bytes + kRegionAlignment - 1) / kRegionAlignment * kRegionAlignment;
  auto memory = allocate(near, region + device::collective_region_bytes());
  const bool has_region = memory.ok();
  if (!has_region) memory = allocate(near, bytes);  // below gpu.pool_bytes, say
  if (!memory) return std::move(memory).error();
  const std::vector<std::byte> zeros(chunks * kFlagBytes);
  if (auto zeroed =
          device::copy(reinterpret_cast<void*>(memory->base + data), *memory, zeros.data(), {}, zeros.size());
      !zeroed) {
    device::free_scratch(*memory);
    return std::move(zeroed).error();
  }
  auto arena = std::make_unique<Arena>();
  arena->memory = *memory;
  arena->chunk = kChunkBytes;
  arena->chunks = chunks;
  arena->used.resize(chunks);
  arena->free = chunks;
  if (has_region) arena->region = memory->base + region;
  arenas_.push_back(std::move(arena));
  return arenas_.back().get();
}

std::optional<uint32_t> BouncePool::Arena::reserve(size_t count) {
  if (free < count) return std::nullopt;
  size_t first = 0;
  for (size_t i = 0; i < chunks; ++i) {
    if (used[i]) first = i + 1;
    if (i + 1 - first != count) continue;
    std::fill_n(used.begin() + static_cast<ptrdiff_t>(first), count, true);
    free -= count;
    return static_cast<uint32_t>(first);
  }
  return std::nullopt;
}

void BouncePool::Arena::release(uint32_t number, size_t count) {
  const auto first = used.begin() + static_cast<ptrdiff_t>(number);
  WEFT_ASSERT(std::find(first, first + static_cast<ptrdiff_t>(count), false) ==
              first + static_cast<ptrdiff_t>(count));  // P4
  std::fill_n(first, count, false);
  free += count;
}

size_t BouncePool::chunk_bytes() { return kChunkBytes; }
size_t BouncePool::chunk_count() { return setting_bytes / (kChunkBytes + kFlagBytes); }

void BouncePool::close() {
  for (const auto& arena : arenas_) device::free_scratch(arena->memory);
  arenas_.clear();
}

}  // namespace weft::p2p
