// SPDX-License-Identifier: BSD-3-Clause
// Counters and identity of a rank, read from outside (base/counter_table.hpp).
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/counters.hpp"
#include "mpiexec/memory.hpp"

namespace weft::mpiexec {

struct CounterValue {
  std::string name;
  uint64_t value;
  counters::Unit unit;
  counters::Kind kind;
};
using CounterValues = std::vector<CounterValue>;

/// The memory of a process for its counters; empty: it has none.
[[nodiscard]] std::vector<Memory> open_counters(pid_t pid);
/// The counters in the memory of one process that are not zero.
[[nodiscard]] CounterValues read_counters(const std::vector<Memory>& memories);
/// The same for a process that is read once.
[[nodiscard]] CounterValues counters_of(pid_t pid);

struct RankState;
/// Sets job, host, launcher and queues of a rank from the memory of its process. Returns false if it has
/// none.
[[nodiscard]] bool read_identity(RankState& rank);

}  // namespace weft::mpiexec
