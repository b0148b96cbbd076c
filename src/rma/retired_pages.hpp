// SPDX-License-Identifier: BSD-3-Clause
// Retired pages: host memory of freed windows that is registered with GPUs. The driver waits for all kernels
// before it ends a registration, and other calls of the driver wait meanwhile. A kernel of another window may
// wait for such a call, as its queue is read by the CPU (kernel_queue.hpp). So while there are queues, the
// memory stays registered, for other windows. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <vector>

#include "core/instance.hpp"
#include "device/pinned.hpp"

namespace weft::rma {

class RetiredPages {
 public:
  struct Pages {
    std::byte* memory = nullptr;  ///< of transport::rma::Rma::allocate()
    uint64_t bytes = 0;           ///< 0: no other window may use them
    device::HostRegistration pinned;
  };
  explicit RetiredPages(core::Instance& instance) : instance_(instance) {}

  void add_queue() { ++queues_; }
  /// The last one frees all pages.
  void remove_queue();
  /// Frees the pages, now or when there are no queues.
  void give(Pages pages);
  /// Pages of that size, which are zeroed and registered; without memory: there are none.
  [[nodiscard]] Pages take(uint64_t bytes);

 private:
  void free(Pages pages);

  core::Instance& instance_;
  uint64_t queues_ = 0;
  std::vector<Pages> kept_;  ///< empty if there are no queues
};

}  // namespace weft::rma
