// SPDX-License-Identifier: BSD-3-Clause
// Wait table: what each rank of a host does in MPI, in shared memory. core/waits writes it; mpiexec and
// `weft hang` read it from outside, through the descriptor in /proc/PID/fd. The library itself reads
// only the GPUs of the other ranks (core/gpu_use, p2p/engine/gpu_connections).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::wait_table {

inline constexpr uint64_t kMagic = 0x7765'6674'2d77'6169ULL;
/// Names of the memfd: of the ranks of a host, and of a rank alone on its host.
inline constexpr char kSharedName[] = "weft", kPrivateName[] = "weft-rank";

/// Begins the memory: where the tables are. `magic` is stored last.
struct Directory {
  std::atomic<uint64_t> magic;
  uint32_t ranks;                     ///< tables in this memory
  uint32_t header_bytes, area_bytes;  ///< table i is at header_bytes + i * area_bytes + table_offset
  uint32_t table_offset, table_bytes;
};

/// The event that ends a wait. `other`: a blocking collective, or unknown; the name of the call tells.
/// Of windows: a lock (`tag`: its target, `peer`: the holder of an exclusive lock, `count`: the number of
/// shared locks), MPI_Win_post of a peer, `count` calls of MPI_Win_complete, operations at a peer, the
/// notification counter `tag`.
enum class What : int32_t {
  other,
  send,
  receive,
  probe,
  collective,
  generalized,
  partitioned,
  enqueued,
  window_lock,
  window_post,
  window_complete,
  window_operations,
  window_notification
};

inline constexpr int kAny = INT32_MIN;  ///< peer or tag: a wildcard
inline constexpr int kMaxMembers = 64, kRecords = 8;

/// A wait of one thread, published after kPublishNs. `version` is odd during an update.
struct Record {
  alignas(64) std::atomic<uint32_t> version;
  What what;
  int32_t peer, tag;      ///< arguments of a send, receive or probe
  int32_t peer_process;   ///< rank of the peer in MPI_COMM_WORLD; -1: none, or of another job
  uint32_t polls;         ///< 1: a loop of unsuccessful calls such as MPI_Test
  uint64_t count, bytes;  ///< of the send or receive buffer
  uint64_t context;       ///< communicator id; 0: none
  int32_t comm_rank, comm_size;
  int32_t members;                    ///< entries of `member`: all ranks of a small intracommunicator, or 0
  int32_t of_world;                   ///< 1: ranks of the communicator are those of MPI_COMM_WORLD
  std::atomic<uint64_t> since, seen;  ///< CLOCK_MONOTONIC in ns: begin of the wait, last update; 0: unused
  std::atomic<uint64_t> calls;        ///< polls: Table::calls in the last unsuccessful call
  char call[48];                      ///< MPI function called by the program
  char operation[24];                 ///< collective: the operation that is waited for
  char comm[64];                      ///< name of the communicator
  /// Of a receive or probe: an unexpected message that it may have been meant for.
  int32_t unexpected;  ///< 1: there is one
  int32_t unexpected_source, unexpected_tag;
  int32_t unexpected_comm_size;  ///< 0: of the same communicator
  uint64_t unexpected_bytes;
  uint64_t looked;              ///< CLOCK_MONOTONIC in ns of the last search for it
  char unexpected_comm[64];     ///< name of its communicator
  int32_t member[kMaxMembers];  ///< their ranks in MPI_COMM_WORLD
};

/// Age of Record::seen after which a record is obsolete.
inline constexpr uint64_t kObsoleteNs = 500'000'000;
/// Age of a wait at which it is published.
inline constexpr uint64_t kPublishNs = 2'000'000;
/// Age from which readers call it a wait of a rank that may hang.
inline constexpr uint64_t kMinWaitNs = 50'000'000;

/// Bit of Table::call, which is not part of an address: the call has returned.
inline constexpr uint64_t kReturned = uint64_t{1} << 63;

/// GPUs that a rank sees, by their numbers in it; further ones are left out.
inline constexpr int kMaxGpus = 32;
struct Gpu {
  uint8_t uuid[16];
  char pci[16];  ///< "0000:3b:00.0"
};
/// GPU of the CUDA context that the thread had with which the rank connected to the others of its host.
enum class OwnGpu : uint32_t {
  unknown,  ///< the rank has not connected
  none,
  known,
  declined  ///< known, but not connected with other GPUs before their first message
};
struct Gpus {
  std::atomic<uint32_t> known;     ///< 1: the rank has used a GPU in MPI calls, or has left MPI; stored last
  uint32_t visible;                ///< entries of `gpu`; 0 for a rank that has used none
  std::atomic<uint64_t> used;      ///< bit n: the rank has used GPU n
  std::atomic<uint32_t> reported;  ///< of the first rank of a host: idle GPUs have been reported
  Gpu gpu[kMaxGpus];
  std::atomic<OwnGpu> own;
  uint8_t own_uuid[16];  ///< unless it is unknown or none
};

/// One rank.
struct Table {
  alignas(64) std::atomic<uint64_t> calls;  ///< number of MPI calls made
  std::atomic<uint64_t> call;               ///< address of the name of the last call, in the rank; kReturned
  std::atomic<int32_t> pid;                 ///< stored last; 0: the rank has not connected
  int32_t rank, size;                       ///< in MPI_COMM_WORLD
  std::atomic<uint32_t> left;               ///< 1: has called MPI_Finalize
  std::atomic<uint32_t> threaded;           ///< 1: several threads may call MPI
  std::atomic<uint32_t> threads;            ///< threaded: threads that have called MPI
  /// Written by other ranks of the host that wait: the last activity() seen, and when it was first seen.
  alignas(64) std::atomic<uint64_t> observed, observed_ns;
  Record records[kRecords];  ///< the first is for polls
  Gpus gpus;
  /// A value that changes when a call begins and when it ends.
  [[nodiscard]] uint64_t activity() const {
    return calls.load(std::memory_order_relaxed) << 1 | call.load(std::memory_order_relaxed) >> 63;
  }
};

/// Memory of a rank alone on its host.
struct PrivateTable {
  Directory directory;
  Table table;
};

/// Fills in the directory of `ranks` areas of `area_bytes`; every rank stores the same values.
inline void describe(Directory& directory, uint32_t ranks, size_t header_bytes, size_t area_bytes,
                     size_t table_offset) {
  directory.ranks = ranks;
  directory.header_bytes = static_cast<uint32_t>(header_bytes);
  directory.area_bytes = static_cast<uint32_t>(area_bytes);
  directory.table_offset = static_cast<uint32_t>(table_offset);
  directory.table_bytes = sizeof(Table);
  directory.magic.store(kMagic, std::memory_order_release);
}

}  // namespace weft::wait_table
