// SPDX-License-Identifier: BSD-3-Clause
#include "coll/hierarchy/hosts.hpp"

#include <algorithm>
#include <bit>

#include "core/instance.hpp"

namespace weft::coll {

Hosts::Hosts(const core::Communicator& comm) {
  std::vector<int> seen;  // hosts in the order of their first ranks
  for (int rank = 0; rank < comm.size(); ++rank) {
    const int name = comm.instance.host_of(comm.process(rank));
    const auto number = static_cast<size_t>(std::find(seen.begin(), seen.end(), name) - seen.begin());
    if (number == seen.size()) {
      seen.push_back(name);
      ranks.emplace_back();
      leaders.push_back(rank);
    }
    host.push_back(static_cast<int>(number));
    local_rank.push_back(static_cast<int>(ranks[number].size()));
    ranks[number].push_back(rank);
  }
  ranks_contiguous = std::is_sorted(host.begin(), host.end());
  const bool uniform =
      std::all_of(ranks.begin(), ranks.end(), [&](const auto& on) { return on.size() == ranks[0].size(); });
  tree_order = ranks_contiguous && uniform && std::has_single_bit(ranks[0].size());
}

}  // namespace weft::coll
