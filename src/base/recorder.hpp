// SPDX-License-Identifier: BSD-3-Clause
// Recorder: writes the ranges of this process to a file of lines, which `weft trace` merges with those of the
// other ranks (cli/weft_mpi/trace.py describes the lines). Threading: any thread; only trace.cpp uses push to
// copy.
#pragma once
#include <cstdint>

#include "base/result.hpp"
#include "base/trace.hpp"

namespace weft::recorder {

/// Creates the file in the folder trace.folder. Fails if that is not possible.
[[nodiscard]] Status open();
[[nodiscard]] bool enabled();
/// Names the process in the file; `job` is the same on all its processes. The first call counts.
void set_process(int rank, int size, uint32_t job, int host);
/// The clock of the job's rank 0 shows `offset` ns more than this host's monotonic clock did at `when`, with
/// an error of at most `error` ns.
void add_clock(uint64_t when, int64_t offset, uint64_t error);
/// Writes all complete ranges. Called at exit, and before a process ends in another way.
void flush();

// If enabled:
void push(const char* name);
void pop();
void annotate(const trace::Details& details);
void copy(const char* stream, uint64_t since, uint64_t bytes);

}  // namespace weft::recorder
