// SPDX-License-Identifier: BSD-3-Clause
// Plan of a two-phase collective access: which rank accesses which bytes of the file, in which round. Equal
// on all ranks, since it is computed from records that all ranks have gathered.
#pragma once
#include <cstdint>
#include <vector>

#include "io/backend/descriptor.hpp"
#include "io/backend/hints.hpp"
#include "io/view/view.hpp"

namespace weft::io {

/// The access of one rank, as gathered from all ranks.
struct AccessRecord {
  Range range;        ///< from its first to its last byte in the file
  int64_t bytes;      ///< of data
  int64_t unordered;  ///< 1: the file offsets do not increase
  int64_t run_bytes;  ///< mean length of the contiguous runs of the view
  int64_t resident;   ///< 1: may_write_resident()
  int64_t failure;    ///< failure_code() of the rank's arguments
};

[[nodiscard]] AccessRecord record_of(const View& view, int64_t stream, int64_t bytes);

/// Whether the ranks exchange data with aggregators; else each rank accesses the file itself. `one_cache`:
/// all ranks access the file through the page cache of one host, where a system call for a run of some KiB
/// costs less than an exchange. Never where hardly any byte of the windows would be accessed.
[[nodiscard]] bool use_aggregators(const std::vector<AccessRecord>& records, const Hints& hints, bool write,
                                   bool one_cache);

struct Plan {
  /// `order`: ranks in the order in which they become aggregators; `hosts`: number of hosts.
  Plan(std::vector<AccessRecord> all_records, const Hints& hints, const std::vector<int>& order, int hosts);
  /// The bytes that an aggregator accesses in a round.
  [[nodiscard]] Range window(size_t aggregator, int64_t round) const;
  /// Index of a rank in `aggregators`; -1: none.
  [[nodiscard]] int index_of(int rank) const;

  std::vector<AccessRecord> records;  ///< by rank
  std::vector<int> aggregators;       ///< ranks
  Range all;                          ///< of all ranks
  int64_t part_bytes = 0;             ///< of the file for each aggregator
  int64_t window_bytes = 0;           ///< largest window
  int64_t rounds = 0;
};

}  // namespace weft::io
