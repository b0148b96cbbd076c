// SPDX-License-Identifier: BSD-3-Clause
// Streams: the state of a process whose communicators have GPU streams. Threading: under the instance lock.
#pragma once
#include <memory>
#include <vector>

#include "core/instance.hpp"

namespace weft::stream {

namespace order {
class Engine;
}
class Canceller;
class Queue;
class RetiredRegions;

/// Created by the first user of `of()`.
struct Streams final : core::RetainedState {
  Streams();
  ~Streams() override;
  [[nodiscard]] static Streams& of(core::Instance& instance);
  std::vector<Queue*> queues;               ///< all, for MPI_Finalize
  std::unique_ptr<Canceller> canceller;     ///< null: no thread
  std::unique_ptr<order::Engine> engine;    ///< null: no call was enqueued in stream order
  std::unique_ptr<RetiredRegions> retired;  ///< null: no communicator has had a queue
  bool watches_revocations = false;         ///< revoked communicators cancel their kernels
};

}  // namespace weft::stream
