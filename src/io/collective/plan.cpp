// SPDX-License-Identifier: BSD-3-Clause
#include "io/collective/plan.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace weft::io {
namespace {

constexpr int64_t kAggregatorsPerHost = 4;               // more contend for the lock of the file's inode
constexpr int64_t kLeastBytesPerAggregator = 256 << 10;  // below, a message costs more than the access
// From these lengths of runs, and up to this number of runs, ranks of one host access the file themselves.
// Writes take turns at the lock of the inode.
constexpr int64_t kDirectReadBytes = 4 << 10, kDirectWriteBytes = 32 << 10, kDirectRuns = 8;
constexpr int64_t kMostSpread = 1 << 16;  // bytes of the file for each byte of data
constexpr size_t kFewRanks =
    4;  // overwrite shorter runs directly: their mappings have the pages of all ranks

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

AccessRecord record_of(const View& view, int64_t stream, int64_t bytes) {
  if (bytes == 0) return {};
  return {{view.position(stream), view.position(stream + bytes - 1) + 1},
          bytes,
          view.ordered(stream, bytes) ? 0 : 1,
          view.contiguous ? bytes : view.mean_run,
          0,
          0};
}

bool use_aggregators(const std::vector<AccessRecord>& records, const Hints& hints, bool write,
                     bool one_cache) {
  const Use use = write ? hints.romio_cb_write : hints.romio_cb_read;
  const int64_t direct_run = write ? kDirectWriteBytes : kDirectReadBytes;
  bool interleaved = false, any = false, direct = one_cache;
  int64_t first = std::numeric_limits<int64_t>::max(), end = std::numeric_limits<int64_t>::min();
  datatype::Checked total;
  int64_t bytes = 0;
  for (const AccessRecord& record : records) {
    if (record.bytes == 0) continue;
    bytes = total.add(bytes, record.bytes);
    if (record.unordered != 0) return false;
    any = true;
    interleaved |= record.range.first < end;
    const int64_t least = record.resident != 0 && records.size() <= kFewRanks ? kDirectReadBytes : direct_run;
    direct &= record.run_bytes >= least || record.bytes <= kDirectRuns * record.run_bytes;
    first = std::min(first, record.range.first);
    end = std::max(end, record.range.end);
  }
  if (any && !total.overflow() && (end - first) / kMostSpread > bytes) return false;
  return any && (use == Use::enable || (use == Use::automatic && interleaved && !direct));
}

Plan::Plan(std::vector<AccessRecord> all_records, const Hints& hints, const std::vector<int>& order,
           int hosts)
    : records(std::move(all_records)) {
  all = {std::numeric_limits<int64_t>::max(), 0};
  for (const AccessRecord& record : records) {
    if (record.bytes == 0) continue;
    all.first = std::min(all.first, record.range.first);
    all.end = std::max(all.end, record.range.end);
  }
  const int64_t unit = hints.striping_unit;
  all.first = all.first / unit * unit;
  int64_t count = hints.cb_nodes;
  if (count == 0) {
    int64_t most = kAggregatorsPerHost * hosts;
    if (hints.striping_factor > 0) most = std::min(most, hints.striping_factor);  // one for each server
    count = std::clamp<int64_t>(all.bytes() / kLeastBytesPerAggregator, 1, most);
  }
  count = std::min(count, static_cast<int64_t>(order.size()));
  aggregators.assign(order.begin(), order.begin() + static_cast<ptrdiff_t>(count));
  part_bytes = round_up((all.bytes() + count - 1) / count, unit);
  window_bytes = std::min(part_bytes, std::max(unit, hints.cb_buffer_size / unit * unit));
  rounds = (part_bytes + window_bytes - 1) / window_bytes;
}

Range Plan::window(size_t aggregator, int64_t round) const {
  const int64_t first = all.first + static_cast<int64_t>(aggregator) * part_bytes;
  const int64_t part_end = std::min(first + part_bytes, all.end);
  const int64_t begin = first + round * window_bytes;
  return {begin, std::min(begin + window_bytes, part_end)};
}

int Plan::index_of(int rank) const {
  const auto found = std::find(aggregators.begin(), aggregators.end(), rank);
  return found == aggregators.end() ? -1 : static_cast<int>(found - aggregators.begin());
}

}  // namespace weft::io
