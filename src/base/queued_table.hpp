// SPDX-License-Identifier: BSD-3-Clause
// Queued table: the enqueued operations of a communicator with a GPU stream, for readers from outside
// (`weft hang`), who find it by counter_table::Directory::queues and read it with process_vm_readv. It is in
// the rank's own memory; the library itself never reads it.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/wait_table.hpp"

namespace weft::queued_table {

inline constexpr uint64_t kMagic = 0x7765'6674'2d71'7565ULL;
inline constexpr uint32_t kMaxOperations = 256;
/// While a kernel waits in an operation, the beat of the operation changes at least that often. (4096 polls
/// of a kernel take a few ms.)
inline constexpr uint64_t kBeatNs = 60'000'000;

/// An operation, at its index. A reader compares two reads: the kernel waits in it if its beat has changed
/// and `since` has not.
struct Operation {
  std::atomic<uint64_t> since;  ///< CLOCK_MONOTONIC in ns of the call; stored last
  uint64_t call;                ///< address of the name of the MPI function
  wait_table::What what;
  int32_t peer, tag;     ///< kAny: a wildcard
  int32_t peer_process;  ///< as in wait_table::Record
  uint64_t bytes;
};

/// One communicator.
struct Queue {
  uint64_t magic;
  uint64_t next;        ///< address of another Queue, or 0
  uint64_t operations;  ///< address of `count` Operation
  uint64_t beats;       ///< address of `count` uint32_t, which kernels write
  uint64_t context;
  uint32_t count;
  int32_t comm_rank, comm_size;
  int32_t of_world, members;  ///< as in wait_table::Record
  int32_t member[wait_table::kMaxMembers];
  char comm[64];
};

}  // namespace weft::queued_table
