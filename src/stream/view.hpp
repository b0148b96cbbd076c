// SPDX-License-Identifier: BSD-3-Clause
// View: publishes the enqueued operations of a communicator for readers from outside (base/queued_table.hpp).
// Threading: under the instance lock.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "base/queued_table.hpp"
#include "core/communicator.hpp"
#include "device/kernel/enqueue.hpp"

namespace weft::stream {

class View {
 public:
  /// `beats`: written by kernels, one for each state of an operation. `collective_beat`: the same for
  /// collectives; null: the communicator has none.
  View(core::Communicator& comm, const uint32_t* beats, const uint64_t* collective_beat);
  ~View();
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  /// An operation of the current MPI call, before it is launched. It stays until the next one with its state.
  void publish(const device::kernel::enqueue::Op& op, const void* stream);
  /// A collective, before it is launched. Returns its id. `name`: of the MPI function, in static memory;
  /// null: the current MPI call.
  [[nodiscard]] uint32_t publish_collective(const char* name, const void* stream, bool captured);

 private:
  void publish_name();
  [[nodiscard]] uint64_t current_call() const;

  core::Communicator& comm_;
  queued_table::Queue queue_{};
  std::array<queued_table::Operation, device::kernel::enqueue::kStates> operations_{};
  const std::unique_ptr<queued_table::Collective[]> collectives_;
};

}  // namespace weft::stream
