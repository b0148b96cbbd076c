// SPDX-License-Identifier: BSD-3-Clause
// Queued table: the enqueued operations of a communicator with a GPU stream, and the calls that a stream
// starts and the host executes, for readers from outside (`weft hang`), who find them by
// counter_table::Directory::queues and read them with process_vm_readv. They are in the rank's own memory;
// the library itself never reads them.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/wait_table.hpp"

namespace weft::queued_table {

/// Of a Queue; of HostCalls.
inline constexpr uint64_t kMagic = 0x7765'6674'2d71'7566ULL, kCallsMagic = 0x7765'6674'2d63'616cULL;
inline constexpr uint32_t kMaxOperations = 256;
/// While a kernel waits in an operation, the beat of the operation changes at least that often. (4096 polls
/// of a kernel take a few ms.)
inline constexpr uint64_t kBeatNs = 60'000'000;

/// Begins a Queue or HostCalls.
struct Head {
  uint64_t magic;
  uint64_t next;  ///< address of another Head, or 0
};

/// An operation, at its index. A reader compares two reads: the kernel waits in it if its beat has changed
/// and `since` has not.
struct Operation {
  std::atomic<uint64_t> since;  ///< CLOCK_MONOTONIC in ns of the call; stored last
  uint64_t call;                ///< address of the name of the MPI function
  wait_table::What what;
  int32_t peer, tag;     ///< kAny: a wildcard
  int32_t peer_process;  ///< as in wait_table::Record
  uint64_t bytes;
  uint64_t stream;  ///< handle
};

/// Collectives that a Queue describes: the last ones outside of captures, at their numbers modulo
/// kCollectives, then the last captured ones. CUDA keeps about 1000 launches of a stream pending; the next
/// one waits.
inline constexpr uint32_t kCollectives = 2048, kCapturedCollectives = 1024;
/// The id of a collective: its number on the communicator modulo 2^31, counted from 1, apart for captured
/// ones, which have this bit.
inline constexpr uint32_t kCaptured = 1u << 31;

/// An enqueued collective. The word Queue::collective_beat has its id in the high half, and changes, while a
/// kernel waits in it.
struct Collective {
  std::atomic<uint64_t> since;  ///< as in Operation
  uint64_t call, stream;
  uint32_t id;
};

/// One communicator.
struct Queue : Head {
  uint64_t operations;       ///< address of `count` Operation
  uint64_t beats;            ///< address of `count` uint32_t, which kernels write
  uint64_t collectives;      ///< address of kCollectives + kCapturedCollectives Collective
  uint64_t collective_beat;  ///< address of a uint64_t, which kernels write; 0: no collectives
  /// Collectives enqueued so far, without and with captures.
  std::atomic<uint64_t> enqueued, captured;
  uint64_t context;
  uint32_t count;
  int32_t comm_rank, comm_size;
  int32_t of_world, members;  ///< as in wait_table::Record
  int32_t member[wait_table::kMaxMembers];
  char comm[64];
};

inline constexpr uint32_t kHostCalls = 1024;  ///< of a stream that have not ended, at most

/// A call that the host executes in the order of a stream.
struct HostCall {
  std::atomic<uint64_t> since;  ///< as in Operation; 0: it has ended
  uint64_t call, context;
  int32_t comm_rank, comm_size;
  std::atomic<uint32_t> begun;  ///< 1: the stream has reached it
  char comm[36];
};

/// The calls that one stream starts outside of captures and that have not ended: number n at n % kHostCalls.
struct HostCalls : Head {
  uint64_t calls;  ///< address of kHostCalls HostCall
  uint64_t stream;
  std::atomic<uint64_t> first, last;  ///< numbers of the calls that have not ended: first <= n < last
};

}  // namespace weft::queued_table
