// SPDX-License-Identifier: BSD-3-Clause
// Schedules: memory for the rounds of an algorithm, and the loop over them.
#include "coll/schedule/schedule.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/trace.hpp"
#include "coll/schedule/gpu_reduction.hpp"
#include "core/instance.hpp"

namespace weft::coll {

Schedule::Schedule(const Call& call, int tag, const Algorithm& algorithm)
    : call_(call), user_call_(call), algorithm_(&algorithm), stage_(call_) {
  call_.tag = tag;
}

void Schedule::begin() {
  round_ = phase_start_ = 0;
  finished_ = false;
  if (std::exchange(begun_, true)) {
    const int tag = call_.tag;
    call_ = user_call_;
    call_.tag = tag;
  }
  Status prepared = call_.failed != nullptr ? Status(call_.failed->copy()) : prepare();
  prepared_ = prepared.ok();
  if (prepared_) return;
  call_.scratch = inline_;
  stage_.disable(std::move(prepared));
}

Status Schedule::prepare() {
  WEFT_TRY(call_.comm->instance.failures.check(*call_.comm));
  const char* host_reason = choose_gpu(call_);
  if (!call_.on_gpu) WEFT_TRY(mirror_.enter(call_, host_reason));
  return take_scratch();
}

Status Schedule::take_scratch() {
  call_.scratch = inline_;
  const size_t scratch = algorithm_->scratch != nullptr ? algorithm_->scratch(call_) : 0;
  call_.scratch_bytes = scratch;
  if (call_.on_gpu && scratch != 0) {
    auto leased = device::Workspace::lease(call_.gpu, std::max(scratch, device::Workspace::kMappable));
    if (!leased) return fall_back_to_host(leased.error());
    workspace_ = std::move(*leased);
    call_.gpu = workspace_.memory();
    call_.scratch = reinterpret_cast<std::byte*>(call_.gpu.base);
    return {};
  }
  if (scratch <= kInlineScratch) return {};
  if (heap_ == nullptr) heap_.reset(new (std::nothrow) std::byte[scratch]);
  call_.scratch = heap_.get();
  if (heap_ != nullptr) return {};
  return Error(Errc::no_mem, std::string(name(call_.what)) + " needs " + std::to_string(scratch) +
                                 " bytes of scratch memory (algorithm " + algorithm_->name + ")");
}

/// Without GPU memory for scratch the host computes.
Status Schedule::fall_back_to_host(const Error& why) {
  call_.on_gpu = false;
  WEFT_TRY(mirror_.enter(call_, why.message().c_str()));
  return take_scratch();
}

Round Schedule::run_round() {
  const trace::Range range(algorithm_->name);
  const Round result = algorithm_->round(call_, round_++ - phase_start_, stage_);
  if (result == Round::next_phase) {
    ++call_.phase;
    phase_start_ = round_;
  }
  return result;
}

void Schedule::run() {
  while (run_round() != Round::done) stage_.wait();
}

bool Schedule::advance() {
  while (!finished_) {
    if (!stage_.complete()) return false;
    finished_ = run_round() == Round::done;
  }
  return true;
}

Status Schedule::end() {
  Status outcome = stage_.take_outcome();
  workspace_ = device::Workspace();
  Status left = prepared_ ? mirror_.leave(call_) : Status();
  return outcome.ok() ? std::move(left) : std::move(outcome);
}

}  // namespace weft::coll
