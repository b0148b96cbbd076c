// SPDX-License-Identifier: BSD-3-Clause
// Host side of the resident copy kernel, which serves small copies that arrive in quick succession. The host
// launches it on demand and rings a doorbell in pinned memory per command; it ends by itself
// (kernel/copy.hpp).
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/result.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/launcher.hpp"
#include "device/kernel/accumulate.hpp"
#include "device/kernel/copy.hpp"
#include "device/queue/submission_batcher.hpp"
#include "device/window.hpp"

namespace weft::device::cuda {

struct WorkQueue;

class ResidentKernel {
 public:
  /// Allocates ring and status in the queue's current context. Never starts an instance if kernels are
  /// missing or the setting is off.
  void open(WorkQueue& queue);
  /// Ends the running instance and frees everything. The context must be current.
  void close();

  /// Number of blocks for one copy of this size; 0: too large for the resident kernel.
  [[nodiscard]] static uint32_t blocks_for_copy(size_t bytes);
  /// Whether the number and sizes of these copies are within the limits of a command.
  [[nodiscard]] bool accepts(std::span<const kernel::CopyItem> items) const;
  /// Submits the copies as one command. Returns the command number; 0 if no instance can take the command:
  /// use a copy engine. `host_source`: the sources are host memory, so up to 8 bytes travel inline.
  /// `output`: where the destinations lie, as far as it is known.
  [[nodiscard]] uint32_t submit(std::span<const kernel::CopyItem> items, bool host_source,
                                kernel::Command::Output output = kernel::Command::anywhere);
  /// Submits an accumulate operation on at most kResidentAccumulateBytes; 0 as above: launch it.
  /// `output_is_local`: it changes memory of the queue's GPU only, which saves a system-wide fence.
  [[nodiscard]] uint32_t submit(const kernel::Accumulate& accumulate, bool output_is_local = false);
  /// Submits a collective encoded in the words of a command (kernel/collective.hpp). Returns the command
  /// number; 0: launch a collective kernel instead.
  [[nodiscard]] uint32_t submit_call(uint32_t (&words)[8]);
  /// Records the arrival of a call for `blocks` blocks that is launched without submit_call().
  void record_demand(uint32_t blocks);
  /// Whether an instance with all blocks accepts collectives now.
  [[nodiscard]] bool running();
  /// Sends a no-op command if the instance would reach its idle timeout soon or within the next `busy` ns.
  void keep_running(uint64_t busy = 0);
  /// Monotonic time in ns before which no resident kernel of this process needs keep_running().
  [[nodiscard]] static uint64_t next_keep_running() {
    return next_keep_running_.load(std::memory_order_relaxed);
  }
  /// Launches an instance if the recent arrivals justify one. Call after a refused command was submitted to a
  /// copy engine or a launch.
  void start_if_due();

  /// State of a command. `not_started`: the instance ended first; submit `items(number)` to a copy engine.
  [[nodiscard]] Outcome poll(uint32_t number);
  /// Copies of a command; valid until poll() returns done, or until the next submit() after not_started.
  [[nodiscard]] std::span<const kernel::CopyItem> items(uint32_t number) const;
  /// The same of an accumulate operation; null: the command is none.
  [[nodiscard]] const kernel::Accumulate* accumulate(uint32_t number) const;
  /// Sticky error of the kernel's stream; kSuccess while the stream is healthy.
  [[nodiscard]] Code fault() const;

 private:
  struct Slot {
    kernel::CopyItem* items = nullptr;  ///< kItems items in pinned memory
    uint32_t count = 0;
    uint32_t number = 0;       ///< last command in this slot
    bool busy = false;         ///< poll() has not reported the end of the command
    bool not_started = false;  ///< the instance ended before this command
    bool no_op = false;        ///< command of keep_running(), never polled
    bool accumulate = false;   ///< `items` holds an Accumulate
  };
  [[nodiscard]] kernel::ResidentKernelStatus status() const;
  [[nodiscard]] bool gpu_is_shared() const;
  void end_instance(const kernel::ResidentKernelStatus& now);
  void start();
  [[nodiscard]] bool accepts_commands();
  [[nodiscard]] Slot* next_slot();
  [[nodiscard]] Slot* claim_slot(uint32_t blocks);
  /// Address of the items of a slot on the GPU.
  [[nodiscard]] Address items_address(const Slot& slot) const;
  void write(uint32_t number, const kernel::CopyItem& item, uint32_t blocks, uint32_t items,
             kernel::Command::Output output = kernel::Command::anywhere);
  void write(uint32_t number, const uint32_t (&words)[8]);
  void schedule_keep_running(uint64_t time);

  std::mutex mutex_;  // guards all members below except instance_
  WorkQueue* queue_ = nullptr;
  Stream stream_ = nullptr;
  Launcher launcher_;
  kernel::Command* ring_ = nullptr;
  uint64_t* status_ = nullptr;
  Address ring_address_ = 0, status_address_ = 0, items_address_ = 0, memory_ = 0;
  std::array<Slot, kernel::ResidentKernelParams::kSlots> slots_;
  uint32_t submitted_ = 0;             ///< number of the last command
  std::atomic<uint16_t> instance_{0};  ///< number of the last instance started; written under the mutex
  bool ended_ = true;                  ///< end_instance() has run for the last instance
  uint32_t instance_blocks_ = 1;
  uint64_t keep_running_at_ = 0;  ///< monotonic ns at which the next no-op command is due
  bool accepts_calls_ = false;    ///< the current instance received the address of the call templates
  uint32_t done_before_instance_ = 0;
  InstancePolicy policy_;
  static inline std::atomic<uint64_t> next_keep_running_{UINT64_MAX};  ///< UINT64_MAX: no instance yet
};

}  // namespace weft::device::cuda
