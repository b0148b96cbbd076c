// SPDX-License-Identifier: BSD-3-Clause
// Schedules: an algorithm generates the rounds of a collective one at a time, from the call and the round
// number. Blocking calls run a schedule on the stack; nonblocking and persistent calls keep it in a request.
// Threading: under the instance lock.
#pragma once
#include <memory>

#include "base/result.hpp"
#include "coll/schedule/call.hpp"
#include "coll/schedule/copy.hpp"
#include "coll/schedule/stage.hpp"
#include "device/pool.hpp"

namespace weft::coll {

/// Result of a round function. `more`: another round follows. `next_phase`: call.phase is incremented and
/// rounds count from 0 again. `done`: the operation is complete. A round that returns the latter two adds
/// only local steps.
enum class Round : uint8_t { more, next_phase, done };

/// An algorithm without state: the call and the round number determine a round. It can therefore run any
/// number of times with any buffers, and O(P) schedules need no O(P) memory each.
struct Algorithm {
  const char* name;
  /// Adds the steps of a round of call.phase; called when the transfers of the previous round are complete.
  Round (*round)(const Call& call, int round, Stage& stage);
  /// Bytes of scratch shared by the rounds, in host memory or (Call::on_gpu) GPU memory; nullptr: none.
  size_t (*scratch)(const Call& call) = nullptr;
};

/// One execution of an algorithm: on the stack of a blocking call, or in a request (dispatch/operation.hpp).
class Schedule {
 public:
  /// `call` must outlive the schedule.
  Schedule(const Call& call, int tag, const Algorithm& algorithm);
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  /// Allocates scratch and host mirrors. If that fails, or the call has failed before, the steps move no
  /// data.
  void begin();
  /// Runs to completion.
  void run();
  /// Runs as far as possible without waiting; true once complete.
  [[nodiscard]] bool advance();
  /// Copies host mirrors back to the device; returns the outcome of the operation.
  [[nodiscard]] Status end();
  /// Number of rounds started so far.
  [[nodiscard]] int round() const { return round_; }

 private:
  static constexpr size_t kInlineScratch = 1024;
  Call call_;              // with the addresses that the steps use
  const Call& user_call_;  // as the application gave it; kept by the owner
  Round run_round();
  [[nodiscard]] Status prepare();
  [[nodiscard]] Status take_scratch();
  [[nodiscard]] Status fall_back_to_host(const Error& why);
  const Algorithm* algorithm_;
  int round_ = 0;
  int phase_start_ = 0;
  bool finished_ = false, prepared_ = false;
  bool begun_ = false;
  HostMirror mirror_;
  device::Workspace workspace_;
  std::unique_ptr<std::byte[]> heap_;
  Stage stage_;
  alignas(64) std::byte inline_[kInlineScratch];
};

}  // namespace weft::coll
