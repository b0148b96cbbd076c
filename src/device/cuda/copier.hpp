// SPDX-License-Identifier: BSD-3-Clause
// Host side of the copier: the resident kernel that serves small copies that come close together. It is
// started by their rate, rung by a line in pinned memory, and leaves by itself (kernel/copy.hpp).
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/result.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/launcher.hpp"
#include "device/cuda/outcome.hpp"
#include "device/kernel/copy.hpp"

namespace weft::device::cuda {

struct State;

class Copier {
 public:
  /// Allocates ring and status in the state's current context. Without kernels, or when switched off, it
  /// stays asleep.
  void open(State& state);
  /// Ends a running life and frees everything. The context is current.
  void close();

  /// Blocks that one copy of this size would use; 0: it is not for the copier.
  [[nodiscard]] static uint32_t suits(size_t bytes);
  /// Whether these copies are for the copier.
  [[nodiscard]] bool takes(std::span<const kernel::Item> items) const;
  /// Hands copies over as one command when the copier is awake. Returns its number; 0: not now, use a copy
  /// engine. `readable`: the sources are host memory, a few bytes of which travel with the command.
  [[nodiscard]] uint32_t ring(std::span<const kernel::Item> items, bool readable);
  /// Hands over a collective in a command's words (kernel/collective.hpp). Returns its number; 0: not now,
  /// launch a kernel.
  [[nodiscard]] uint32_t ring_call(uint32_t (&words)[8]);
  /// Instead of ring_call(), for what so many blocks of it would do: keeps account of how close such calls
  /// come.
  void want(uint32_t blocks);
  /// It takes calls now, with all its blocks.
  [[nodiscard]] bool awake();
  /// While this process is in MPI: a life that would leave for want of work soon, or before `busy` ns are
  /// over, stays.
  void keep(uint64_t busy = 0);
  /// ns of the monotonic clock: before that no copier of this process needs keep().
  [[nodiscard]] static uint64_t next_keep() { return next_keep_.load(std::memory_order_relaxed); }
  /// To be called after a copy engine or a kernel got what was refused: starts a life when copies come close
  /// together.
  void consider_start();

  /// Where a command stands. `untouched`: its life ended first; give `items(number)` to a copy engine.
  [[nodiscard]] Outcome look(uint32_t number);
  /// What a command was to copy; valid until look() has said done, or the next ring() after it said
  /// untouched.
  [[nodiscard]] std::span<const kernel::Item> items(uint32_t number) const;
  /// What its stream reports beyond "busy": kSuccess, or the fault.
  [[nodiscard]] Code fault() const;

  struct Counters {
    uint64_t rung = 0, lives = 0, untouched = 0;
  };
  [[nodiscard]] Counters counters();

 private:
  struct Slot {
    kernel::Item* items = nullptr;  ///< room for kItems, in pinned memory
    uint32_t count = 0;
    uint32_t number = 0;     ///< the last command in it
    bool busy = false;       ///< its ticket has not been told
    bool untouched = false;  ///< its life ended without serving it
    bool kept = false;       ///< an empty command, for which nobody has a ticket
  };
  [[nodiscard]] kernel::Status status() const;
  [[nodiscard]] bool disturbs_others() const;
  void pace(uint32_t blocks);
  void end_of_life(const kernel::Status& now);
  void start();
  [[nodiscard]] bool takes_commands();
  [[nodiscard]] Slot* next_slot();
  [[nodiscard]] Slot* claim(uint32_t blocks);
  void write(uint32_t number, const kernel::Item& item, uint32_t blocks, uint32_t items);
  void write(uint32_t number, const uint32_t (&words)[8]);
  void fed(uint64_t time);

  std::mutex mutex_;  // for what follows, but generation_
  State* state_ = nullptr;
  Stream stream_ = nullptr;
  Launcher launcher_;
  kernel::Command* ring_ = nullptr;
  uint64_t* status_ = nullptr;
  Address ring_address_ = 0, status_address_ = 0, items_address_ = 0, memory_ = 0;
  std::array<Slot, kernel::Copier::kSlots> slots_;
  uint32_t submitted_ = 0;
  std::atomic<uint16_t> generation_{0};  ///< of the last life started; changed under the mutex
  bool ended_ = true;                    ///< its end was seen and accounted for
  uint32_t life_blocks_ = 1;
  uint32_t linger_ = 0;       ///< ns, of this life
  uint64_t keep_at_ = 0;      ///< then it needs a command, or leaves soon
  uint32_t kept_ = 0;         ///< its empty commands
  bool takes_calls_ = false;  ///< this life knows where homes are
  // Pace of the copies, and what the lives so far were good for.
  uint64_t last_ = 0, gap_ = 0, asleep_until_ = 0, back_off_ = 0;
  uint32_t streak_ = 0, before_life_ = 0, idle_lives_ = 0;
  uint32_t blocks_ = 1;  ///< that copies since the last life began would have used, at most
  Counters counters_;
  static inline std::atomic<uint64_t> next_keep_{UINT64_MAX};  ///< no life has begun
};

}  // namespace weft::device::cuda
