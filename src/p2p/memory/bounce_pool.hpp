// SPDX-License-Identifier: BSD-3-Clause
// BouncePool: bounce buffers in GPU memory. Device memory that a peer cannot map (pools, managed) or has not
// mapped yet, or that is not contiguous, is packed into them and read by the peer over NVLink or PCIe.
// Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "device/memory.hpp"
#include "device/pack.hpp"
#include "p2p/memory/device_copy.hpp"
#include "p2p/memory/limit.hpp"

namespace weft::p2p {

/// One allocation per GPU context, divided into chunks, followed by flags with which packing and unpacking
/// kernels synchronise, and by memory for a region of collectives, so that peers map both at once. Allocated
/// on first use, freed at close(). An allocation in a context that the program has reset since is not used
/// again.
class BouncePool {
 public:
  struct Arena {
    device::Memory memory;
    size_t chunk = 0, chunks = 0;  ///< bytes per chunk, number of chunks
    uint64_t epoch = 0;            ///< of the last eagerly packed message
    std::vector<bool> used;        ///< indexed by chunk number
    size_t free = 0;               ///< number of unused chunks
    uint64_t region = 0;           ///< address of the memory for a region of collectives; 0: none, or taken
    /// Returns the number of the first of `count` adjacent unused chunks; nullopt: none.
    [[nodiscard]] std::optional<uint32_t> reserve(size_t count = 1);
    void release(uint32_t number, size_t count = 1);
    /// Returns the number of chunks that hold `bytes` bytes.
    [[nodiscard]] size_t chunks_for(uint64_t bytes) const { return (bytes + chunk - 1) / chunk; }
    [[nodiscard]] std::byte* at(uint32_t number) const {
      return reinterpret_cast<std::byte*>(memory.base) + number * chunk;
    }
    /// Plain bytes from the start of a chunk.
    [[nodiscard]] View view(uint32_t number) const { return {at(number), nullptr, 0, memory}; }
    /// Returns the address of the chunk's flags: one 64-bit word per tile.
    [[nodiscard]] uint64_t flags(uint32_t number) const {
      return memory.base + chunks * chunk + number * kFlagBytes;
    }
    /// Returns the address of the bytes behind the flags for the probe of the GPU (Exporter::place_probe()).
    [[nodiscard]] uint64_t probe() const { return memory.base + chunks * (chunk + kFlagBytes); }
  };
  static constexpr size_t kFlagBytes = device::TileSync::kTiles * sizeof(uint64_t);
  /// Chunks kept for messages that their receivers have requested, so that these always progress.
  static constexpr size_t kReservedChunks = 3;
  /// Returns the arena on the GPU of `near`. Errc::unsupported when switched off, else the driver's error.
  [[nodiscard]] Result<Arena*> arena(const device::Memory& near);
  /// Returns the existing arena; null: none.
  [[nodiscard]] Arena* find(const device::Memory& near) const;
  /// Size in bytes and number of chunks of a new arena.
  [[nodiscard]] static size_t chunk_bytes();
  [[nodiscard]] static size_t chunk_count();
  void close();

  /// Kernels that wait for data from a sender. More could fill the GPU and starve this process's own packing.
  Limit waiting_kernels{2};
  Limit gets{UINT32_MAX};  ///< reads from bounce buffers of senders, in flight

 private:
  std::vector<std::unique_ptr<Arena>> arenas_;
};

}  // namespace weft::p2p
