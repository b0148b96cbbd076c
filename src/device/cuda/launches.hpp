// SPDX-License-Identifier: BSD-3-Clause
// Host side of launches that are taken back when the GPU gives them no place in time (kernel/launch.hpp).
// Each slot has a stream of its own, so that nothing else waits behind a launch. Threading: the owner's lock.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "device/cuda/driver.hpp"
#include "device/cuda/launcher.hpp"
#include "device/cuda/outcome.hpp"
#include "device/kernel/launch.hpp"

namespace weft::device::cuda {

class Launches {
 public:
  static constexpr size_t kKernels = 2;
  struct Slot {
    Stream stream = nullptr;
    std::array<Launcher, kKernels> launchers;  ///< one a kernel
    kernel::Launch::Line* line = nullptr;
    Address line_address = 0, memory = 0;
    uint32_t number = 0;  ///< of the launch under way, or the last one
    uint64_t launched = 0;
    enum class Cancel : uint8_t { none, asked, refused } cancel{};  ///< refused: it has begun
    bool taken_back = false;  ///< it does nothing, and whoever waited for it knows
    bool kept = false;        ///< by the owner: not to be used again yet
  };

  /// Allocates what so many launches at a time of these kernels, up to kKernels, need in the current context.
  /// `bytes`: of their parameter. `cancels`: the stream of the copies that take back, in which nothing waits
  /// for a place.
  [[nodiscard]] Code open(Context context, size_t slots, std::span<const Function> kernels, size_t bytes,
                          Stream cancels);
  /// Waits a while for launches under way and frees everything. The context is current.
  void close();
  [[nodiscard]] bool is_open() const { return open_; }

  /// Null as long as a launch that was taken back waits for its place, since another would wait as well, and
  /// when all slots are in use. One that found itself taken back keeps its slot until look() has said so.
  [[nodiscard]] Slot* free_slot();
  /// No launch is under way.
  [[nodiscard]] bool idle() const;
  /// A launch that was taken back still waits for its place.
  [[nodiscard]] bool stuck() const;
  /// Launches one of the kernels; `parameter` is all of its parameter, and gets its Launch filled in but for
  /// `chunks`.
  [[nodiscard]] Code start(Slot& slot, size_t kernel, unsigned blocks, unsigned threads,
                           kernel::Launch& parameter);
  /// Where the slot's launch stands; begins to take it back when it has waited for so many ns.
  [[nodiscard]] Outcome look(Slot& slot, uint64_t patience);
  /// What the slot's stream reports beyond "busy": kSuccess, or the fault.
  [[nodiscard]] Code fault(const Slot& slot) const;

  [[nodiscard]] Slot& slot(size_t index) { return slots_[index]; }
  [[nodiscard]] const Slot& slot(size_t index) const { return slots_[index]; }
  [[nodiscard]] size_t index(const Slot& slot) const { return static_cast<size_t>(&slot - slots_.data()); }
  [[nodiscard]] size_t size() const { return slots_.size(); }

 private:
  [[nodiscard]] Code allocate(std::span<const Function> kernels, size_t bytes);
  [[nodiscard]] static bool has_left(const Slot& slot);
  [[nodiscard]] static bool over(const Slot& slot);
  void ask(Slot& slot);
  [[nodiscard]] Outcome answer(Slot& slot);

  bool open_ = false;
  Context context_ = nullptr;
  Stream cancels_ = nullptr;  // the state's
  char* lines_ = nullptr;     // pinned: a Line a slot
  Address memory_ = 0;        // a Memory a slot
  std::vector<Slot> slots_;
};

}  // namespace weft::device::cuda
