// SPDX-License-Identifier: BSD-3-Clause
// Host side of pack kernels that can be taken back (kernel/pack.hpp). More jobs than slots wait here.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <mutex>

#include "device/cuda/launches.hpp"
#include "device/kernel/pack.hpp"
#include "device/pack.hpp"

namespace weft::device::cuda {

struct State;

/// What a launch moves, for the kernel and for the copy engines.
struct PackJob {
  Shape dst, src;
  Memory dst_memory, src_memory;
  uint64_t bytes = 0;
  uint64_t patience = 0;  ///< ns that it may wait for a place
  kernel::PackTiles tiles{};
  uint32_t id = 0;
};

/// gpu.pack=safe.
[[nodiscard]] bool packs_safely();

class Packs {
 public:
  static constexpr size_t kSlots = 7;                      ///< launches under way at a time
  static constexpr size_t kRoomBytes = size_t{256} << 10;  ///< of room()

  /// Allocates what the launches need in the state's current context. Without kernels, or where a launch
  /// would block, there are none.
  void open(State& state);
  void close();
  [[nodiscard]] bool is_open() const { return state_ != nullptr; }
  /// Waits for nothing but its own GPU's place: not on a GPU that other processes use.
  [[nodiscard]] bool takes() const;

  /// Starts a job, now or when there is a slot; its id. 0: not to be had.
  [[nodiscard]] uint32_t start(PackJob job);
  /// Where a job stands. `untouched`: it was taken back, and copied to `job` for the copy engines.
  [[nodiscard]] Outcome look(uint32_t id, PackJob& job);
  /// What the stream of a job reports beyond "busy": kSuccess, or the fault.
  [[nodiscard]] Code fault(uint32_t id);
  [[nodiscard]] PackCounters counters();
  /// Pinned memory for what is packed without a kernel, to be had while the GPU is full; null: none. Held
  /// under room_mutex.
  [[nodiscard]] char* room() const { return room_; }
  std::mutex room_mutex;

 private:
  [[nodiscard]] bool launch(PackJob& job);
  void advance();

  std::mutex mutex_;
  State* state_ = nullptr;
  Launches launches_;
  std::array<PackJob, kSlots> jobs_;  // of the launches under way, or the last ones
  std::deque<PackJob> waiting_;
  char* room_ = nullptr;
  uint32_t last_ = 0;
  PackCounters counters_;
};

}  // namespace weft::device::cuda
