// SPDX-License-Identifier: BSD-3-Clause
// Schedules: every collective is a program whose rounds are made one at a time, by a function of the call and
// the round's number. Blocking calls run it on the stack; nonblocking and persistent ones keep it in a
// request. Threading: under the instance lock.
#pragma once
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "base/slab.hpp"
#include "coll/call.hpp"
#include "coll/copy.hpp"
#include "coll/deferred.hpp"
#include "coll/stage.hpp"
#include "core/instance.hpp"
#include "core/request.hpp"
#include "device/workspace.hpp"

namespace weft::coll {

/// What a round function answers: the round was made; or the phase is over and call.phase goes up, its rounds
/// counted from 0 again; or the operation is over. The latter two after local steps only.
enum class Round : uint8_t { more, next, done };

/// A program. It keeps no state: a round follows from the call and its number, so a program can be run at any
/// time, any number of times, with any buffers, and O(P) of them take no O(P) memory.
struct Algorithm {
  const char* name;
  /// Adds the steps of round 0, 1, 2, ... of call.phase; each is called when the transfers of the one before
  /// are complete.
  Round (*round)(const Call& call, int round, Stage& stage);
  /// Bytes of memory that the rounds share, of the host or where Call::on_gpu says; nullptr: none.
  size_t (*scratch)(const Call& call) = nullptr;
};

/// One run of a program: on the stack of a blocking call, or in an Operation.
class Schedule {
 public:
  /// Chooses the algorithm. `call` must outlive the schedule.
  Schedule(const Call& call, int tag);
  /// Runs this one.
  Schedule(const Call& call, int tag, const Algorithm& algorithm);
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;
  /// What the steps need. Without it, or where the call has failed before, they move nothing.
  void begin();
  /// Runs to the end.
  void run();
  /// Runs as far as possible without waiting; true at the end.
  [[nodiscard]] bool advance();
  /// Copies back what was staged; the outcome of the operation.
  [[nodiscard]] Status end();
  /// Rounds made so far.
  [[nodiscard]] int round() const { return round_; }

 private:
  static constexpr size_t kInlineScratch = 1024;
  Call call_;         // with the addresses that the steps use
  const Call& user_;  // as the application gave it; the owner keeps it
  Round make_round();
  [[nodiscard]] Status prepare();
  [[nodiscard]] Status take_scratch();
  [[nodiscard]] Status leave_gpu(const Error& why);
  const Algorithm* algorithm_;
  int round_ = 0;
  int phase_start_ = 0;
  bool over_ = false, prepared_ = false;
  HostMirror mirror_;
  device::Workspace workspace_;
  std::unique_ptr<std::byte[]> heap_;
  Stage stage_;
  alignas(64) std::byte inline_[kInlineScratch];
};

/// A nonblocking or persistent collective. Its progress comes from the instance's pollers.
class Operation final : public core::Request, public core::Poller, public gpu::Deferred {
 public:
  /// Copies the call's arrays; retains its communicator, types and operation. Complete, not started.
  Operation(const Call& call, int tag, const Algorithm& algorithm);
  ~Operation() override;
  static Result<Operation*> create(const Call& call, int tag, const Algorithm& algorithm);
  static Slab<Operation>& slab();
  Status start() override;
  void destroy() override;
  bool poll() override;
  /// Every start waits there for its turn among those that kernels do, or until messages are to do it.
  void leave_to(gpu::Agenda& agenda) { agenda_ = &agenda; }
  /// Collective: a persistent call that kernels do goes by them from now on.
  [[nodiscard]] Status resolve(gpu::Agenda& agenda);
  void go_by_messages() override;
  void end(Status outcome) override;

 private:
  Call keep(Call call);
  void close();

  std::vector<int64_t> numbers_[4];
  std::vector<const datatype::Datatype*> types_[2];
  const Call kept_;
  Schedule schedule_;
  gpu::Agenda* agenda_ = nullptr;
  std::unique_ptr<gpu::Resolved> resolved_;
  bool busy_ = false;    // advancing, in this thread or in another one
  bool polled_ = false;  // among the instance's pollers
};

/// Runs a collective to its end (MPI_Allreduce).
[[nodiscard]] Status run(const Call& call);
/// Starts one (MPI_Iallreduce). Arrays of the call are copied; communicator, types and operation are
/// retained.
[[nodiscard]] Result<core::Request*> start(const Call& call);
[[nodiscard]] Result<core::Request*> start(const Call& call, const Algorithm& algorithm);
/// Makes an inactive persistent request (MPI_Allreduce_init).
[[nodiscard]] Result<core::Request*> make_persistent(const Call& call);

}  // namespace weft::coll
