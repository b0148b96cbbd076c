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
#include "coll/algorithm/order.hpp"

namespace weft::coll::select {
namespace {

using enum Collective;
using namespace algorithm;
constexpr uint64_t kKiB = 1024;
constexpr int kAnyRanks = INT_MAX;

// Every call must match a row; the last row of a collective is the default. Rows after the first row without
// a requirement and bounds are used only through their setting.
const Row kTable[] = {
    {barrier, &barrier_dissemination},

    {bcast, &bcast_binomial, Requirement::none, kAnyRanks, 64 * kKiB},
    {bcast, &bcast_binomial, Requirement::none, 2},
    {bcast, &bcast_chain, Requirement::none, 8},
    {bcast, &bcast_scatter_allgather, Requirement::none, kAnyRanks},

    {reduce, &reduce_binomial, Requirement::none, kAnyRanks, 32 * kKiB},
    {reduce, &reduce_direct, Requirement::none, 1024},
    {reduce, &reduce_binomial},

    {allreduce, &allreduce_recursive_doubling, Requirement::none, kAnyRanks, 16 * kKiB},
    {allreduce, &allreduce_direct, Requirement::none, 8},
    {allreduce, &allreduce_rabenseifner},
    {allreduce, &allreduce_ring, Requirement::commutative},

    {gather, &gather_binomial, Requirement::none, kAnyRanks, 2 * kKiB, 5},
    {gather, &gather_linear},
    {gatherv, &gather_linear},
    {scatter, &scatter_binomial, Requirement::none, kAnyRanks, 2 * kKiB, 5},
    {scatter, &scatter_linear},
    {scatterv, &scatter_linear},

    {allgather, &allgather_direct, Requirement::none, 4},
    {allgather, &allgather_recursive_doubling, Requirement::power_of_two, kAnyRanks, 32 * kKiB},
    {allgather, &allgather_bruck, Requirement::none, kAnyRanks, 4 * kKiB},
    {allgather, &allgather_direct, Requirement::none, Stage::kWindow},
    {allgather, &allgather_ring},
    {allgatherv, &allgather_direct, Requirement::none, Stage::kWindow},
    {allgatherv, &allgather_ring},

    {alltoall, &alltoall_bruck, Requirement::none, kAnyRanks, 256, Stage::kWindow},
    {alltoall, &alltoall_direct, Requirement::not_in_place},
    {alltoall, &alltoall_in_place, Requirement::in_place},
    {alltoallv, &alltoall_direct, Requirement::not_in_place},
    {alltoallv, &alltoall_in_place, Requirement::in_place},
    {alltoallw, &alltoall_direct, Requirement::not_in_place},
    {alltoallw, &alltoall_in_place, Requirement::in_place},

    {reduce_scatter_block, &reduce_scatter_direct, Requirement::none, Stage::kWindow},
    {reduce_scatter_block, &reduce_scatter_recursive_doubling, Requirement::none, kAnyRanks, 16 * kKiB},
    {reduce_scatter_block, &reduce_scatter_direct},
    {reduce_scatter, &reduce_scatter_direct, Requirement::none, Stage::kWindow},
    {reduce_scatter, &reduce_scatter_recursive_doubling, Requirement::none, kAnyRanks, 16 * kKiB},
    {reduce_scatter, &reduce_scatter_direct},

    {scan, &scan_recursive_doubling},
    {exscan, &exscan_recursive_doubling},

    {neighbor_allgather, &neighbor_direct},
    {neighbor_allgatherv, &neighbor_direct},
    {neighbor_alltoall, &neighbor_direct},
    {neighbor_alltoallv, &neighbor_direct},
    {neighbor_alltoallw, &neighbor_direct},
};

/// The algorithm of a reduction that combines the terms in rank order; null for other collectives.
const Algorithm* in_rank_order(Collective what) {
  switch (what) {
    case reduce:
      return &reduce_direct;
    case allreduce:
      return &allreduce_direct;
    case reduce_scatter:
    case reduce_scatter_block:
      return &reduce_scatter_direct;
    case scan:
      return &scan_chain;
    case exscan:
      return &exscan_chain;
    default:
      return nullptr;
  }
}

bool satisfies(Requirement requirement, const Call& call) {
  switch (requirement) {
    case Requirement::none:
      return true;
    case Requirement::commutative:
      return call.commutative();
    case Requirement::power_of_two:
      return std::has_single_bit(static_cast<unsigned>(call.size));
    case Requirement::in_place:
      return call.in_place;
    case Requirement::not_in_place:
      return !call.in_place;
  }
  return false;
}

/// The rows of one collective, and its setting.
struct CollectiveRows {
  std::span<const Row> rows;
  std::vector<const Row*> distinct;  // one row per algorithm, in the order of the setting's choices
  std::string setting_name, help, change_when;
  std::unique_ptr<config::Choice> setting;  // choices: auto, then the algorithms

  void init(Collective what, std::span<const Row> of) {
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
    help = std::string("Algorithm of ") + name(what) +
           ", if it supports the call; auto: by size and number of ranks.";
    change_when =
        std::string("a measurement of ") + name(what) + " on this machine finds another algorithm faster";
    setting =
        std::make_unique<config::Choice>(setting_name.c_str(), 0, words, help.c_str(), change_when.c_str());
  }
};

class SelectionTable {
 public:
  SelectionTable() {
    const std::span<const Row> all = kTable;
    for (size_t first = 0, last = 0; first < all.size(); first = last) {
      while (last < all.size() && all[last].what == all[first].what) ++last;
      collectives_[static_cast<size_t>(all[first].what)].init(all[first].what,
                                                              all.subspan(first, last - first));
    }
  }
  [[nodiscard]] const CollectiveRows& of(Collective what) const {
    return collectives_[static_cast<size_t>(what)];
  }

 private:
  std::array<CollectiveRows, kCollectives> collectives_;
};

const SelectionTable selection;  // constructed at start-up: registers the settings before they are read

}  // namespace

std::span<const Row> table() { return kTable; }

bool matches(const Row& row, const Call& call) {
  return call.size >= row.min_ranks && call.size <= row.max_ranks && call.bytes <= row.max_bytes &&
         satisfies(row.requirement, call);
}

bool forced(Collective what) {
  const auto& setting = selection.of(what).setting;
  return setting != nullptr && setting->index() > 0;
}

const Algorithm& by_table(const Call& call) {
  const CollectiveRows& entry = selection.of(call.what);
  if (rank_order(call)) [[unlikely]]
    if (const Algorithm* const algorithm = in_rank_order(call.what)) return *algorithm;
  if (forced(call.what)) [[unlikely]] {
    const Row& wanted = *entry.distinct[static_cast<size_t>(entry.setting->index() - 1)];
    if (satisfies(wanted.requirement, call)) return *wanted.algorithm;
  }
  for (const Row& row : entry.rows)
    if (matches(row, call)) return *row.algorithm;
  return *entry.rows.back().algorithm;
}

Round local_group_round(const Call& inner, const Call& call, int round, Stage& stage) {
  stage.use_communicator(*inner.comm);
  const Round result = by_table(inner).round(inner, round, stage);
  stage.use_communicator(*call.comm);
  return result;
}

}  // namespace weft::coll::select
