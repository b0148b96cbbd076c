// SPDX-License-Identifier: BSD-3-Clause
// Layout of the shared segment of one host: a header, then one area per rank with its MPSC queue (all local
// senders), SPSC rings (one sender each, claimed on demand) and regions of upper layers. Size: header +
// ranks * area; pages are touched only when used.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/wait_table.hpp"
#include "transport/shm/shared_copy.hpp"
#include "transport/shm/wakeup.hpp"

namespace weft::transport::shm {

inline constexpr size_t kCacheLine = 64;
inline constexpr uint32_t kMaxRanks = 4096;
inline constexpr uint32_t kMaxCores = 1024;
inline constexpr size_t kSettingsBytes = 448;  ///< longer texts are compared by their hash only
inline constexpr size_t kQueueCells = 64;      ///< cells of the MPSC queue; a power of two
inline constexpr size_t kMaxQueueMessage = 4096;
inline constexpr size_t kRings = 8;                   ///< SPSC rings per receiver
inline constexpr size_t kRingBytes = 64 * 1024;       ///< capacity of one ring; a power of two
inline constexpr size_t kMaxRingMessage = 24 * 1024;  ///< bytes; must fit into a record header
inline constexpr uint64_t kMagic = 0x7765'6674'2d73'686dULL;

/// Cell of a rank's bounded MPSC queue. The sequence number tells whether the cell is free for a producer or
/// filled for the consumer (D. Vyukov's bounded MPMC queue, with a single consumer).
struct alignas(kCacheLine) QueueCell {
  std::atomic<uint64_t> sequence;
  uint32_t source;  ///< the sender's local rank, or guest_source()
  uint32_t size;    ///< in bytes; kOpenRing: `source` sends through a ring from now on
  alignas(8) std::byte payload[kMaxQueueMessage];
};
/// Claim of a producer on the cell of a ticket: stored before the producer takes the ticket, and cleared
/// after it has filled the cell or found the queue full. A ticket that is taken, not filled and claimed by no
/// living process belonged to a process that was killed.
constexpr uint64_t claim_of(uint32_t receiver, uint64_t ticket) {
  constexpr unsigned kTicketBits = 48;
  return uint64_t{receiver + 1} << kTicketBits | (ticket & ((uint64_t{1} << kTicketBits) - 1));
}

/// QueueCell::size of the message that announces a ring; its payload is the ring's index.
inline constexpr uint32_t kOpenRing = UINT32_MAX;

/// Single-producer single-consumer ring of records. A record starts with its header word (lap and size),
/// which is stored last. The consumer never writes `data`. Before the producer publishes a record, it clears
/// stale bytes at the next record's header position if they look like a header of this lap.
struct SpscRing {
  alignas(kCacheLine) std::atomic<uint64_t> consumed;  ///< bytes, monotonic; written by the consumer
  alignas(kCacheLine) std::atomic<uint32_t> owner;     ///< producer's QueueCell::source + 1; 0: free
  alignas(kCacheLine) std::byte data[kRingBytes];
};
inline constexpr size_t kRecordHeader = 8;
/// Records of at most this many bytes take half a cache line. Larger ones take whole lines, from a line's
/// start on.
inline constexpr size_t kSmallRecord = kCacheLine / 2;
constexpr size_t record_bytes(size_t message) {
  const size_t bytes = message + kRecordHeader;
  return bytes <= kSmallRecord ? kSmallRecord : (bytes + kCacheLine - 1) & ~(kCacheLine - 1);
}
/// Sizes in a record header of records without a message: skip to the start of the ring, or of the next line.
inline constexpr uint32_t kWrap = UINT16_MAX, kNextLine = UINT16_MAX - 1;

/// Laps are numbered with 16 bits, which begin shortly before they wrap, so that every program exercises it.
inline constexpr uint32_t kFirstLap = 0xfffe;
/// Header word of a record of `size` bytes at `position` (bytes since the ring was opened).
constexpr uint32_t record_header(uint64_t position, uint32_t size) {
  return (static_cast<uint32_t>(position / kRingBytes) + kFirstLap) << 16 | size;
}
/// Returns the size in a header word; 0 if `word` is not a header of this lap.
constexpr uint32_t size_in(uint32_t word, uint64_t position) {
  const uint32_t size = word ^ record_header(position, 0);
  return size <= UINT16_MAX ? size : 0;
}

inline constexpr size_t kRegions = 8;                  ///< per rank, for upper layers
inline constexpr size_t kRegionBytes = 144 * 1024;     ///< capacity of a region
inline constexpr size_t kPermanentRegionBytes = 4096;  ///< capacity of the permanent region of a rank

/// Base of what an upper layer keeps in a region that it leases.
struct LeasedRegion {
  /// Ranks that do not access the region any more. The lease ends when all of its ranks have incremented it.
  alignas(kCacheLine) std::atomic<uint32_t> left;
};

inline constexpr uint32_t kSharedCopies = 8;  ///< per rank: copies that it shares at a time

/// A copy into memory of this rank, which opens it.
struct alignas(kCacheLine) SharedCopySlot {
  SharedCopy copy;
};

struct alignas(4096) Area {
  alignas(kCacheLine) std::atomic<uint64_t> tail;  ///< MPSC queue: next ticket for a producer
  alignas(kCacheLine) Wakeup wakeup;               ///< used where ranks outnumber cores
  alignas(kCacheLine) std::atomic<int32_t> pid;
  std::atomic<uint64_t> cores[kMaxCores / 64];  ///< affinity mask
  std::atomic<uint64_t> probe_address;          ///< of the probe word, in this rank's address space
  std::atomic<uint64_t> probe_value;
  char settings[kSettingsBytes];  ///< config::common_values(Scope::host), valid once its hash is stored
  std::atomic<uint64_t> settings_hash;
  std::atomic<uint32_t> has_gpus;  ///< 1 if this rank has a CUDA driver
  /// 1 once the rank has left MPI regularly: the end of its process is no failure then. 2: it has left the
  /// job, and has failed for whoever needs it (core::FailureDetector).
  std::atomic<uint32_t> departed;
  std::atomic<uint64_t> pid_namespace;  ///< inode of the PID namespace in which `pid` counts; 0: unknown
  /// claim_of() the ticket that this rank is taking or filling; 0: none.
  alignas(kCacheLine) std::atomic<uint64_t> claim;
  wait_table::Table wait_table;
  alignas(kCacheLine) std::byte permanent_region[kPermanentRegionBytes];
  SharedCopySlot shared_copies[kSharedCopies];
  QueueCell cells[kQueueCells];
  SpscRing rings[kRings];
  alignas(4096) std::byte regions[kRegions][kRegionBytes];
};

/// A process of another job on this host that sends to ranks of this segment. The guest claims and frees its
/// entry and writes all fields.
struct Guest {
  enum Phase : uint32_t { free, claimed, ready };
  static constexpr unsigned kPhaseBits = 2;
  alignas(kCacheLine) std::atomic<uint32_t> state;  ///< generation << kPhaseBits | Phase
  std::atomic<int32_t> pid;
  std::atomic<uint64_t> job[2];  ///< JobId
  std::atomic<uint32_t> rank;    ///< in its job
  std::atomic<uint64_t> claim;   ///< as Area::claim
  std::atomic<uint64_t> pid_namespace;
};
inline constexpr uint32_t kMaxGuests = 4096;
/// QueueCell::source of a guest: this bit, the low bits of the generation, and the index of its entry.
inline constexpr uint32_t kGuestBit = 1U << 31;
constexpr uint32_t guest_source(uint32_t generation, uint32_t index) {
  return kGuestBit | (generation & 0x7fff) << 16 | index;
}

struct alignas(4096) Header {
  wait_table::Directory directory;  ///< for readers outside the job
  std::atomic<uint32_t> attached;
  /// 1: ranks of this segment sleep, so whoever publishes for them calls Wakeup::notify().
  alignas(kCacheLine) std::atomic<uint32_t> wakeups;
  /// Deaths that ranks of this segment have noticed by themselves; after a change the others look for them.
  std::atomic<uint32_t> deaths;
  alignas(kCacheLine) std::atomic<uint32_t> sleepers;  ///< ranks in Wakeup::sleep()
  std::atomic<uint32_t> next_guest;  ///< where claiming starts: an entry is reused as late as possible
  Guest guests[kMaxGuests];
};

}  // namespace weft::transport::shm
