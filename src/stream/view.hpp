// SPDX-License-Identifier: BSD-3-Clause
// View: publishes the enqueued operations of a communicator for readers from outside (base/queued_table.hpp).
// Threading: under the instance lock.
#pragma once
#include <array>
#include <cstdint>

#include "base/queued_table.hpp"
#include "core/communicator.hpp"
#include "device/kernel/enqueue.hpp"

namespace weft::stream {

class View {
 public:
  /// `beats`: written by kernels, one for each state of an operation.
  View(core::Communicator& comm, const uint32_t* beats);
  ~View();
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  /// An operation of the current MPI call, before it is launched. It stays until the next one with its state.
  void publish(const device::kernel::enqueue::Op& op);

 private:
  core::Communicator& comm_;
  queued_table::Queue queue_{};
  std::array<queued_table::Operation, device::kernel::enqueue::kStates> operations_{};
};

}  // namespace weft::stream
