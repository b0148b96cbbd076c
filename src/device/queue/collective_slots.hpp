// SPDX-License-Identifier: BSD-3-Clause
// Resources for collective kernels in one context: their module, a stream, and for each slot a status word in
// pinned memory and the resume states in device memory. Created when the first slot is acquired.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/result.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/launcher.hpp"
#include "device/kernel/collective.hpp"

namespace weft::device::cuda {

class CollectiveSlots {
 public:
  static constexpr uint32_t kSlots = 64;
  /// Acquires a free slot and returns its index. The context must be current.
  [[nodiscard]] Result<uint32_t> acquire();
  void release(uint32_t number);
  /// Loads the kernels without acquiring a slot. The context must be current.
  [[nodiscard]] Status prepare();
  void close();

  [[nodiscard]] Stream stream() const { return stream_; }
  enum Kernel : uint8_t { ll, ll128, simple, direct, blocks, pairs, kKernels };
  /// Launches one of the kernels in `stream()`. The context must be current.
  [[nodiscard]] Code launch(Kernel kernel, unsigned blocks, unsigned threads, void* parameter);
  [[nodiscard]] Function stream_ll_kernel() const { return stream_ll_kernel_; }
  [[nodiscard]] Function stream_simple_kernel() const { return stream_simple_kernel_; }
  [[nodiscard]] Function pairs_kernel() const { return kernels_[pairs]; }
  [[nodiscard]] Address resume_state(uint32_t number) const {
    return resume_states_ + number * sizeof(kernel::Collective::ResumeState);
  }
  /// Device address of the slot configurations, for the resident kernel; 0 before the first slot is acquired.
  [[nodiscard]] Address slot_configs_address() const {
    return slot_configs_address_.load(std::memory_order_acquire);
  }
  [[nodiscard]] kernel::Collective& config(uint32_t number) { return slot_configs_[number]; }
  [[nodiscard]] uint32_t version(uint32_t number) const { return versions_[number]; }
  [[nodiscard]] Address status_address(uint32_t number) const { return status_address_ + number * kLine; }
  void clear_status(uint32_t number) { __atomic_store_n(status_ + number * kLine / 8, 0, __ATOMIC_RELEASE); }
  [[nodiscard]] const uint64_t* status(uint32_t number) const { return status_ + number * kLine / 8; }

 private:
  static constexpr size_t kLine = 64;
  [[nodiscard]] Status make();
  [[nodiscard]] Status prepare_locked();
  [[nodiscard]] Status load();

  std::mutex mutex_;
  Module module_ = nullptr, blocks_module_ = nullptr;
  std::array<Function, kKernels> kernels_{};
  std::array<Launcher, kKernels> launchers_;
  Function stream_ll_kernel_ = nullptr, stream_simple_kernel_ = nullptr;
  Stream stream_ = nullptr;
  uint64_t* status_ = nullptr;
  kernel::Collective* slot_configs_ = nullptr;  // in the page of status_
  Address status_address_ = 0, resume_states_ = 0;
  std::atomic<Address> slot_configs_address_{0};
  std::array<uint8_t, kSlots> versions_{};  // changes with the owner of a slot
  std::array<bool, kSlots> in_use_{};
};

}  // namespace weft::device::cuda
