// SPDX-License-Identifier: BSD-3-Clause
// Hosts: which ranks of a communicator share a host. Equal on all ranks, made without communication.
#pragma once
#include <cstdint>
#include <vector>

#include "core/communicator.hpp"

namespace weft::coll {

struct Hosts {
  std::vector<std::vector<int>> ranks;  ///< by host, in the order of their first ranks; each rising
  std::vector<int> leaders;             ///< the first rank of each
  std::vector<int> host, place;         ///< by rank: its host, its place among the ranks there
  bool in_order = true;                 ///< each host's ranks follow one another
  bool even = true;                     ///< each has as many ranks

  explicit Hosts(const core::Communicator& comm);
  [[nodiscard]] int count() const { return static_cast<int>(ranks.size()); }
  /// Several hosts, one of them with several ranks.
  [[nodiscard]] bool worth_a_hierarchy() const { return count() > 1 && ranks.size() < host.size(); }
  [[nodiscard]] int host_of(int rank) const { return host[static_cast<size_t>(rank)]; }
  [[nodiscard]] int place_of(int rank) const { return place[static_cast<size_t>(rank)]; }
  [[nodiscard]] const std::vector<int>& at(int host_number) const {
    return ranks[static_cast<size_t>(host_number)];
  }
};

}  // namespace weft::coll
