// SPDX-License-Identifier: BSD-3-Clause
// OperationSlot: a small operation that a process posts for the owner of memory that it cannot map. The owner
// executes it while it makes progress; the origin retracts it otherwise, and executes it itself. Lies behind
// the control block of a window, one for each rank (ADR 0043).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::rma {

class Window;

/// A small operation on contiguous host memory of a window.
struct PostedOperation {
  enum Kind : uint8_t { put, get, accumulate, compare_swap };
  Kind kind;
  uint8_t op;       ///< datatype::ReduceOp of accumulate
  uint8_t basic;    ///< datatype::Basic
  uint8_t fetch;    ///< 1: the value before is returned in the slot
  uint32_t bytes;   ///< of the target memory
  uint64_t offset;  ///< from the window's base
  /// Bytes of operands or results in the slot.
  [[nodiscard]] size_t data_bytes() const { return size_t{kind == compare_swap ? 2U : 1U} * bytes; }
};

/// A put or get whose chunks origin and owner claim and copy, both at once: the origin from the end, the
/// owner from the start, so that both find the same memory in their caches in the next transfer.
struct SharedTransfer {
  static constexpr uint64_t kMinBytes = 64 << 10;
  static constexpr uint64_t kMinChunk = 32 << 10, kMaxChunk = 128 << 10, kChunks = 8;
  /// number << 32 | first unclaimed chunk << 16 | end of the unclaimed chunks. If there is one, the other
  /// fields are valid and do not change.
  std::atomic<uint64_t> claims;
  std::atomic<uint32_t> owner_chunks;  ///< that the owner has copied
  std::atomic<uint32_t> refused;       ///< 1: the owner could not copy a chunk that it had claimed
  uint64_t origin;                     ///< address in the origin
  uint64_t offset, bytes;              ///< of the window memory
  uint64_t chunk;                      ///< bytes
  uint32_t put;                        ///< 0: get
  [[nodiscard]] static constexpr uint64_t chunk_of(uint64_t bytes) {
    return bytes >= kChunks * kMaxChunk  ? kMaxChunk
           : bytes / kChunks > kMinChunk ? bytes / kChunks
                                         : kMinChunk;
  }
  /// Value of `claims` with `chunks` unclaimed chunks.
  [[nodiscard]] static uint64_t all_of(uint32_t number, uint64_t chunks) {
    return uint64_t{number} << 32 | chunks;
  }
  [[nodiscard]] static uint64_t first(uint64_t claims) { return claims >> 16 & UINT16_MAX; }
  [[nodiscard]] static uint64_t end(uint64_t claims) { return claims & UINT16_MAX; }
  /// Claims the last unclaimed chunk, or the first. Returns false without one, or if another claim came
  /// first, which is in `seen`.
  [[nodiscard]] bool claim(uint64_t& seen, bool last) {
    return first(seen) < end(seen) && claims.compare_exchange_strong(seen, last ? seen - 1 : seen + (1 << 16),
                                                                     std::memory_order_acq_rel);
  }
};

/// The origin writes a free slot and sets `posted`. The process that changes `posted` executes the operation:
/// the owner sets `executing`, and at the end an outcome; the origin sets `free`. Data of up to kInlineBytes
/// are in the cache line of the state, which then moves to the owner and back once.
struct OperationSlot {
  enum State : uint32_t { free, posted, shared, executing, done, out_of_range, failed };
  static constexpr size_t kInlineBytes = 40;
  static constexpr size_t kMaxBytes = 4096;  ///< larger operations are not posted, but may be shared

  alignas(64) std::atomic<uint32_t> state;
  uint32_t unused;
  PostedOperation operation;
  std::byte inline_data[kInlineBytes];
  alignas(64) SharedTransfer transfer;

  [[nodiscard]] bool is_posted() const { return state.load(std::memory_order_relaxed) == posted; }
  /// Whether the owner has executed the operation.
  [[nodiscard]] bool executed() const { return state.load(std::memory_order_acquire) >= done; }
  /// By the owner. Returns false if the origin has retracted the operation.
  [[nodiscard]] bool begin() { return change(executing); }
  /// By the origin. Returns false if the owner executes the operation, or has executed it.
  [[nodiscard]] bool retract() { return change(free); }

 private:
  [[nodiscard]] bool change(State to) {
    uint32_t expected = posted;
    return state.compare_exchange_strong(expected, to, std::memory_order_acq_rel);
  }
};
static_assert(sizeof(OperationSlot) == 128);

/// The operation of this process in its slot of a peer.
struct PostedState {
  enum Phase : uint8_t { none, posted, retracted, shared };
  Phase phase = none;
  /// Not retracted any more: the owner executes it before it returns from the synchronisation that ends the
  /// epoch.
  bool bound = false;
  uint8_t misses = 0;   ///< successive operations that the owner did not execute in time
  uint8_t pause = 0;    ///< operations that are not posted before the next attempt
  uint32_t number = 0;  ///< of the operation
  std::byte* result = nullptr;
  PostedOperation operation{};
  /// Whether a flush waits for it.
  [[nodiscard]] bool in_flight() const { return phase != none && !bound; }
};

/// Whether the setting lets processes post operations and share transfers.
[[nodiscard]] bool operation_slots_enabled();

/// The slots in which other processes of the host post operations on memory of this process.
class OperationSlots {
 public:
  void add(Window& window, int rank);
  void remove(const Window& window);
  /// Executes operations in a few slots. Returns whether there was one.
  bool poll();

 private:
  struct Entry {
    OperationSlot* slot;
    Window* window;
    int rank;
  };
  std::vector<Entry> entries_;
  size_t next_ = 0;  // index of the next poll
};

}  // namespace weft::rma
