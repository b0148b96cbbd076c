// SPDX-License-Identifier: BSD-3-Clause
// CallCheck: looks at the buffers of nonblocking and persistent collectives (WEFT_CHECK=gpu).
// Threading: under the instance lock.
#pragma once
#include "base/result.hpp"
#include "coll/schedule/call.hpp"
#include "core/request.hpp"

namespace weft::coll {

class CallCheck {
 public:
  CallCheck(const CallCheck&) = delete;
  CallCheck& operator=(const CallCheck&) = delete;
  /// Called by each start of a persistent call. The call runs nevertheless; its completion returns the error.
  [[nodiscard]] virtual Status before(const Call& call) const = 0;
  /// Called once after each successful completion, when the program learns of it.
  [[nodiscard]] virtual Status after(const Call& call) const = 0;

 protected:
  CallCheck() = default;
  ~CallCheck() = default;
};

/// Gives a check to a request of start() or make_persistent() (collective.hpp) that the program does not have
/// yet. `first`: the error of a call that has started already. dispatch/ defines it.
void set_call_check(core::Request& request, const CallCheck& check, Status first);

}  // namespace weft::coll
