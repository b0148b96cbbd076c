// SPDX-License-Identifier: BSD-3-Clause
// What a context has for collective kernels: their module, a stream, and for each port a status word in
// pinned memory and places in device memory. Made when the first port is opened.
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

class Ports {
 public:
  static constexpr uint32_t kPorts = 64;
  /// Takes a free port; the context is current.
  [[nodiscard]] Result<uint32_t> take();
  void give(uint32_t number);
  /// Without taking one: the kernels are there. The context is current.
  [[nodiscard]] Status prepare();
  void close();

  [[nodiscard]] Stream stream() const { return stream_; }
  enum Kernel : uint8_t { packets, lines, blocks, direct, kKernels };
  /// Launches one of the kernels in `stream()`. The context is current.
  [[nodiscard]] Code launch(Kernel kernel, unsigned blocks, unsigned threads, void* parameter);
  [[nodiscard]] Function stream_by_packets() const { return stream_by_packets_; }
  [[nodiscard]] Function stream_by_blocks() const { return stream_by_blocks_; }
  [[nodiscard]] Address places(uint32_t number) const {
    return places_ + number * sizeof(kernel::Collective::Places);
  }
  /// What holds for all calls of a port, for copiers; 0 before the first port is opened.
  [[nodiscard]] Address homes_address() const { return homes_address_.load(std::memory_order_acquire); }
  [[nodiscard]] kernel::Collective& home(uint32_t number) { return homes_[number]; }
  [[nodiscard]] uint32_t version(uint32_t number) const { return versions_[number]; }
  [[nodiscard]] Address status_address(uint32_t number) const { return status_address_ + number * kLine; }
  [[nodiscard]] const uint64_t* status(uint32_t number) const { return status_ + number * kLine / 8; }

 private:
  static constexpr size_t kLine = 64;
  [[nodiscard]] Status make();
  [[nodiscard]] Status prepare_locked();
  [[nodiscard]] Status load();

  std::mutex mutex_;
  Module module_ = nullptr;
  std::array<Function, kKernels> kernels_{};
  std::array<Launcher, kKernels> launchers_;
  Function stream_by_packets_ = nullptr, stream_by_blocks_ = nullptr;
  Stream stream_ = nullptr;
  uint64_t* status_ = nullptr;
  kernel::Collective* homes_ = nullptr;  // in the same page
  Address status_address_ = 0, places_ = 0;
  std::atomic<Address> homes_address_{0};
  std::array<uint8_t, kPorts> versions_{};  // differ between the owners of a port
  std::array<bool, kPorts> taken_{};
};

}  // namespace weft::device::cuda
