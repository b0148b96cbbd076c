// SPDX-License-Identifier: BSD-3-Clause
// Operation: the request of a nonblocking or persistent collective. Threading: under the instance lock.
#pragma once
#include <memory>
#include <vector>

#include "base/slab.hpp"
#include "coll/dispatch/scaled.hpp"
#include "coll/gpu/collective_queue.hpp"
#include "coll/gpu/deferred.hpp"
#include "coll/schedule/call_check.hpp"
#include "coll/schedule/cause.hpp"
#include "coll/schedule/schedule.hpp"
#include "coll/schedule/section_copies.hpp"
#include "core/instance.hpp"
#include "core/request.hpp"

namespace weft::coll {

/// A nonblocking or persistent collective. Its progress comes from the instance's pollers.
class Operation final : public core::Request, public core::Poller, public gpu::DeferredCall {
 public:
  /// Copies the call's arrays; retains its communicator, types and operation. Complete, not started.
  Operation(const Call& call, int tag, const Algorithm& algorithm);
  ~Operation() override;
  static Result<Operation*> create(const Call& call, int tag, const Algorithm& algorithm);
  static Slab<Operation>& slab();
  Status start() override;
  /// Runs the check of set_check(), and copies results into the sections of set_copies().
  Status query() override;
  void destroy() override;
  bool poll() override;
  /// Owns `copies` from now on.
  void set_copies(SectionCopies& copies);
  /// Steps before and after the call, which is their sum.
  void set_scaled(std::unique_ptr<ScaledReduction> scaled);
  void set_check(const CallCheck& check, Status first);
  /// Every start() enters this queue, which runs the call by kernels or by messages.
  void set_queue(gpu::CollectiveQueue& queue) { collective_queue_ = &queue; }
  /// Collective: lets kernels run every start of a persistent call, if they can.
  [[nodiscard]] Status resolve(gpu::CollectiveQueue& queue);
  [[nodiscard]] core::Operands operands() const override {
    return {.what = wait_table::What::collective, .operation = name(call_copy_.what)};
  }
  void run_by_messages() override;
  void end(Status outcome) override;

 private:
  /// Returns the call with its arrays in this object.
  [[nodiscard]] Call copy_arrays(const Call& given);
  /// Classifies operands again that each start of a persistent call has to classify. Errc::buffer: the kind
  /// of their memory, which all ranks have agreed on, has changed.
  [[nodiscard]] Status classify_operands();
  /// The part of start() for sections and checks.
  [[nodiscard]] Status prepare_start();
  /// Polls until the cause of an error is known, and the vote of the call.
  void finish_schedule();

  const core::Ref<core::Communicator> child_;  // of Call::child
  std::vector<int64_t> counts_[4];
  std::vector<const datatype::Datatype*> types_[2];
  Call call_copy_;
  Schedule schedule_;
  gpu::CollectiveQueue* collective_queue_ = nullptr;
  std::unique_ptr<gpu::PersistentCall> persistent_call_;
  SectionCopies* copies_ = nullptr;
  std::unique_ptr<ScaledReduction> scaled_;
  const CallCheck* check_ = nullptr;
  Status checked_;          // of the buffers at the start of the current run
  bool hooked_ = false;     // has copies_, scaled_ or check_
  bool stored_ = false;     // of the current run: query() has done its part
  bool advancing_ = false;  // in this thread or another thread
  bool polled_ = false;     // registered with the instance's pollers
  bool ended_ = false;      // the schedule, with `result_`
  Status result_;
  Cause cause_;
};

}  // namespace weft::coll
