// SPDX-License-Identifier: BSD-3-Clause
// Hierarchy: blocking collectives of a communicator on several hosts, as collectives inside each host and
// among the hosts' leaders. Shared memory or kernels inside a host, messages between hosts. Threading: under
// the instance lock.
#pragma once
#include "base/result.hpp"
#include "coll/hierarchy/hosts.hpp"
#include "coll/schedule/call.hpp"
#include "core/communicator.hpp"

namespace weft::coll {

class Hierarchy final : public core::CollectiveState {
 public:
  explicit Hierarchy(core::Communicator& comm) : comm_(comm), hosts_(comm) {}
  ~Hierarchy() override;
  Hierarchy(const Hierarchy&) = delete;
  Hierarchy& operator=(const Hierarchy&) = delete;
  /// The hierarchy that runs a blocking call of a communicator on several hosts; null: a flat algorithm runs
  /// the call. Equal on all ranks. Counts calls; collectively creates the inner communicators after
  /// coll.hierarchy_min_calls calls and stores errors in `failed`.
  [[nodiscard]] static Hierarchy* for_call(const Call& call, Status& failed);
  /// True if a call may be hierarchical; true if it may use a hierarchical schedule of messages, as
  /// nonblocking calls do. Equal on all ranks.
  [[nodiscard]] static bool eligible(const Call& call);
  [[nodiscard]] static bool eligible_for_schedule(const Call& call);
  /// The hosts of a communicator on several hosts.
  [[nodiscard]] static const Hosts& hosts_of(core::Communicator& comm) { return attached_to(comm).hosts_; }
  /// Runs the call to completion.
  [[nodiscard]] Status run(const Call& call);

 private:
  [[nodiscard]] static Hierarchy& attached_to(core::Communicator& comm);
  [[nodiscard]] Status create_communicators();
  [[nodiscard]] Status run_steps(const Call& call);
  [[nodiscard]] Status barrier();
  [[nodiscard]] Status bcast(const Call& call);
  [[nodiscard]] Status bcast_packed(const Call& call);
  [[nodiscard]] Status reduce(const Call& call);
  [[nodiscard]] Status allreduce(const Call& call);
  [[nodiscard]] Status allgather(const Call& call);
  [[nodiscard]] bool is_leader() const { return hosts_.local_rank_of(comm_.rank()) == 0; }

  core::Communicator& comm_;
  core::Ref<core::Communicator> local_comm_;
  core::Ref<core::Communicator> inter_host_comm_;  // of the leaders
  const Hosts hosts_;
  uint32_t calls_ = 0;
};

}  // namespace weft::coll
