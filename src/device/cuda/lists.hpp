// SPDX-License-Identifier: BSD-3-Clause
// Host side of the list kernel: many copies in one launch, which can be taken back.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <span>

#include "device/cuda/launches.hpp"
#include "device/kernel/copy.hpp"

namespace weft::device::cuda {

struct State;

class Lists {
 public:
  static constexpr size_t kSlots = 4;  ///< launches under way at a time

  /// Allocates what the launches need in the state's current context. Without kernels, or where a launch
  /// would block, there are no lists.
  void open(State& state);
  /// Waits a while for launches under way and frees everything. The context is current.
  void close();

  /// Whether copies of this size are, when there are several.
  [[nodiscard]] static bool suits(size_t bytes);
  /// Whether copies like these are for a list; `beside` copy engines that are at work, larger ones are.
  [[nodiscard]] bool takes(std::span<const kernel::Item> items, bool beside = false) const;
  /// Launches the copies; its number. 0: not now, use the copy engines.
  [[nodiscard]] uint32_t launch(std::span<const kernel::Item> items);
  /// Where a launch stands. `untouched`: it was taken back; give `items(number)` to the copy engines.
  [[nodiscard]] Outcome look(uint32_t number);
  /// What a launch was to copy; valid until the next launch() after look() has said untouched.
  [[nodiscard]] std::span<const kernel::Item> items(uint32_t number) const;
  /// What the stream of a launch reports beyond "busy": kSuccess, or the fault.
  [[nodiscard]] Code fault(uint32_t number) const;

  struct Counters {
    uint64_t launched = 0, taken_back = 0;
  };
  [[nodiscard]] Counters counters();

 private:
  [[nodiscard]] Launches::Slot& slot_of(uint32_t number) { return launches_.slot(number % kSlots); }

  std::mutex mutex_;
  State* state_ = nullptr;
  Launches launches_;
  std::array<kernel::List, kSlots> lists_{};  // of the launches under way, or the last ones
  Counters counters_;
};

}  // namespace weft::device::cuda
