// SPDX-License-Identifier: BSD-3-Clause
// RingWriter: the producer's side of an SPSC ring (layout.hpp). Inline, for small messages.
// Threading: calls are serialised by the caller.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "transport/shm/layout.hpp"

namespace weft::transport::shm {

class RingWriter {
 public:
  RingWriter() = default;
  /// `ring`: owned by this process, and empty.
  explicit RingWriter(SpscRing& ring) : ring_(&ring) {}
  [[nodiscard]] bool is_open() const { return ring_ != nullptr; }
  /// Returns the address for a message of `size` bytes; null: no capacity now. Precondition: is_open().
  [[nodiscard]] std::byte* reserve(size_t size) {
    const size_t need = record_bytes(size);
    // Larger records begin at a cache line, and no record wraps around.
    uint64_t begin = need > kSmallRecord ? (position_ + kCacheLine - 1) & ~(kCacheLine - 1) : position_;
    if (kRingBytes - (begin & kMask) < need) [[unlikely]]
      begin = (begin | kMask) + 1;
    if (begin + need - consumed_ > kRingBytes) [[unlikely]] {
      consumed_ = ring_->consumed.load(std::memory_order_acquire);
      if (begin + need - consumed_ > kRingBytes) return nullptr;
    }
    if (begin != position_) [[unlikely]]
      publish((begin & kMask) == 0 ? kWrap : kNextLine, begin);
    return ring_->data + (begin & kMask) + kRecordHeader;
  }
  /// Publishes the reserved message, which is not empty: a header of size 0 is none.
  void commit(size_t size) {
    WEFT_ASSERT(size != 0 && size <= kMaxRingMessage);  // S2
    publish(static_cast<uint32_t>(size), position_ + record_bytes(size));
  }

 private:
  static constexpr uint64_t kMask = kRingBytes - 1;
  static constexpr size_t kPrefetchBytes = 8 * kCacheLine;

  [[nodiscard]] std::atomic<uint32_t>& word_at(uint64_t position) const {
    return *reinterpret_cast<std::atomic<uint32_t>*>(ring_->data + (position & kMask));
  }
  /// Publishes a record by storing its header word; `next` is the position of the following record.
  void publish(uint32_t size, uint64_t next) {
    WEFT_ASSERT(next - consumed_ <= kRingBytes);  // T1
    auto& following = word_at(next);
    if (size_in(following.load(std::memory_order_relaxed), next) != 0) [[unlikely]]
      following.store(0, std::memory_order_relaxed);
    word_at(position_).store(record_header(position_, size), std::memory_order_release);
    position_ = next;
    prefetch_for_write(&word_at(next + kPrefetchBytes));
  }
  /// The consumer read these lines one lap ago: fetches them for writing off the critical path. The builtin
  /// emits a read prefetch unless the target is known to support prefetchw.
  static void prefetch_for_write([[maybe_unused]] void* line) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*static_cast<char*>(line)));
#endif
  }

  SpscRing* ring_ = nullptr;
  uint64_t position_ = 0;  // bytes written
  uint64_t consumed_ = 0;  // last value read from SpscRing::consumed
};

}  // namespace weft::transport::shm
