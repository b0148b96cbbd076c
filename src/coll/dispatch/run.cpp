// SPDX-License-Identifier: BSD-3-Clause
// Blocking, nonblocking and persistent collectives: each goes to the path that path.hpp selects.
#include <memory>
#include <utility>

#include "base/counters.hpp"
#include "base/trace.hpp"
#include "coll/bootstrap/group.hpp"
#include "coll/dispatch/operation.hpp"
#include "coll/dispatch/path.hpp"
#include "coll/dispatch/scaled.hpp"
#include "coll/gpu/domain.hpp"
#include "coll/hierarchy/hierarchy.hpp"
#include "coll/host/host.hpp"
#include "coll/schedule/cause.hpp"
#include "coll/schedule/collective.hpp"

namespace weft::coll {
namespace {

using counters::Unit;
/// Blocking collectives by path. Bytes: one block of gather, scatter, allgather and alltoall, all blocks of
/// their v-variants and of reduce_scatter, else the vector.
struct PathCounters {
  counters::Counter calls, bytes;
  void count(const Call& call) {
    calls.add();
    bytes.add(call.bytes);
  }
};
PathCounters in_shared_memory{
    {"coll.shared_calls", Unit::events, "Blocking collectives through shared memory"},
    {"coll.shared_bytes", Unit::bytes, "Sizes of blocking collectives through shared memory"}};
PathCounters by_kernels{{"coll.gpu_calls", Unit::events, "Blocking collectives by Weft's kernels"},
                        {"coll.gpu_bytes", Unit::bytes, "Sizes of blocking collectives by Weft's kernels"}};
PathCounters by_messages{{"coll.message_calls", Unit::events, "Blocking collectives by messages"},
                         {"coll.message_bytes", Unit::bytes, "Sizes of blocking collectives by messages"}};

// A persistent operation keeps its tag for all starts. Its tag is from a separate range below the wildcards,
// because starts may occur in any order and next_collective_tag() may wrap around. The range of partial_tag()
// follows below.
int persistent_tag(int tag) { return p2p::kProcNull - (tag & (kPersistentTags - 1)); }

/// Runs a schedule of messages among all ranks.
Status run_schedule(const Call& call) {
  by_messages.count(call);
  Schedule schedule(call, call.comm->next_collective_tag(), dispatch::choose(call));
  schedule.begin();
  schedule.run();
  return schedule.end();
}

Status run_on_several_hosts(const Call& call) {
  Status failed;
  Hierarchy* const hierarchy = Hierarchy::for_call(call, failed);
  WEFT_TRY(std::move(failed));
  return hierarchy != nullptr ? hierarchy->run(call) : run_schedule(call);
}

[[gnu::always_inline]] inline Status run_on_path(const Call& call) {
  if (!call.comm->on_one_host()) [[unlikely]]
    return run_on_several_hosts(call);
  Status failed;
  const dispatch::Path path = dispatch::select_path(call, failed);
  if (path.domain != nullptr) {
    by_kernels.count(call);
    return path.domain->run(call, path.largest, path.resident_kernels_running, path.layouts);
  }
  if (path.channel != nullptr) {
    in_shared_memory.count(call);
    return host::run(call, *path.channel);
  }
  WEFT_TRY(std::move(failed));
  return run_schedule(call);
}

[[gnu::cold]] Status run_scaled(const Call& call) {
  auto scaled = ScaledReduction::create(call);
  if (!scaled) return std::move(scaled).error();
  WEFT_TRY((*scaled)->before());
  WEFT_TRY(run((*scaled)->sum()));
  return (*scaled)->after();
}

}  // namespace

Status run(const Call& call) {
  if (call.scaled) [[unlikely]]
    return run_scaled(call);
  trace::annotate({.bytes = call.bytes, .communicator = call.comm->number()});
  Status outcome = run_on_path(call);
  if (outcome.ok()) [[likely]]
    return outcome;
  return with_cause(*call.comm, std::move(outcome));
}

namespace {

Result<core::Request*> start(const Call& call, const Algorithm& algorithm, gpu::CollectiveQueue* queue,
                             std::unique_ptr<ScaledReduction> scaled = nullptr) {
  auto made = Operation::create(call, call.comm->next_nonblocking_tag(), algorithm);
  if (!made) return std::move(made).error();
  Operation* operation = *made;
  operation->finish();  // inactive until start()
  if (queue != nullptr) operation->set_queue(*queue);
  if (scaled != nullptr) operation->set_scaled(std::move(scaled));
  WEFT_TRY(operation->start());
  return static_cast<core::Request*>(operation);
}

}  // namespace

namespace {

/// The steps of a call that scales, and in `sum` its sum; the call itself otherwise.
Result<std::unique_ptr<ScaledReduction>> scaled_steps(const Call& call, const Call*& sum) {
  sum = &call;
  if (!call.scaled) return std::unique_ptr<ScaledReduction>();
  auto made = ScaledReduction::create(call);
  if (made) sum = &(*made)->sum();
  return made;
}

}  // namespace

Result<core::Request*> start(const Call& given) {
  const Call* call = nullptr;
  auto scaled = scaled_steps(given, call);
  if (!scaled) return std::move(scaled).error();
  Status failed;
  gpu::CollectiveQueue* queue = dispatch::collective_queue_for(*call, failed);
  WEFT_TRY(std::move(failed));
  return start(*call, dispatch::choose(*call), queue, std::move(*scaled));
}

Result<core::Request*> start(const Call& call, const Algorithm& algorithm) {
  return start(call, algorithm, nullptr);
}

Result<core::Request*> make_persistent(const Call& given) {
  const Call* sum = nullptr;
  auto scaled = scaled_steps(given, sum);
  if (!scaled) return std::move(scaled).error();
  const Call& call = *sum;
  Status failed;
  gpu::CollectiveQueue* queue = dispatch::collective_queue_connected(call, failed);
  WEFT_TRY(std::move(failed));
  auto made =
      Operation::create(call, persistent_tag(call.comm->next_collective_tag()), dispatch::choose(call));
  if (!made) return std::move(made).error();
  Operation* operation = *made;
  operation->persistent = true;
  operation->active = false;
  operation->finish();
  if (*scaled != nullptr) operation->set_scaled(std::move(*scaled));
  if (queue == nullptr) return static_cast<core::Request*>(operation);
  if (Status resolved = operation->resolve(*queue); !resolved.ok()) {
    operation->destroy();
    return std::move(resolved).error();
  }
  return static_cast<core::Request*>(operation);
}

}  // namespace weft::coll
