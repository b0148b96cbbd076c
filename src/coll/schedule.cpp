// SPDX-License-Identifier: BSD-3-Clause
// Schedules: the loop over rounds, and the requests that keep it.
#include "coll/schedule.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/trace.hpp"
#include "coll/circle.hpp"
#include "coll/gpu/agenda.hpp"
#include "coll/gpu/domain.hpp"
#include "coll/gpu/provider.hpp"
#include "coll/gpu_reduction.hpp"
#include "coll/hierarchy.hpp"
#include "coll/select/table.hpp"
#include "coll/shared/shared.hpp"

namespace weft::coll {
namespace {

// Persistent operations keep their tag, so theirs come from a space of their own, below the wildcards: they
// may be started in any order, and the counter of next_collective_tag() may come round. partial_tag() is
// below.
int persistent_tag(int tag) { return p2p::kProcNull - (tag & (kPersistentTags - 1)); }

}  // namespace

Schedule::Schedule(const Call& call, int tag) : Schedule(call, tag, select::choose(call)) {}

Schedule::Schedule(const Call& call, int tag, const Algorithm& algorithm)
    : call_(call), user_(call), algorithm_(&algorithm), stage_(call_) {
  call_.tag = tag;
}

void Schedule::begin() {
  round_ = phase_start_ = 0;
  over_ = false;
  const int tag = call_.tag;
  call_ = user_;
  call_.tag = tag;
  Status prepared = call_.failed != nullptr ? Status(call_.failed->copy()) : prepare();
  prepared_ = prepared.ok();
  if (prepared_) return;
  call_.scratch = inline_;
  stage_.give_up(std::move(prepared));
}

Status Schedule::prepare() {
  const char* why_not = choose_gpu(call_);
  if (!call_.on_gpu) WEFT_TRY(mirror_.enter(call_, why_not));
  return take_scratch();
}

Status Schedule::take_scratch() {
  call_.scratch = inline_;
  const size_t scratch = algorithm_->scratch != nullptr ? algorithm_->scratch(call_) : 0;
  call_.scratch_bytes = scratch;
  if (call_.on_gpu && scratch != 0) {
    auto leased = device::Workspace::lease(call_.gpu, std::max(scratch, device::Workspace::kMappable));
    if (!leased) return leave_gpu(leased.error());
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
                                 " bytes of memory (algorithm " + algorithm_->name + ")");
}

/// Without GPU memory to work in: on the host.
Status Schedule::leave_gpu(const Error& why) {
  call_.on_gpu = false;
  WEFT_TRY(mirror_.enter(call_, why.message().c_str()));
  return take_scratch();
}

Round Schedule::make_round() {
  const trace::Range range(algorithm_->name);
  const Round made = algorithm_->round(call_, round_++ - phase_start_, stage_);
  if (made == Round::next) {
    ++call_.phase;
    phase_start_ = round_;
  }
  return made;
}

void Schedule::run() {
  while (make_round() != Round::done) stage_.wait();
}

bool Schedule::advance() {
  while (!over_) {
    if (!stage_.complete()) return false;
    over_ = make_round() == Round::done;
  }
  return true;
}

Status Schedule::end() {
  Status outcome = stage_.take_outcome();
  workspace_ = device::Workspace();
  Status left = prepared_ ? mirror_.leave(call_) : Status();
  return outcome.ok() ? std::move(left) : std::move(outcome);
}

namespace {

/// By messages among all ranks.
Status run_schedule(const Call& call) {
  Schedule schedule(call, call.comm->next_collective_tag());
  schedule.begin();
  schedule.run();
  return schedule.end();
}

Status run_between_hosts(const Call& call) {
  Status failed;
  Hierarchy* const hierarchy = Hierarchy::of(call, failed);
  WEFT_TRY(std::move(failed));
  return hierarchy != nullptr ? hierarchy->run(call) : run_schedule(call);
}

}  // namespace

Status run(const Call& call) {
  if (!call.comm->on_one_host()) [[unlikely]]
    return run_between_hosts(call);
  Status failed;
  const shared::Way way = shared::way_for(call, failed);
  if (way.provider != nullptr) return way.provider->run(call);
  if (way.domain != nullptr) return way.domain->run(call, way.largest, way.awake);
  if (way.channel != nullptr) return shared::run(call, *way.channel);
  WEFT_TRY(std::move(failed));
  return run_schedule(call);
}

Slab<Operation>& Operation::slab() {
  static Slab<Operation> operations(size_t{1} << 20);
  return operations;
}

Result<Operation*> Operation::create(const Call& call, int tag, const Algorithm& algorithm) {
  Operation* operation = slab().create(call, tag, algorithm);
  if (operation == nullptr) return core::no_more_requests();
  return operation;
}

namespace {

void retain(const Operand& operand, bool give_back) {
  const auto one = [&](const datatype::Datatype* type) {
    if (type == nullptr) return;
    auto* counted = const_cast<datatype::Datatype*>(type);  // the count is all that changes
    give_back ? counted->release() : counted->retain();
  };
  one(operand.type);
  for (int i = 0; operand.types != nullptr && i < operand.blocks; ++i) one(operand.types[i]);
}

}  // namespace

Operation::Operation(const Call& call, int tag, const Algorithm& algorithm)
    : Request(Kind::collective), kept_(keep(call)), schedule_(kept_, tag, algorithm) {
  comm = kept_.comm;
  comm->retain();
  if (kept_.op != nullptr) kept_.op->retain();
  retain(kept_.send, false);
  retain(kept_.recv, false);
}

Operation::~Operation() {
  if (polled_) comm->instance.remove(*this);
  if (resolved_) agenda_->release(*resolved_);
  retain(kept_.send, true);
  retain(kept_.recv, true);
  if (kept_.op != nullptr) kept_.op->release();
  comm->release();
}

Status Operation::resolve(gpu::Agenda& agenda) {
  auto resolved = agenda.resolve(kept_);
  if (!resolved) return std::move(resolved).error();
  if (!*resolved) return {};
  agenda_ = &agenda;
  resolved_ = std::make_unique<gpu::Resolved>(std::move(**resolved));
  return {};
}

void Operation::destroy() { slab().destroy(this); }

Call Operation::keep(Call call) {
  const auto numbers = [](Numbers& view, int n, std::vector<int64_t>& store) {
    if (!view) return;
    store.resize(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) store[static_cast<size_t>(i)] = view[i];
    view = {store.data(), true};
  };
  numbers(call.send.counts, call.send.blocks, numbers_[0]);
  numbers(call.send.displacements, call.send.blocks, numbers_[1]);
  numbers(call.recv.counts, call.recv.blocks, numbers_[2]);
  numbers(call.recv.displacements, call.recv.blocks, numbers_[3]);
  int side = 0;
  for (Operand* operand : {&call.send, &call.recv}) {
    auto& store = types_[side++];
    if (operand->types == nullptr) continue;
    store.assign(operand->types, operand->types + operand->blocks);
    operand->types = store.data();
  }
  return call;
}

Status Operation::start() {
  if (!complete())
    return Error(Errc::request, "the persistent collective is already active: wait for it first");
  rearm();
  if (resolved_)
    agenda_->start(*resolved_, *this);
  else if (agenda_ != nullptr)
    agenda_->add(kept_, *this);
  else
    go_by_messages();
  return {};
}

void Operation::go_by_messages() {
  busy_ = true;
  schedule_.begin();
  const bool over = schedule_.advance();
  busy_ = false;
  if (over) {
    close();
  } else {
    polled_ = true;
    comm->instance.add(*this);
  }
}

void Operation::end(Status outcome) {
  if (outcome.ok())
    finish();
  else
    finish(std::move(outcome).error());
}

bool Operation::poll() {
  if (busy_) return false;  // another thread, while a user's reduction function runs without the lock
  busy_ = true;
  const int before = schedule_.round();
  const bool over = schedule_.advance();
  busy_ = false;
  const bool moved = schedule_.round() != before;
  if (over) close();  // the request may be gone after it
  return moved;
}

void Operation::close() {
  if (std::exchange(polled_, false)) comm->instance.remove(*this);
  end(schedule_.end());
}

namespace {

Result<core::Request*> start(const Call& call, const Algorithm& algorithm, gpu::Agenda* agenda) {
  auto made = Operation::create(call, call.comm->next_nonblocking_tag(), algorithm);
  if (!made) return std::move(made).error();
  Operation* operation = *made;
  operation->finish();  // an idle one, which start() makes active
  if (agenda != nullptr) operation->leave_to(*agenda);
  WEFT_TRY(operation->start());
  return static_cast<core::Request*>(operation);
}

}  // namespace

Result<core::Request*> start(const Call& call) {
  Status failed;
  gpu::Agenda* agenda = shared::agenda_for(call, failed);
  WEFT_TRY(std::move(failed));
  return start(call, select::choose(call), agenda);
}

Result<core::Request*> start(const Call& call, const Algorithm& algorithm) {
  return start(call, algorithm, nullptr);
}

Result<core::Request*> make_persistent(const Call& call) {
  Status failed;
  gpu::Agenda* agenda = shared::agenda_now(call, failed);
  WEFT_TRY(std::move(failed));
  auto made = Operation::create(call, persistent_tag(call.comm->next_collective_tag()), select::choose(call));
  if (!made) return std::move(made).error();
  Operation* operation = *made;
  operation->persistent = true;
  operation->active = false;
  operation->finish();
  if (agenda == nullptr) return static_cast<core::Request*>(operation);
  if (Status resolved = operation->resolve(*agenda); !resolved.ok()) {
    operation->destroy();
    return std::move(resolved).error();
  }
  return static_cast<core::Request*>(operation);
}

}  // namespace weft::coll
