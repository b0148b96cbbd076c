// SPDX-License-Identifier: BSD-3-Clause
#include "coll/schedule/cause.hpp"

#include <utility>

#include "base/clock.hpp"
#include "core/instance.hpp"
#include "launch/launch.hpp"

namespace weft::coll {
namespace {

constexpr uint64_t kNewsTimeoutNs = 800'000'000;  // the ranks of a host look for failures every 10 ms

}  // namespace

bool Cause::known(core::Communicator& comm, Status& outcome) {
  if (outcome.ok()) return true;
  const Errc code = outcome.error().code();
  if (code == Errc::proc_aborted || code == Errc::revoked) return true;
  if (Status cause = comm.instance.failures.check(comm); !cause.ok()) {
    outcome = std::move(cause);
    return true;
  }
  if (code != Errc::truncate || !launch::continues_on_failure()) return true;
  const uint64_t now = monotonic_ns();
  if (deadline_ns_ == 0) deadline_ns_ = now + kNewsTimeoutNs;
  return now >= deadline_ns_;
}

Status with_cause(core::Communicator& comm, Status outcome) {
  Cause cause;
  core::wait_until(comm.instance, [&] { return cause.known(comm, outcome); }, {nullptr, nullptr, &comm});
  return outcome;
}

}  // namespace weft::coll
