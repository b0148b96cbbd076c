// SPDX-License-Identifier: BSD-3-Clause
// Words: slots of a start word and a completion word in pinned memory of one context. Threading: any thread.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "device/stream_words.hpp"

namespace weft::stream::order {

struct Slot {
  uint32_t* start = nullptr;       ///< the GPU writes 1, the host 0
  uint32_t* completion = nullptr;  ///< the host writes 1, the GPU 0
  /// Takes the start, if the GPU has written it.
  [[nodiscard]] bool take_start() const {
    if (__atomic_load_n(start, __ATOMIC_ACQUIRE) == 0) return false;
    __atomic_store_n(start, 0, __ATOMIC_RELAXED);
    return true;
  }
  /// In place of a stream that does not wait: the start, and passing the completed slot.
  void begin() const { __atomic_store_n(start, 1, __ATOMIC_RELEASE); }
  void pass() const { __atomic_store_n(completion, 0, __ATOMIC_RELEASE); }
  /// Makes all writes of this thread visible to work of the stream that follows.
  void complete() const { __atomic_store_n(completion, 1, __ATOMIC_SEQ_CST); }
  /// Whether the stream has passed a completed slot.
  [[nodiscard]] bool passed() const { return __atomic_load_n(completion, __ATOMIC_ACQUIRE) == 0; }
};

class Words {
 public:
  /// Number of slots in a block of pinned memory, and so of operations that wait in the streams of a context.
  static constexpr size_t kSlots = 1024;

  [[nodiscard]] static Result<std::unique_ptr<Words>> create(const device::UserStream& stream);
  ~Words();
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  /// Null: all slots are in use. With `grow`, for slots that graphs keep, allocates further slots.
  [[nodiscard]] Result<std::optional<Slot>> take(bool grow);
  /// Gives back a slot whose operation is complete; it is used again after the stream has passed it (T2).
  void give(const Slot& slot);

 private:
  explicit Words(const device::UserStream& stream) : stream_(stream) {}
  [[nodiscard]] Status allocate();

  const device::UserStream stream_;
  std::mutex mutex_;
  std::vector<void*> blocks_;
  std::vector<Slot> unused_;
  std::deque<Slot> given_;  // oldest first
};

}  // namespace weft::stream::order
