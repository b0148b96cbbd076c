// SPDX-License-Identifier: BSD-3-Clause
// DeferredCall: a call whose path, kernels or messages, is chosen later (coll/gpu/collective_queue.hpp).
// Threading: under the instance lock.
#pragma once
#include "base/result.hpp"

namespace weft::coll::gpu {

class CollectiveQueue;
struct PersistentCall;

class DeferredCall {
 public:
  /// Starts the call by messages.
  virtual void run_by_messages() = 0;
  /// Completes the call: kernels have finished it, or it failed.
  virtual void end(Status outcome) = 0;

 protected:
  ~DeferredCall() = default;
};

}  // namespace weft::coll::gpu
