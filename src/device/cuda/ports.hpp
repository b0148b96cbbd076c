// SPDX-License-Identifier: BSD-3-Clause
// What a context has for collective kernels: their module, a stream, and for each port a status word in
// pinned memory and places in device memory. Made when the first port is opened.
#pragma once
#include <array>
#include <cstdint>
#include <mutex>

#include "base/result.hpp"
#include "device/cuda/driver.hpp"
#include "device/kernel/collective.hpp"

namespace weft::device::cuda {

class Ports {
 public:
  static constexpr uint32_t kPorts = 64;
  /// Takes a free port; the context is current.
  [[nodiscard]] Result<uint32_t> take();
  void give(uint32_t number);
  void close();

  [[nodiscard]] Stream stream() const { return stream_; }
  [[nodiscard]] Function by_packets() const { return by_packets_; }
  [[nodiscard]] Function by_blocks() const { return by_blocks_; }
  [[nodiscard]] Address places(uint32_t number) const {
    return places_ + number * sizeof(kernel::Collective::Places);
  }
  [[nodiscard]] Address status_address(uint32_t number) const { return status_address_ + number * kLine; }
  [[nodiscard]] const uint64_t* status(uint32_t number) const { return status_ + number * kLine / 8; }

 private:
  static constexpr size_t kLine = 64;
  [[nodiscard]] Status make();
  [[nodiscard]] Status load();

  std::mutex mutex_;
  Module module_ = nullptr;
  Function by_packets_ = nullptr, by_blocks_ = nullptr;
  Stream stream_ = nullptr;
  uint64_t* status_ = nullptr;
  Address status_address_ = 0, places_ = 0;
  std::array<bool, kPorts> taken_{};
};

}  // namespace weft::device::cuda
