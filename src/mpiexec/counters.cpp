// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/counters.hpp"

#include "base/counter_table.hpp"
#include "mpiexec/waits.hpp"

namespace weft::mpiexec {
namespace {

constexpr uint32_t kMaxCounters = 4096;

}  // namespace

CounterValues read_counters(const std::vector<Memory>& memories) {
  counter_table::Directory directory{};
  if (memories.empty() || !memories[0].read(directory, 0) ||
      directory.magic.load() != counter_table::kMagic || directory.count > kMaxCounters)
    return {};
  std::vector<uint64_t> values(directory.count);
  std::vector<counter_table::Name> names(directory.count);
  if (!memories[0].read_bytes(values.data(), values.size() * sizeof values[0], directory.values_offset) ||
      !memories[0].read_bytes(names.data(), names.size() * sizeof names[0], directory.names_offset))
    return {};
  CounterValues found;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != 0)
      found.push_back({text_of(names[i].text), values[i], static_cast<counters::Unit>(names[i].unit),
                       static_cast<counters::Kind>(names[i].kind)});
  return found;
}

std::vector<Memory> open_counters(pid_t pid) {
  return open_memories(pid, {counter_table::kName}, [](const Memory&) { return true; });
}

bool read_identity(RankState& rank) {
  counter_table::Directory directory{};
  const std::vector<Memory> memories = open_counters(rank.pid);
  if (memories.empty() || !memories[0].read(directory, 0) ||
      directory.magic.load() != counter_table::kMagic || directory.identified.load() == 0)
    return false;
  rank.job = text_of(directory.job);
  rank.host = text_of(directory.host);
  rank.launcher = text_of(directory.launcher);
  rank.queues = directory.queues.load();
  return true;
}

CounterValues counters_of(pid_t pid) { return read_counters(open_counters(pid)); }

}  // namespace weft::mpiexec
