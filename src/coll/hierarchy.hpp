// SPDX-License-Identifier: BSD-3-Clause
// Hierarchy: blocking collectives of a communicator whose ranks are on several hosts, as collectives inside
// each host and among one leader of each, or all-reductions among all ranks of a place. Inside hosts they go
// by shared memory or kernels, between them by messages. Threading: under the instance lock.
#pragma once
#include "base/result.hpp"
#include "coll/call.hpp"
#include "coll/hosts.hpp"
#include "core/communicator.hpp"

namespace weft::coll {

class Hierarchy final : public core::CollectiveState {
 public:
  explicit Hierarchy(core::Communicator& comm) : comm_(comm), hosts_(comm) {}
  /// Where a blocking call of a communicator on several hosts is done by hosts; null: by messages among all.
  /// Equal on all ranks. Counts calls; makes the communicators inside once there were some (collectively;
  /// errors are in `failed`).
  [[nodiscard]] static Hierarchy* of(const Call& call, Status& failed);
  /// Whether a call may go by hosts, blocking or not; whether by messages, as those that are not blocking do.
  /// Equal on all ranks.
  [[nodiscard]] static bool suits(const Call& call);
  [[nodiscard]] static bool suits_messages(const Call& call);
  /// Of a communicator on several hosts.
  [[nodiscard]] static const Hosts& hosts_of(core::Communicator& comm) { return in(comm).hosts_; }
  /// Runs the call to its end.
  [[nodiscard]] Status run(const Call& call);

 private:
  [[nodiscard]] static Hierarchy& in(core::Communicator& comm);
  [[nodiscard]] Status connect();
  [[nodiscard]] Status barrier();
  [[nodiscard]] Status bcast(const Call& call);
  [[nodiscard]] Status bcast_stream(const Call& call);
  [[nodiscard]] Status reduce(const Call& call);
  [[nodiscard]] Status allreduce(const Call& call);
  [[nodiscard]] Status allgather(const Call& call);
  [[nodiscard]] bool leads() const { return hosts_.place_of(comm_.rank()) == 0; }

  // rails.cpp
  [[nodiscard]] bool by_rails(const Call& call) const;
  [[nodiscard]] Status bcast_by_rails(const Call& call);
  [[nodiscard]] Status allreduce_by_rails(const Call& call);
  [[nodiscard]] Status allgather_by_rails(const Call& call);

  core::Communicator& comm_;
  core::Ref<core::Communicator> local_;
  core::Ref<core::Communicator>
      across_;  // the same place of all hosts; where they are uneven, of leaders only
  const Hosts hosts_;
  uint32_t calls_ = 0;
};

}  // namespace weft::coll
