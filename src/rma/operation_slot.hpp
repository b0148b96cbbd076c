// SPDX-License-Identifier: BSD-3-Clause
// OperationSlot: a small operation that a process posts for the owner of memory that it cannot map. The owner
// executes it while it makes progress; the origin retracts it otherwise, and executes it itself. Lies behind
// the control block of a window, one for each rank (ADR 0043).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/shm/shared_copy.hpp"

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

/// A put or get that origin and owner copy together; the origin opens the copy.
struct SharedTransfer {
  static constexpr uint64_t kMinBytes = transport::shm::SharedCopy::kMinBytes;
  transport::shm::SharedCopy copy;
  // Valid while a chunk is unclaimed:
  uint64_t origin;         ///< address in the origin
  uint64_t offset, bytes;  ///< of the window memory
  uint32_t put;            ///< 0: get
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
  /// Whether the owner neither executes nor helps with an operation of this slot, nor may begin to.
  [[nodiscard]] bool is_free() const { return state.load(std::memory_order_relaxed) == free || executed(); }
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
