// SPDX-License-Identifier: BSD-3-Clause
// Hosts: which ranks of a communicator share a host. Equal on all ranks; needs no communication.
#pragma once
#include <cstdint>
#include <vector>

#include "core/communicator.hpp"

namespace weft::coll {

struct Hosts {
  std::vector<std::vector<int>> ranks;  ///< ranks of each host, ascending; hosts by first rank
  std::vector<int> leaders;             ///< first rank of each host
  std::vector<int> host, local_rank;    ///< by rank: its host and its local rank there
  bool ranks_contiguous = true;         ///< the ranks of each host are contiguous
  /// Reductions by hosts combine their terms in the order of flat algorithms (coll/algorithm/order.hpp).
  bool tree_order = true;

  explicit Hosts(const core::Communicator& comm);
  [[nodiscard]] int count() const { return static_cast<int>(ranks.size()); }
  /// True for several hosts, at least one of them with several ranks.
  [[nodiscard]] bool has_hierarchy() const { return count() > 1 && ranks.size() < host.size(); }
  [[nodiscard]] int host_of(int rank) const { return host[static_cast<size_t>(rank)]; }
  [[nodiscard]] int local_rank_of(int rank) const { return local_rank[static_cast<size_t>(rank)]; }
  [[nodiscard]] const std::vector<int>& ranks_on(int host_number) const {
    return ranks[static_cast<size_t>(host_number)];
  }
};

}  // namespace weft::coll
