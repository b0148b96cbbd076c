// SPDX-License-Identifier: BSD-3-Clause
// Counter table: layout of the shared memory that holds the counters of a process and its identity. Readers
// outside of the job
// (`weft top`) open it through the descriptor in /proc/PID/fd; the library itself never reads it.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::counter_table {

inline constexpr uint64_t kMagic = 0x7765'6674'2d63'6e75ULL;
/// Name of the memfd.
inline constexpr char kName[] = "weft-counters";

/// A counter, with its counters::Unit and counters::Kind.
struct Name {
  char text[60];  ///< ends with zero
  uint8_t unit, kind;
  uint8_t unused[2];
};
static_assert(sizeof(Name) == 64);

/// Sizes of texts, with the terminating zero; longer texts are cut.
inline constexpr size_t kJobBytes = 96, kHostBytes = 72, kLauncherBytes = 24;

/// Begins the memory. `count` values of 8 bytes follow at `values_offset`, their names at `names_offset`.
/// `magic` is stored last.
struct Directory {
  alignas(64) std::atomic<uint64_t> magic;
  uint32_t count, values_offset, names_offset;
  std::atomic<uint64_t> queues;      ///< address of a queued_table::Head in the process; 0: none
  std::atomic<uint32_t> identified;  ///< 1: the texts are valid; stored last
  char job[kJobBytes];            ///< launch::Job::id: equal for the ranks of an MPI_COMM_WORLD on all hosts
  char host[kHostBytes];          ///< host name; of a fake host with its number, "node#1"
  char launcher[kLauncherBytes];  ///< launch::Job::launcher
};

}  // namespace weft::counter_table
