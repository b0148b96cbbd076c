// SPDX-License-Identifier: BSD-3-Clause
// Layout of the shared segment of one host: a header, then one area per rank with its MPSC queue (all local
// senders), SPSC rings (one sender each, claimed on demand) and slot areas (data published in collectives).
// Size: header + ranks * area; pages are touched only when used.
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

inline constexpr size_t kSlotAreas = 8;  ///< per rank: communicators that can hold one at a time
inline constexpr uint32_t kSlots = 32, kPages = 8;
inline constexpr size_t kSlotBytes = 48, kPageBytes = 16 * 1024;

/// Data published by a rank in one step of a blocking collective. `sequence`, the step number, is stored
/// last. Data larger than kSlotBytes are in the step's page.
struct Slot {
  alignas(kCacheLine) std::atomic<uint64_t> sequence;
  uint32_t size;
  alignas(16) std::byte data[kSlotBytes];
};

inline constexpr uint32_t kCallDescriptors = 32;
inline constexpr size_t kCallDescriptorBytes = 312, kSetupBytes = 504;
/// Calls, order slots and starts are numbered from here on: the numbers wrap early, so that every program
/// exercises it.
inline constexpr uint32_t kFirstCall = 0U - 24;

/// Descriptor of one nonblocking or persistent collective call; `number` is stored last.
struct CallDescriptor {
  alignas(kCacheLine) std::atomic<uint32_t> number;
  alignas(8) std::byte data[kCallDescriptorBytes];
};

/// State of a rank's one-time setup of GPU collectives; `stage` is stored last.
struct SetupDescriptor {
  alignas(kCacheLine) std::atomic<uint32_t> stage;
  alignas(8) std::byte data[kSetupBytes];
};

/// Shared memory of one rank in one communicator: written by its owner, read by the communicator's other
/// ranks. Blocking collectives use slots and pages round-robin; coll/gpu uses the other fields.
struct SlotArea {
  alignas(kCacheLine) std::atomic<uint64_t> done;  ///< last step whose data the owner has acknowledged
  alignas(kCacheLine) std::atomic<uint32_t> left;  ///< ranks that have detached from this slot area
  Slot slots[kSlots];
  alignas(kCacheLine) std::atomic<uint32_t> seen;      ///< last call descriptor read by the owner
  alignas(kCacheLine) std::atomic<uint32_t> finished;  ///< calls finished by the owner
  static constexpr uint64_t kUnassigned = UINT64_MAX;  ///< of an order slot: no call has the key UINT32_MAX
  /// Order in which all ranks run the calls: number << 32 | key of the call; only the slot area of rank 0 is
  /// used.
  alignas(kCacheLine) std::atomic<uint64_t> order_slots[kCallDescriptors / 4];
  std::atomic<uint64_t> failed;  ///< last call whose kernel failed on the owner's GPU
  /// Last call that the owner's kernels have ended: they push nothing of it, nor of earlier ones, any more.
  std::atomic<uint64_t> ended;
  /// 1 once the owner has given up a step because a rank has failed: what it published may change.
  std::atomic<uint32_t> broken;
  /// Builds with assertions: the last step whose data the owner has read, and the steps for which it has
  /// claimed its slots and pages.
  alignas(kCacheLine) std::atomic<uint64_t> read;
  std::atomic<uint64_t> slot_steps[kSlots], page_steps[kPages];
  SetupDescriptor setup;
  CallDescriptor call_descriptors[kCallDescriptors];
  alignas(4096) std::byte pages[kPages][kPageBytes];
};

inline constexpr size_t kRtrSlots = 32;  ///< advertised receives per rank, indexed by a hash of the match key

/// A posted receive advertised to the only rank that can match it (ready to receive, RTR): the sender may
/// write into its buffer. The receiver fills in all words and then sets `open`; the sender claims the RTR by
/// a compare-and-swap of `state`, and the receiver retracts it likewise. From `claimed` to `written` or
/// `failed` the sender owns the entry. `number` grows with each advertisement.
struct ReadyToReceive {
  /// bounce: open for senders whose memory no peer can map; they write to a bounce buffer of the receiver.
  enum Phase : uint64_t { idle, open, claimed, written, failed, bounce };
  static constexpr unsigned kPhaseBits = 3;
  alignas(kCacheLine) std::atomic<uint64_t> state;  ///< number << kPhaseBits | Phase
  std::atomic<uint64_t> context, envelope;          ///< match key; envelope: source << 32 | tag
  std::atomic<uint64_t> seen;                       ///< messages from that source seen by the receiver
  std::atomic<uint64_t> address;                    ///< of the buffer, in the receiver
  std::atomic<uint64_t> bytes;                      ///< capacity; once claimed: size of the message
  std::atomic<uint64_t> base, buffer_id;            ///< of the receiver's allocation
  // Only for a bounce buffer:
  alignas(kCacheLine) std::atomic<uint64_t> flag;  ///< address of the word after the data, set to `epoch`
  std::atomic<uint64_t> epoch;
  std::atomic<uint64_t> incoming_bytes;  ///< nonzero once the copy has started
  [[nodiscard]] static constexpr Phase phase_of(uint64_t state) {
    return static_cast<Phase>(state & ((1u << kPhaseBits) - 1));
  }
  [[nodiscard]] static constexpr uint64_t with_phase(uint64_t state, Phase phase) {
    return (state >> kPhaseBits << kPhaseBits) | phase;
  }
};
static_assert(sizeof(ReadyToReceive) == 2 * kCacheLine);

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
  /// 1 once the rank has left MPI regularly: the end of its process is no failure then.
  std::atomic<uint32_t> departed;
  std::atomic<uint64_t> pid_namespace;  ///< inode of the PID namespace in which `pid` counts; 0: unknown
  /// claim_of() the ticket that this rank is taking or filling; 0: none.
  alignas(kCacheLine) std::atomic<uint64_t> claim;
  wait_table::Table wait_table;
  ReadyToReceive rtr_slots[kRtrSlots];
  SharedCopySlot shared_copies[kSharedCopies];
  QueueCell cells[kQueueCells];
  SpscRing rings[kRings];
  SlotArea slot_areas[kSlotAreas];
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
