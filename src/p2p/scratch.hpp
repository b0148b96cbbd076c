// SPDX-License-Identifier: BSD-3-Clause
// Scratch: GPU memory of Weft's own. Device memory that a peer cannot map (pools, cuMemMap, managed) or that
// is not contiguous is packed into it, a chunk at a time, and fetched from there over NVLink or PCIe.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "device/memory.hpp"
#include "device/pack.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::p2p {

/// One allocation a GPU context, cut into chunks; behind them flags, by which kernels follow each other. Made
/// on first use, freed at the end.
class ScratchPool {
 public:
  struct Area {
    device::Memory memory;
    size_t chunk = 0, chunks = 0;  ///< bytes, number
    uint64_t epoch = 0;            ///< of the last message that was packed ahead
    std::vector<bool> used;        ///< by number
    size_t free = 0;               ///< chunks that nobody uses
    /// The first of so many chunks side by side; empty: there are none.
    [[nodiscard]] std::optional<uint32_t> take(size_t count = 1);
    void give_back(uint32_t number, size_t count = 1);
    [[nodiscard]] std::byte* at(uint32_t number) const {
      return reinterpret_cast<std::byte*>(memory.base) + number * chunk;
    }
    /// Of a chunk: device::Relay::kTiles words of 64 bits.
    [[nodiscard]] uint64_t flags(uint32_t number) const {
      return memory.base + chunks * chunk + number * kFlagBytes;
    }
  };
  static constexpr size_t kFlagBytes = device::Relay::kTiles * sizeof(uint64_t);
  /// Chunks that remain for messages that their receivers have asked for: those always move on.
  static constexpr size_t kReserve = 3;
  /// The area on the GPU of `near`. Errc::unsupported when switched off; else the driver's refusal.
  [[nodiscard]] Result<Area*> area(const device::Memory& near);
  /// The one that is there already; null: none.
  [[nodiscard]] Area* find(const device::Memory& near) const;
  /// Of a new area: bytes of a chunk, and their number.
  [[nodiscard]] static size_t chunk_bytes();
  [[nodiscard]] static size_t chunk_count();
  void close();

 private:
  std::vector<std::unique_ptr<Area>> areas_;
};

/// A send through scratch.
struct ScratchSend {
  struct Chunk {
    uint32_t number;
    uint64_t offset;  ///< of its first byte in the message
    size_t size;
    device::Ticket packed;
    bool offered = false;  ///< the receiver knows of it
    uint32_t count = 1;    ///< chunks side by side that it takes
  };
  static constexpr size_t kChunks = ScratchPool::kReserve;  ///< in use by one message, at most
  void give_back(const Chunk& chunk) const { area->give_back(chunk.number, chunk.count); }
  ScratchPool::Area* area = nullptr;
  std::vector<Chunk> chunks;
  uint64_t next = 0;      ///< first byte not yet packed
  uint64_t epoch = 0;     ///< not 0: packed ahead, as one piece, under this number
  bool finished = false;  ///< packed ahead, and the receiver wants no more of it
};

}  // namespace weft::p2p
