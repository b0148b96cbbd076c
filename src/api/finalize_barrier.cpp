// SPDX-License-Identifier: BSD-3-Clause
// Ranks of a host meet in shared memory, then the first ranks of all hosts over the network, then each first
// rank releases its host. A connection of a network costs a process milliseconds, and a program that has made
// none needs none in the other ranks to end.
#include "api/finalize_barrier.hpp"

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "api/handles.hpp"
#include "base/assert.hpp"
#include "launch/launch.hpp"
#include "p2p/p2p.hpp"

namespace weft::api {
namespace {

/// Below the first next_collective_tag(): the barrier cannot match a collective of another rank.
constexpr int kFinalizeTag = 0;

using Ranks = std::vector<int>;

struct Hosts {
  Ranks local;    ///< ranks of this host, in order
  Ranks leaders;  ///< the first rank of each host
};

Hosts hosts_of(const core::Instance& instance) {
  const launch::Job& job = instance.exchange->job();
  const int self = job.rank, size = job.size;
  const std::vector<int>& host = job.host_of_rank;
  Hosts hosts;
  std::vector<bool> seen(host.empty() ? 1
                                      : static_cast<size_t>(*std::max_element(host.begin(), host.end())) + 1);
  for (int rank = 0; rank < size; ++rank) {
    if (job.same_host(rank, self)) hosts.local.push_back(rank);
    const size_t number = host.empty() ? 0 : static_cast<size_t>(host[static_cast<size_t>(rank)]);
    if (!seen[number]) hosts.leaders.push_back(rank);
    seen[number] = true;
  }
  WEFT_ASSERT(static_cast<int>(hosts.local.size()) == job.local_size);
  return hosts;
}

class FinalizeBarrier {
 public:
  FinalizeBarrier(core::Instance& instance, const Hosts& hosts)
      : instance_(instance), comm_(*instance.world), hosts_(hosts) {}

  void run() {
    if (hosts_.leaders.size() == 1) return meet(hosts_.local);
    const bool leads = hosts_.local.front() == comm_.rank();
    meet(hosts_.local);
    if (!leads) {
      if (ok()) exchange(kNobody, hosts_.local.front());
      return;
    }
    meet(hosts_.leaders);
    // Also after a failure, of which the others may not know yet.
    for (const int rank : hosts_.local)
      if (rank != comm_.rank()) exchange(rank, kNobody);
  }

 private:
  static constexpr int kNobody = -1;

  [[nodiscard]] bool ok() const { return instance_.failures.check(*comm_.group).ok(); }

  /// A dissemination barrier: log2 of the number of members rounds (Hensgen, Finkel and Manber, 1988).
  void meet(const Ranks& members) {
    const size_t size = members.size();
    const auto self =
        static_cast<size_t>(std::lower_bound(members.begin(), members.end(), comm_.rank()) - members.begin());
    WEFT_ASSERT(self < size && members[self] == comm_.rank());
    for (size_t distance = 1; distance < size && ok(); distance *= 2)
      exchange(members[(self + distance) % size], members[(self + size - distance) % size]);
  }

  /// Sends an empty message to one rank and waits for one of another; kNobody: neither.
  void exchange(int to, int from) {
    static const device::Memory host;
    const p2p::Buffer nothing{nullptr, 0, to_datatype(MPI_BYTE), &host};
    p2p::Transfer in(core::Request::Kind::receive), out(core::Request::Kind::send);
    if (from != kNobody) p2p::post_receive(in, nothing, from, kFinalizeTag, comm_, core::Channel::collective);
    if (to != kNobody)
      p2p::post_send(out, nothing, to, kFinalizeTag, comm_, p2p::SendMode::standard,
                     core::Channel::collective);
    if (from != kNobody) core::wait(instance_, in);
    if (to != kNobody) core::wait(instance_, out);
  }

  core::Instance& instance_;
  core::Communicator& comm_;
  const Hosts& hosts_;
};

}  // namespace

void drain_world(core::Instance& instance) {
  p2p::flush_buffers(instance);
  const Hosts hosts = hosts_of(instance);
  FinalizeBarrier(instance, hosts).run();
}

}  // namespace weft::api
