// SPDX-License-Identifier: BSD-3-Clause
// What host code, the enqueue kernel and the emulated driver agree on: a rank's mailbox area in GPU memory,
// which the other ranks of the communicator have mapped, and the operations of one launch. docs/adr/0009 says
// why.
#pragma once
#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define WEFT_BOTH __host__ __device__
#else
#define WEFT_BOTH
#endif

namespace weft::device::kernel::enqueue {

inline constexpr uint32_t kSlots = 64;     ///< messages that a rank can be ahead of the receiver, a pair
inline constexpr uint32_t kInline = 4096;  ///< bytes; larger messages are announced, then streamed
inline constexpr uint32_t kLanes = 4;      ///< announced messages that a rank takes in at a time
inline constexpr uint32_t kChunks = 32, kChunk = 65536;  ///< of a lane, and their size
inline constexpr uint32_t kOps = 80;                     ///< operations of a launch, at most
inline constexpr uint32_t kStates = 2 * kOps;            ///< the second half for captured operations
inline constexpr uint32_t kFewOps = 4;                   ///< of the kernel with small parameters
inline constexpr uint32_t kMostHelpers = 31;             ///< blocks of a launch beyond those
inline constexpr uint32_t kThreads = 512, kSmallThreads = 128;
inline constexpr int32_t kAnyTag = -2;

/// Message numbers of a pair run from 0 to kNumbers - 1 and begin anew; a message's flag is its number + 1,
/// never 0. Pairs start shortly before the end, so that every program passes it.
inline constexpr uint32_t kNumbers = 0u - kSlots, kFirstNumber = kNumbers - 2 * kSlots;
/// Chunk counters of a lane wrap as 32-bit numbers do.
inline constexpr uint32_t kFirstChunk = 0u - 3 * kChunks;

/// 8 bytes of data with their flag beside each half: a 16-byte store needs no fence, since 8 bytes never
/// tear.
struct alignas(16) Packet {
  uint32_t low, low_flag, high, high_flag;
};
inline constexpr uint32_t kPackets = kInline / 8;

/// What one peer writes to a rank: as the sender of messages, and as the receiver of this rank's.
struct Inbox {
  Packet headers[kSlots][2];         ///< {tag, 0}, {bytes}
  Packet payload[kSlots][kPackets];  ///< of messages up to kInline bytes
  Packet granted[kSlots];            ///< {lane, first chunk}: the announced message may be streamed
  uint32_t consumed[kSlots];         ///< flag of the last message that was taken out of the slot for good
  uint32_t drained[kLanes]
                  [kChunks];  ///< number + 1 of the last chunk that was taken out, of the peer's lanes
};

/// How far a rank is with a peer; only its own kernels touch it.
struct Peer {
  uint32_t next_send;      ///< message number
  uint32_t next_receive;   ///< all before it are taken
  uint32_t sent[kSlots];   ///< flag of the last message put into the peer's slot
  uint32_t taken[kSlots];  ///< flag of the last message matched in the slot
};

/// An operation that a launch may leave unfinished for the next one.
struct State {
  enum Phase : uint32_t { fresh, announced, matched, moving, done };
  uint32_t phase;
  uint32_t number;           ///< of the message
  uint32_t lane, first;      ///< the lane at the receiver and the number of the first chunk in it
  uint32_t chunks;           ///< of the message
  uint32_t next, completed;  ///< chunks begun, chunks finished
  int32_t tag;               ///< of a matched message
  uint64_t bytes;            ///< of the message
};

/// Between the blocks of a launch; all zero between launches.
struct Board {
  uint32_t out;            ///< blocks that have left
  uint32_t finished;       ///< required operations that are complete
  uint32_t settled[kOps];  ///< a send has its place in the order, a receive its message
  uint32_t moving[kOps];   ///< chunks can be taken
};

struct Lane {
  uint32_t busy, next;  ///< next: number of the next chunk
};

/// A rank's area; behind it lie Peer[ranks], Inbox[ranks], and the lanes' chunks.
struct alignas(256) Area {
  uint32_t rank, ranks;
  Board board;
  State states[kStates];
  Lane lanes[kLanes];
  uint32_t arrived[kLanes][kChunks];  ///< number + 1 of the last chunk that has come; written by the sender

  WEFT_BOTH static constexpr uint64_t round_up(uint64_t n) { return (n + 255) / 256 * 256; }
  WEFT_BOTH static constexpr uint64_t peer(uint32_t rank) { return sizeof(Area) + rank * sizeof(Peer); }
  WEFT_BOTH static constexpr uint64_t inbox(uint32_t ranks, uint32_t rank) {
    return round_up(peer(ranks)) + rank * uint64_t{sizeof(Inbox)};
  }
  WEFT_BOTH static constexpr uint64_t chunk(uint32_t ranks, uint32_t lane, uint32_t number) {
    return round_up(inbox(ranks, ranks)) + (uint64_t{lane} * kChunks + number % kChunks) * kChunk;
  }
  /// Bytes that have to be zero at first, and all bytes.
  WEFT_BOTH static constexpr uint64_t control_bytes(uint32_t ranks) { return chunk(ranks, 0, 0); }
  WEFT_BOTH static constexpr uint64_t bytes(uint32_t ranks) { return chunk(ranks, kLanes, 0); }
};
static_assert(sizeof(Inbox) % 16 == 0 && sizeof(Peer) % 8 == 0);

/// One send or receive of contiguous memory.
struct Op {
  enum Kind : uint8_t { send, receive };
  /// is_watched: a later operation of the launch takes its turn behind it.
  enum Flags : uint8_t { is_fresh = 1, is_required = 2, is_watched = 4 };
  uint64_t address;
  uint64_t bytes;   ///< of a receive: room
  uint64_t status;  ///< address of an MPI_Status; 0: none
  uint64_t remote;  ///< the peer's area as mapped here
  int32_t tag;      ///< kAnyTag: any, of a receive
  uint16_t peer;    ///< rank
  uint16_t state;   ///< index in Area::states
  uint16_t before;  ///< the send to the same peer before this one in the launch; kNone
  uint8_t kind, flags;
  uint32_t reserved;
  static constexpr uint16_t kNone = 0xffff;
};
static_assert(sizeof(Op) == 48);

/// What holds for all operations of a launch.
struct Head {
  uint64_t area;
  uint64_t fault;  ///< Fault, pinned host memory
  uint16_t rank, ranks;
  uint16_t count, required;
  uint16_t helpers;
  uint16_t quiet;  ///< no block has anything to say to another: all are required, none is watched, none helps
  uint32_t reserved;
};
static_assert(sizeof(Head) == 32);

/// Parameter of `weft_enqueue(Batch)`: the operations of a communicator that are under way, in the order of
/// the calls. Block i does operation i, blocks beyond help with whatever streams. The launch ends when all
/// required operations are complete; the others go on as far as they can until then.
struct Batch {
  Head head;
  Op ops[kOps];
};
static_assert(sizeof(Batch) <= 4096);
/// The same, of `weft_enqueue_few(Few)`: a launch carries its parameters along, so small ones are quicker.
struct Few {
  Head head;
  Op ops[kFewOps];
};

/// A message that was longer than its receive, for the next call on the communicator to report.
struct Fault {
  uint32_t seen;  ///< written last
  uint32_t peer;
  int32_t tag;
  uint32_t reserved;
  uint64_t bytes, room;
};

}  // namespace weft::device::kernel::enqueue
