// SPDX-License-Identifier: BSD-3-Clause
// Kernels on weft_device.cuh without a GPU: host threads that execute the code of kernels on the memory of
// the emulated driver, through its host aliases. They run at the same time as the host, and wait as kernels
// do.
#pragma once
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft_device.cuh"

namespace weft::test {

/// The handle of a window with the addresses of the emulator.
class EmulatedHandle {
 public:
  explicit EmulatedHandle(const void* handle) {
    namespace abi = weft::device::abi;
    const auto at = reinterpret_cast<uint64_t>(handle);
    const auto* const head = static_cast<const abi::WindowTable*>(alias(at, sizeof(abi::WindowTable)));
    const size_t bytes = sizeof *head + static_cast<size_t>(head->size) * sizeof(abi::WindowPeer);
    const auto* const all = static_cast<const char*>(alias(at, bytes));
    table_.assign(all, all + bytes);
    auto* const own = reinterpret_cast<abi::WindowTable*>(table_.data());
    auto* const peers = reinterpret_cast<abi::WindowPeer*>(own + 1);
    if (own->queue != 0) own->queue = address(own->queue, sizeof(abi::Queue));
    for (int i = 0; i < own->size; ++i) {
      abi::WindowPeer& peer = peers[i];
      const uint64_t words = static_cast<uint64_t>(own->size) + peer.notifications;
      if (peer.counters != 0) peer.counters = address(peer.counters, words * sizeof(uint64_t));
      if (peer.base != 0) peer.base = address(peer.base, peer.bytes);
    }
  }
  /// For weft::device::Window.
  [[nodiscard]] const void* get() const { return table_.data(); }

  /// Host alias of GPU memory.
  [[nodiscard]] static void* alias(uint64_t address, size_t bytes) {
    using Translate = void* (*)(unsigned long, unsigned long);
    static const auto translate = [] {
      void* const library = ::dlopen(std::getenv("WEFT_CUDA_DRIVER"), RTLD_NOW);
      return library == nullptr ? nullptr
                                : reinterpret_cast<Translate>(::dlsym(library, "emucuda_translate"));
    }();
    void* const found = translate == nullptr ? nullptr : translate(address, bytes);
    if (found == nullptr) throw std::runtime_error("no emulated memory at " + std::to_string(address));
    return found;
  }

 private:
  static uint64_t address(uint64_t on_gpu, size_t bytes) {
    return reinterpret_cast<uint64_t>(alias(on_gpu, bytes));
  }
  std::vector<char> table_;
};

}  // namespace weft::test
