// SPDX-License-Identifier: BSD-3-Clause
// SharedCopy: a large copy from one process to another that both execute. Lies in memory that both map; the
// data do not, and are copied by system calls (ADR 0043, 0047).
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/assert.hpp"

namespace weft::transport::shm {

/// The process that opens the copy claims chunks from the start and its helper from the end, so that both
/// find the same memory in their caches in the next copy. Each claim takes half of the chunks that are left:
/// few system calls, and both sides end within the time of one chunk.
struct SharedCopy {
  static constexpr uint64_t kMinBytes = 64 << 10;  ///< smaller copies are not shared
  enum class Side : uint8_t { opener, helper };
  /// Claimed bytes.
  struct Part {
    uint64_t offset, bytes;
    uint32_t chunks;
  };

  /// number << 32 | first unclaimed chunk << 16 | end of the unclaimed chunks
  std::atomic<uint64_t> claims;
  std::atomic<uint32_t> helper_chunks;  ///< that the helper has copied, or could not copy
  std::atomic<uint32_t> refused;        ///< 1: the helper could not copy a chunk that it had claimed

  /// Bytes in a chunk of a copy: pages, at most 2^15 chunks. A system call takes as long as 16 KiB.
  [[nodiscard]] static constexpr uint64_t chunk_of(uint64_t bytes) {
    constexpr uint64_t kMin = 32 << 10, kMax = 256 << 10, kPage = 4096;
    const uint64_t least = std::max(std::clamp(bytes / 2, kMin, kMax), bytes >> 15);
    return (least + kPage - 1) / kPage * kPage;
  }
  /// By the opener, whose numbers differ from copy to copy; no claim of a former copy may be incomplete.
  void open(uint32_t number, uint64_t bytes) {
    WEFT_ASSERT(!has_unclaimed());  // T5
    const uint64_t chunk = chunk_of(bytes);
    helper_chunks.store(0, std::memory_order_relaxed);
    refused.store(0, std::memory_order_relaxed);
    claims.store(uint64_t{number} << 32 | (bytes + chunk - 1) / chunk, std::memory_order_release);
  }
  /// Claims half of the unclaimed chunks of a copy of `bytes` bytes, or all; nullopt: there is none, or the
  /// copy of this number has ended.
  [[nodiscard]] std::optional<Part> claim(uint32_t number, Side side, uint64_t bytes, bool all = false) {
    uint64_t seen = claims.load(std::memory_order_acquire);
    while (seen >> 32 == number && first(seen) < end(seen)) {
      const uint64_t left = end(seen) - first(seen), count = all ? left : (left + 1) / 2;
      const uint64_t begin = side == Side::opener ? first(seen) : end(seen) - count;
      const uint64_t next = side == Side::opener ? seen + (count << 16) : seen - count;
      if (!claims.compare_exchange_weak(seen, next, std::memory_order_acq_rel)) continue;
      const uint64_t chunk = chunk_of(bytes), offset = std::min(begin * chunk, bytes);
      return Part{offset, std::min(count * chunk, bytes - offset), static_cast<uint32_t>(count)};
    }
    return std::nullopt;
  }
  /// By the opener: whether a chunk is left to claim.
  [[nodiscard]] bool has_unclaimed() const {
    const uint64_t seen = claims.load(std::memory_order_relaxed);
    return first(seen) < end(seen);
  }
  /// By the opener: leaves no chunk to claim. Returns how many the helper has claimed.
  [[nodiscard]] uint32_t close(uint64_t bytes) {
    uint64_t seen = claims.load(std::memory_order_relaxed);
    while (first(seen) < end(seen) &&
           !claims.compare_exchange_weak(seen, seen + ((end(seen) - first(seen)) << 16),
                                         std::memory_order_acq_rel)) {
    }
    const uint64_t chunk = chunk_of(bytes);
    return static_cast<uint32_t>((bytes + chunk - 1) / chunk - end(seen));
  }
  /// By the helper, for a part that it has claimed.
  void finish(const Part& part, bool copied) {
    if (!copied) refused.store(1, std::memory_order_relaxed);
    helper_chunks.fetch_add(part.chunks, std::memory_order_release);
  }

 private:
  [[nodiscard]] static uint64_t first(uint64_t claims) { return claims >> 16 & UINT16_MAX; }
  [[nodiscard]] static uint64_t end(uint64_t claims) { return claims & UINT16_MAX; }
};

}  // namespace weft::transport::shm
