// SPDX-License-Identifier: BSD-3-Clause
// Selection: the table, and a setting for each collective that has more than one algorithm.
#include "coll/select/table.hpp"

#include <array>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "coll/algorithm/algorithms.hpp"
#include "coll/hierarchy.hpp"

namespace weft::coll::select {
namespace {

using enum Collective;
using namespace algorithm;
constexpr uint64_t kKiB = 1024;
constexpr int kAnyRanks = INT_MAX;

// Every call has to find a row: the last one, unless a need excludes another. Rows behind the first that
// needs nothing and has no bounds are reached by their setting only.
const Row kTable[] = {
    {barrier, &barrier_dissemination},

    {bcast, &bcast_binomial, Needs::nothing, kAnyRanks, 64 * kKiB},
    {bcast, &bcast_binomial, Needs::nothing, 2},
    {bcast, &bcast_chain, Needs::nothing, 8},
    {bcast, &bcast_scatter_allgather, Needs::nothing, kAnyRanks},

    {reduce, &reduce_binomial, Needs::nothing, kAnyRanks, 32 * kKiB},
    {reduce, &reduce_spread, Needs::nothing, 1024},
    {reduce, &reduce_binomial},

    {allreduce, &allreduce_recursive_doubling, Needs::nothing, kAnyRanks, 16 * kKiB},
    {allreduce, &allreduce_spread, Needs::nothing, 8},
    {allreduce, &allreduce_rabenseifner, Needs::commutative},
    {allreduce, &allreduce_ring, Needs::commutative},
    {allreduce, &allreduce_spread},

    {gather, &gather_binomial, Needs::nothing, kAnyRanks, 2 * kKiB, 5},
    {gather, &gather_linear},
    {gatherv, &gather_linear},
    {scatter, &scatter_binomial, Needs::nothing, kAnyRanks, 2 * kKiB, 5},
    {scatter, &scatter_linear},
    {scatterv, &scatter_linear},

    {allgather, &allgather_spread, Needs::nothing, 4},
    {allgather, &allgather_recursive_doubling, Needs::power_of_two, kAnyRanks, 32 * kKiB},
    {allgather, &allgather_bruck, Needs::nothing, kAnyRanks, 4 * kKiB},
    {allgather, &allgather_spread, Needs::nothing, Stage::kWindow},
    {allgather, &allgather_ring},
    {allgatherv, &allgather_spread, Needs::nothing, Stage::kWindow},
    {allgatherv, &allgather_ring},

    {alltoall, &alltoall_bruck, Needs::nothing, kAnyRanks, 256, Stage::kWindow},
    {alltoall, &alltoall_spread, Needs::not_in_place},
    {alltoall, &alltoall_in_place, Needs::in_place},
    {alltoallv, &alltoall_spread, Needs::not_in_place},
    {alltoallv, &alltoall_in_place, Needs::in_place},
    {alltoallw, &alltoall_spread, Needs::not_in_place},
    {alltoallw, &alltoall_in_place, Needs::in_place},

    {reduce_scatter_block, &reduce_scatter_spread, Needs::nothing, Stage::kWindow},
    {reduce_scatter_block, &reduce_scatter_recursive_doubling, Needs::nothing, kAnyRanks, 16 * kKiB},
    {reduce_scatter_block, &reduce_scatter_spread},
    {reduce_scatter, &reduce_scatter_spread, Needs::nothing, Stage::kWindow},
    {reduce_scatter, &reduce_scatter_recursive_doubling, Needs::nothing, kAnyRanks, 16 * kKiB},
    {reduce_scatter, &reduce_scatter_spread},

    {scan, &scan_recursive_doubling},
    {exscan, &exscan_recursive_doubling},

    {neighbor_allgather, &neighbor_direct},
    {neighbor_allgatherv, &neighbor_direct},
    {neighbor_alltoall, &neighbor_direct},
    {neighbor_alltoallv, &neighbor_direct},
    {neighbor_alltoallw, &neighbor_direct},
};

bool meets(Needs needs, const Call& call) {
  switch (needs) {
    case Needs::nothing:
      return true;
    case Needs::commutative:
      return call.commutative();
    case Needs::power_of_two:
      return std::has_single_bit(static_cast<unsigned>(call.size));
    case Needs::in_place:
      return call.in_place;
    case Needs::not_in_place:
      return !call.in_place;
  }
  return false;
}

/// The rows of one collective, and its setting.
struct Menu {
  std::span<const Row> rows;
  std::vector<const Row*> distinct;  // one for each algorithm, in the order of the setting's words
  std::string setting_name, help;
  std::unique_ptr<config::Choice> setting;  // words: auto, then the algorithms

  void open(Collective what, std::span<const Row> of) {
    rows = of;
    std::vector<std::string> words{"auto"};
    for (const Row& row : rows) {
      bool known = false;
      for (const Row* other : distinct) known = known || other->algorithm == row.algorithm;
      if (known) continue;
      distinct.push_back(&row);
      words.emplace_back(row.algorithm->name);
    }
    if (distinct.size() < 2) return;
    setting_name = std::string("coll.") + name(what);
    help = std::string("algorithm of ") + name(what) + ", where it can do the call; auto: by size and ranks";
    setting = std::make_unique<config::Choice>(setting_name.c_str(), 0, words, help.c_str());
  }
};

class Menus {
 public:
  Menus() {
    const std::span<const Row> all = kTable;
    for (size_t first = 0, last = 0; first < all.size(); first = last) {
      while (last < all.size() && all[last].what == all[first].what) ++last;
      menus_[static_cast<size_t>(all[first].what)].open(all[first].what, all.subspan(first, last - first));
    }
  }
  [[nodiscard]] const Menu& of(Collective what) const { return menus_[static_cast<size_t>(what)]; }

 private:
  std::array<Menu, kCollectives> menus_;
};

const Menus menus;  // at start-up, so that the settings are known when they are read

}  // namespace

std::span<const Row> table() { return kTable; }

bool fits(const Row& row, const Call& call) {
  return call.size >= row.min_ranks && call.size <= row.max_ranks && call.bytes <= row.max_bytes &&
         meets(row.needs, call);
}

bool forced(Collective what) {
  const auto& setting = menus.of(what).setting;
  return setting != nullptr && setting->index() > 0;
}

const Algorithm& choose(const Call& call) {
  if (call.inter()) [[unlikely]]
    return between_groups(call.what);
  if (call.comm != nullptr && !call.comm->on_one_host() && Hierarchy::suits_messages(call)) [[unlikely]]
    if (const Algorithm* const program = by_hosts(call.what)) return *program;
  return by_table(call);
}

const Algorithm& by_table(const Call& call) {
  const Menu& menu = menus.of(call.what);
  if (forced(call.what)) [[unlikely]] {
    const Row& wanted = *menu.distinct[static_cast<size_t>(menu.setting->index() - 1)];
    if (meets(wanted.needs, call)) return *wanted.algorithm;
  }
  for (const Row& row : menu.rows)
    if (fits(row, call)) return *row.algorithm;
  return *menu.rows.back().algorithm;
}

}  // namespace weft::coll::select
