// SPDX-License-Identifier: BSD-3-Clause
// RaceCheck: whether GPU work that is queued now changes a buffer, for WEFT_CHECK=gpu: a snapshot by a copy
// engine, as a transfer would take it, is compared with the buffer after that work has ended.
// Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

/// Makes the stream and the events of the checks in every active primary context, since making them later
/// may wait for running kernels. No effect without a driver of CUDA 12.5 or newer.
void prepare_race_checks();

class RaceCheck {
 public:
  enum class State : uint8_t {
    idle,      ///< not started, or nothing is queued
    waiting,   ///< for queued work
    compared,  ///< the work has ended, and the buffer was copied again: first_change()
    undecided  ///< the work took longer than check.gpu_wait_ns, or the GPU failed
  };
  RaceCheck() = default;
  RaceCheck(RaceCheck&& other) noexcept;
  RaceCheck& operator=(RaceCheck&&) = delete;
  ~RaceCheck() { release_events(); }

  /// Records the work that is queued in every active context of this process: the primary contexts, that of
  /// the buffer and the current one (cuCtxRecordEvent). If any of it is not complete, copies the `bytes`
  /// bytes at `first` to the host and returns true: poll() until the state is another. A buffer of more than
  /// check.gpu_bytes is copied in parts at equal distances, the first and the last bytes among them. Returns
  /// false without an effect if no work is queued, while the program captures a graph, and if the driver has
  /// no cuCtxRecordEvent; the last two are counted, and logged once. Also false for calls in the order of a
  /// stream (for_stream()). Blocks for the time of the copy.
  [[nodiscard]] bool start(const Memory& memory, const void* first, size_t bytes);
  /// Returns the state. Blocks for the time of the second copy.
  State poll();
  /// Offset of the first byte among the `n` at `offset` that differs from the snapshot; `offset` + n if there
  /// is none. Bytes outside the copied parts count as equal. Precondition: the state is `compared`.
  [[nodiscard]] size_t first_change(size_t offset, size_t n) const;

 private:
  struct Part {
    size_t offset, size;  // of the buffer
    size_t at;            // in the copies
  };
  struct Recorded {
    size_t context;  // index of a watched context
    void* event;
  };
  void choose_parts(size_t bytes);
  [[nodiscard]] bool record(const Memory& memory);
  [[nodiscard]] bool work_ended(bool& failed);
  [[nodiscard]] bool copy(std::vector<std::byte>& to) const;
  void release_events();
  State finish(State state);

  State state_ = State::idle;
  Memory memory_;
  const std::byte* first_ = nullptr;
  std::vector<Part> parts_;
  std::vector<std::byte> before_, after_;
  std::vector<Recorded> recorded_;
  uint64_t give_up_at_ = 0;  // monotonic ns
};

}  // namespace weft::device
