// SPDX-License-Identifier: BSD-3-Clause
// Queued: enqueued operations in which GPU streams of ranks wait, read from the memory of the ranks
// (base/queued_table.hpp).
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "mpiexec/waits.hpp"

namespace weft::mpiexec {

/// Name of an MPI function at an address in a process; empty if its memory cannot be read.
[[nodiscard]] std::string name_at(pid_t pid, uint64_t address);
/// Seconds since a time of CLOCK_MONOTONIC in ns; negative for 0.
[[nodiscard]] double seconds_since(uint64_t ns);

/// Adds a wait to each rank with communicators of GPU streams, for each operation in which a kernel waits.
/// Takes kBeatNs if there are such ranks: two looks show whether kernels wait.
void add_queued(std::vector<JobState>& jobs);

}  // namespace weft::mpiexec
