// SPDX-License-Identifier: BSD-3-Clause
// The shared segment of one host: a header, then one area a rank holding what others send to it: an inbox
// (many writers, one reader) and a few boxes (one writer, one reader) that busy pairs take on demand; and
// lanes, where a rank shows the others what it has in a collective. Memory: header + ranks * area, touched as
// it is used.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/shm/bell.hpp"

namespace weft::transport::shm {

inline constexpr size_t kLine = 64;
inline constexpr uint32_t kMaxRanks = 4096;
inline constexpr uint32_t kMaxCores = 1024;
inline constexpr size_t kSettingsBytes = 448;  ///< more of them are compared by their hash only
inline constexpr size_t kCells = 64;           ///< inbox cells; a power of two
inline constexpr size_t kCellPayload = 4096;
inline constexpr size_t kBoxes = 8;
inline constexpr size_t kBoxBytes = 64 * 1024;    ///< ring of one box; a power of two
inline constexpr size_t kBoxMessage = 24 * 1024;  ///< largest message in a box; fits a mark
inline constexpr uint64_t kMagic = 0x7765'6674'2d73'686dULL;

/// Bounded queue of many producers and one consumer; a cell's sequence number says whose turn it is
/// (D. Vyukov's bounded MPMC queue, with the consumer side single).
struct alignas(kLine) Cell {
  std::atomic<uint64_t> sequence;
  uint32_t source;
  uint32_t size;  ///< kOpenBox: `box` of `source` starts here
  alignas(8) std::byte payload[kCellPayload];
};
inline constexpr uint32_t kOpenBox = UINT32_MAX;

/// Ring of records in whole cache lines. A record starts with its mark, stored last: the lap of the ring and
/// the record's size. The reader writes nothing into the ring; before a record is published, its writer makes
/// sure that what an earlier lap left where the next one will start does not look like a mark of this lap.
struct Box {
  alignas(kLine) std::atomic<uint64_t> consumed;  ///< written by the reader, in bytes, monotonic
  alignas(kLine) std::atomic<uint32_t> owner;     ///< writer's local rank + 1; 0: free
  alignas(kLine) std::byte ring[kBoxBytes];
};
inline constexpr uint32_t kWrap = UINT16_MAX;  ///< size in a mark: the rest of the ring is unused

/// Mark of a record of `size` bytes at `position` (bytes since the box was opened).
constexpr uint32_t mark_of(uint64_t position, uint32_t size) {
  return static_cast<uint32_t>(position / kBoxBytes + 1) << 16 | size;
}
/// The size in a mark; 0: `word` is none of this lap.
constexpr uint32_t size_in(uint32_t word, uint64_t position) {
  const uint32_t size = word ^ mark_of(position, 0);
  return size <= UINT16_MAX ? size : 0;
}

inline constexpr size_t kLanes = 8;  ///< communicators in which a rank may have one at a time
inline constexpr uint32_t kSlots = 32, kPages = 8;
inline constexpr size_t kSlotBytes = 48, kPageBytes = 16 * 1024;

/// What a rank shows in one step of a collective; `sequence`, the step's number, is stored last. More than
/// kSlotBytes are in the step's page.
struct Slot {
  alignas(kLine) std::atomic<uint32_t> sequence;
  uint32_t size;
  alignas(16) std::byte data[kSlotBytes];
};

inline constexpr uint32_t kPosts = 32;
inline constexpr size_t kPostBytes = 312, kCardBytes = 504;

/// What a rank says of a collective that it does not wait in; `number` is stored last.
struct Post {
  alignas(kLine) std::atomic<uint32_t> number;
  alignas(8) std::byte data[kPostBytes];
};

/// What a rank says once, as far as it has come; `stage` is stored last.
struct Card {
  alignas(kLine) std::atomic<uint32_t> stage;
  alignas(8) std::byte data[kCardBytes];
};

/// Written by its owner, read by the other ranks of one communicator. Steps use slots and pages in turn; what
/// is not blocking uses the rest (coll/gpu).
struct Lane {
  alignas(kLine) std::atomic<uint32_t> done;  ///< steps in which the owner has read all that it reads
  alignas(kLine) std::atomic<uint32_t> left;  ///< ranks that will never look at this lane again
  Slot slots[kSlots];
  alignas(kLine) std::atomic<uint32_t> seen;               ///< posts that the owner will not look at again
  alignas(kLine) std::atomic<uint32_t> finished;           ///< turns that are over for the owner
  alignas(kLine) std::atomic<uint64_t> turns[kPosts / 4];  ///< whose turn is next: of the first rank's lane
  std::atomic<uint32_t> failed;  ///< the last call that the owner's kernels cannot end
  Card card;
  Post posts[kPosts];
  alignas(4096) std::byte pages[kPages][kPageBytes];
};

inline constexpr size_t kReadies = 32;  ///< receives that a rank shows at a time, one a hash of their keys

/// A posted receive that its rank shows to the only rank that can send to it (ready to receive), so that the
/// sender may write into its buffer. The receiver fills in all words and then opens it; the sender takes it
/// by a compare-and-swap of `state`, and the receiver takes it back by one. Between `taken` and `written` or
/// `failed` it is the sender's. `number` grows with each opening.
struct ReadyToReceive {
  /// aside: open for senders whose own memory nobody maps; they write to the receiver's scratch.
  enum Phase : uint64_t { idle, open, taken, written, failed, aside };
  static constexpr unsigned kPhaseBits = 3;
  alignas(kLine) std::atomic<uint64_t> state;  ///< number << kPhaseBits | Phase
  std::atomic<uint64_t> context, envelope;     ///< what the receive is matched by; source << 32 | tag
  std::atomic<uint64_t> seen;                  ///< messages of that source which the receiver had seen
  std::atomic<uint64_t> address;               ///< in the receiver
  std::atomic<uint64_t> bytes;                 ///< room; of the message, once taken
  std::atomic<uint64_t> base, buffer_id;       ///< of the receiver's allocation
  // Only of what is written aside:
  alignas(kLine) std::atomic<uint64_t> flag;  ///< in that allocation, behind the data: becomes `epoch`
  std::atomic<uint64_t> epoch;
  std::atomic<uint64_t> coming;  ///< bytes, once their copy is under way
  [[nodiscard]] static constexpr Phase phase_of(uint64_t state) {
    return static_cast<Phase>(state & ((1u << kPhaseBits) - 1));
  }
  [[nodiscard]] static constexpr uint64_t with_phase(uint64_t state, Phase phase) {
    return (state >> kPhaseBits << kPhaseBits) | phase;
  }
};
static_assert(sizeof(ReadyToReceive) == 2 * kLine);

/// What a rank waits for, written by it once a wait has lasted, for `weft hang`, which reads it from outside;
/// nothing in the library does. `version` is odd while it is being written.
struct Awaited {
  alignas(kLine) std::atomic<uint32_t> version;
  int32_t kind;             ///< core::Request::Kind; -1: a collective in shared memory, or anything
  int32_t rank, tag;        ///< of a send or receive, as in the call
  uint64_t bytes, context;  ///< the message's room or size; the communicator's id
  int32_t comm_rank, comm_size;
  std::atomic<uint64_t> since, seen;  ///< CLOCK_MONOTONIC, ns: nothing moved since; still so when
  char comm[64];                      ///< the communicator's name
};

struct alignas(4096) Area {
  alignas(kLine) std::atomic<uint64_t> tail;  ///< inbox tickets handed to producers
  alignas(kLine) Bell bell;                   ///< of this rank, where ranks outnumber cores
  alignas(kLine) std::atomic<int32_t> pid;
  std::atomic<uint64_t> cores[kMaxCores / 64];  ///< cores this rank may run on
  std::atomic<uint64_t> probe_address;          ///< where this rank's probe word is, in its own address space
  std::atomic<uint64_t> probe_value;
  char settings[kSettingsBytes];  ///< config::common_values(Scope::host), before its hash is stored
  std::atomic<uint64_t> settings_hash;
  std::atomic<uint32_t> has_gpus;  ///< this rank has a CUDA driver
  std::atomic<int32_t> rank;       ///< in the world
  Awaited awaited;
  ReadyToReceive readies[kReadies];
  Cell cells[kCells];
  Box boxes[kBoxes];
  Lane lanes[kLanes];
};

struct alignas(4096) Header {
  std::atomic<uint64_t> magic;  ///< kMagic, when what tells readers from outside where things are is there
  uint32_t ranks;
  uint32_t header_bytes, area_bytes, pid_offset, rank_offset, awaited_offset;
  std::atomic<uint32_t> attached;
  alignas(kLine) std::atomic<uint32_t> sleepers;  ///< ranks that sleep on their bells, about
};

}  // namespace weft::transport::shm
