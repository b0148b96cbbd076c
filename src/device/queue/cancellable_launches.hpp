// SPDX-License-Identifier: BSD-3-Clause
// Host side of cancellable launches: a kernel that does not start in time is cancelled (kernel/launch.hpp).
// Each slot has its own stream, so no other work queues behind a launch. Threading: the owner's lock.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "device/cuda/driver.hpp"
#include "device/cuda/launcher.hpp"
#include "device/kernel/launch.hpp"

namespace weft::device::cuda {

class CancellableLaunches {
 public:
  static constexpr size_t kKernels = 2;
  struct Slot {
    Stream stream = nullptr;
    std::array<Launcher, kKernels> launchers;  ///< one per kernel
    kernel::CancellableLaunch::HostState* host = nullptr;
    Address host_address = 0, memory = 0;
    uint32_t number = 0;  ///< number of the last launch
    uint64_t launched = 0;
    enum class Cancel : uint8_t { none, requested, refused } cancel{};  ///< refused: the kernel has started
    bool cancelled = false;                                             ///< poll() has returned not_started
    bool cancelling = false;  ///< copies of the last cancellation may still read and write the host state
    bool reserved = false;    ///< set by the owner: do not reuse the slot yet
  };

  /// Allocates `slots` slots for launches of up to kKernels kernels in the current context. `bytes`: size of
  /// the kernel parameter. `cancel_stream`: stream of the cancelling copies; must never contain a kernel.
  [[nodiscard]] Code open(Context context, size_t slots, std::span<const Function> kernels, size_t bytes,
                          Stream cancel_stream);
  /// Waits for pending launches, with a timeout, and frees everything. The context must be current.
  void close();
  [[nodiscard]] bool is_open() const { return open_; }

  /// A free slot; null if all slots are in use, or while a cancelled launch is still queued on the GPU, since
  /// another launch would be queued too. A cancelled launch keeps its slot until poll() returned not_started.
  [[nodiscard]] Slot* free_slot();
  /// Whether no launch is pending.
  [[nodiscard]] bool idle() const;
  /// Whether a cancelled launch is still queued on the GPU.
  [[nodiscard]] bool cancelled_pending() const;
  /// Launches kernel number `kernel`. `parameter` is its whole parameter; fills in the CancellableLaunch part
  /// except `chunks`.
  [[nodiscard]] Code start(Slot& slot, size_t kernel, unsigned blocks, unsigned threads,
                           kernel::CancellableLaunch& parameter);
  /// State of the slot's launch. Requests the cancellation after timeout_ns without a start.
  [[nodiscard]] Outcome poll(Slot& slot, uint64_t timeout_ns);
  /// Sticky error of the slot's stream; kSuccess while the stream is healthy.
  [[nodiscard]] Code fault(const Slot& slot) const;

  [[nodiscard]] Slot& slot(size_t index) { return slots_[index]; }
  [[nodiscard]] const Slot& slot(size_t index) const { return slots_[index]; }
  [[nodiscard]] size_t index(const Slot& slot) const { return static_cast<size_t>(&slot - slots_.data()); }
  [[nodiscard]] size_t size() const { return slots_.size(); }

 private:
  [[nodiscard]] Code allocate(std::span<const Function> kernels, size_t bytes);
  [[nodiscard]] static bool was_cancelled(const Slot& slot);
  [[nodiscard]] static bool over(const Slot& slot);
  void request_cancel(Slot& slot);
  [[nodiscard]] Outcome poll_cancel(Slot& slot);

  bool open_ = false;
  Context context_ = nullptr;
  Stream cancel_stream_ = nullptr;  // owned by the WorkQueue
  char* host_states_ = nullptr;     // pinned memory: a HostState per slot
  Address memory_ = 0;              // device memory: a Memory per slot
  std::vector<Slot> slots_;
};

}  // namespace weft::device::cuda
