// SPDX-License-Identifier: BSD-3-Clause
// Cause: the failure of a process behind the error of a collective.
#pragma once
#include <cstdint>

#include "base/result.hpp"
#include "core/communicator.hpp"

namespace weft::coll {

/// A rank that has noticed a failure sends empty messages from then on, and they may arrive before the news.
class Cause {
 public:
  /// Makes `outcome` the error of a failure or revocation that is known here, unless it is a success. Returns
  /// false while the news may still arrive: call again after progress.
  [[nodiscard]] bool known(core::Communicator& comm, Status& outcome);

 private:
  uint64_t deadline_ns_ = 0;  // 0: none yet
};

/// Waits for the cause of the outcome of a blocking collective.
[[nodiscard]] Status with_cause(core::Communicator& comm, Status outcome);

}  // namespace weft::coll
