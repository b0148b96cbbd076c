// SPDX-License-Identifier: BSD-3-Clause
// Counter table: layout of the shared memory that holds the counters of a process. Readers outside of the job
// (`weft top`) open it through the descriptor in /proc/PID/fd; the library itself never reads it.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::counter_table {

inline constexpr uint64_t kMagic = 0x7765'6674'2d63'6e74ULL;
/// Name of the memfd.
inline constexpr char kName[] = "weft-counters";

struct Name {
  char text[64];  ///< ends with zero
};

/// Begins the memory. `count` values of 8 bytes follow at `values_offset`, their names at `names_offset`.
/// `magic` is stored last.
struct Directory {
  alignas(64) std::atomic<uint64_t> magic;
  uint32_t count, values_offset, names_offset;
};

}  // namespace weft::counter_table
