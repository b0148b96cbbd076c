// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, the enqueue kernel and the emulated driver: the mailbox region of a rank in GPU
// memory, mapped by the other ranks of the communicator, and the operations of one launch. Design:
// docs/adr/0009.
#pragma once
#include <cstddef>
#include <cstdint>

#include "device/kernel/pack.hpp"

#ifdef __CUDACC__
#define WEFT_BOTH __host__ __device__
#else
#define WEFT_BOTH
#endif

namespace weft::device::kernel::enqueue {

inline constexpr uint32_t kSlots = 64;  ///< unconsumed messages from one rank to another, at most
inline constexpr uint32_t kInlineBytes =
    4096;  ///< eager limit in bytes; larger messages use rendezvous (RTS, CTS, chunks)
inline constexpr uint32_t kFifos = 8;  ///< rendezvous messages that a rank receives at a time
inline constexpr uint32_t kChunks = 32, kChunk = 65536;  ///< chunks of a FIFO, bytes of a chunk
inline constexpr uint32_t kPairBuffers = 2;              ///< of a chunk each, at the receiver for each sender
inline constexpr uint32_t kOps = 80;                     ///< operations of a launch, at most
inline constexpr uint32_t kStates = 2 * kOps;            ///< the second half is for captured operations
inline constexpr uint32_t kSmallBatchOps = 4;            ///< of the kernel with small parameters
inline constexpr uint32_t kMaxHelpers = 95;              ///< additional blocks of a launch, at most
inline constexpr uint32_t kThreads = 512, kSmallThreads = 128;
inline constexpr int32_t kAnyTag = -2;

/// Message numbers of a pair run from 0 to kNumbers - 1 and wrap; the flag of a message is its number + 1,
/// never 0. Pairs start shortly before the wrap, so that every program exercises it.
inline constexpr uint32_t kNumbers = 0u - kSlots, kFirstNumber = kNumbers - 2 * kSlots;
/// Chunk counters of a FIFO, and numbers of messages in pair buffers, wrap as 32-bit numbers.
inline constexpr uint32_t kFirstChunk = 0u - 3 * kChunks, kFirstInPair = 0u - 2 * kPairBuffers;

/// 8 bytes of data with a flag beside each half (LL): no fence is needed, since aligned 8-byte stores never
/// tear.
struct alignas(16) LLPacket {
  uint32_t low, low_flag, high, high_flag;
};
inline constexpr uint32_t kInlinePackets = kInlineBytes / 8;

/// Memory that one peer writes at a rank: its messages, and the credits for this rank's messages.
struct PeerChannel {
  LLPacket headers[kSlots][2];               ///< {tag, 0}, {Announced}
  LLPacket payload[kSlots][kInlinePackets];  ///< of eager messages
  LLPacket cts[kSlots];                      ///< CTS: {FIFO, first chunk}
  uint32_t consumed[kSlots];                 ///< flag of the last message removed from the slot
  uint32_t drained[kFifos][kChunks];         ///< number + 1 of the last chunk removed from the peer's FIFOs
  uint32_t in_pair[kPairBuffers];      ///< number + 1 of the last message written to this rank's pair buffer
  uint32_t out_of_pair[kPairBuffers];  ///< the same, removed from the pair buffer at the peer
};

/// The size of a message as its header has it. A message in a pair buffer also has its number there.
struct Announced {
  static constexpr uint64_t kInPair = uint64_t{1} << 63;
  static constexpr uint32_t kShift = 31;  ///< below: bytes
  WEFT_BOTH static constexpr uint64_t in_pair(uint32_t number, uint64_t bytes) {
    return kInPair | uint64_t{number} << kShift | bytes;
  }
};
static_assert(kChunk < uint64_t{1} << Announced::kShift);

/// State of a rank towards a peer; accessed only by the rank's own kernels.
struct Peer {
  uint32_t next_send;                ///< message number
  uint32_t next_receive;             ///< all earlier messages are matched
  uint32_t sent[kSlots];             ///< flag of the last message put into the peer's slot
  uint32_t taken[kSlots];            ///< flag of the last message matched in the slot
  uint32_t next_in_pair;             ///< number of the next message that is sent by a pair buffer
  uint32_t pair_sent[kPairBuffers];  ///< number + 1 of the last message written to the buffer
  uint32_t reserved;
};

/// State of an operation that a launch may leave unfinished for the next launch. written: a synchronous send
/// whose eager message has not been received.
struct State {
  enum Phase : uint32_t { fresh, rts_sent, matched, moving, written, done };
  uint32_t phase;
  uint32_t number;           ///< of the message
  uint32_t fifo, first;      ///< FIFO at the receiver, number of its first chunk; kPair, number in the pair
  uint32_t chunks;           ///< of the message
  uint32_t next, completed;  ///< chunks begun, chunks finished
  int32_t tag;               ///< of a matched message
  uint64_t bytes;            ///< of the message
  static constexpr uint32_t kPair = kFifos;  ///< as `fifo`: a pair buffer
};

/// Shared by the blocks of a launch; all zero between launches.
struct Board {
  uint32_t out;            ///< blocks that have exited
  uint32_t finished;       ///< completed required operations
  uint32_t settled[kOps];  ///< a send has its message number, a receive its message
  uint32_t moving[kOps];   ///< chunks can be taken
};

struct Fifo {
  uint32_t busy, next;  ///< next: number of the next chunk
};

/// The region of a rank, followed by Peer[ranks], PeerChannel[ranks], the chunks of the FIFOs, and the pair
/// buffers.
struct alignas(256) MailboxRegion {
  uint32_t rank, ranks;
  Board board;
  State states[kStates];
  Fifo fifos[kFifos];
  uint32_t arrived[kFifos][kChunks];  ///< number + 1 of the last chunk written by the sender

  WEFT_BOTH static constexpr uint64_t round_up(uint64_t n) { return (n + 255) / 256 * 256; }
  WEFT_BOTH static constexpr uint64_t peer(uint32_t rank) {
    return sizeof(MailboxRegion) + rank * sizeof(Peer);
  }
  WEFT_BOTH static constexpr uint64_t channel(uint32_t ranks, uint32_t rank) {
    return round_up(peer(ranks)) + rank * uint64_t{sizeof(PeerChannel)};
  }
  WEFT_BOTH static constexpr uint64_t chunk(uint32_t ranks, uint32_t fifo, uint32_t number) {
    return round_up(channel(ranks, ranks)) + (uint64_t{fifo} * kChunks + number % kChunks) * kChunk;
  }
  /// Bytes to be zeroed before first use; all bytes.
  WEFT_BOTH static constexpr uint64_t control_bytes(uint32_t ranks) { return chunk(ranks, 0, 0); }
  WEFT_BOTH static constexpr uint64_t pair_buffer(uint32_t ranks, uint32_t sender, uint32_t number) {
    return chunk(ranks, kFifos, 0) + (uint64_t{sender} * kPairBuffers + number % kPairBuffers) * kChunk;
  }
  WEFT_BOTH static constexpr uint64_t bytes(uint32_t ranks) { return pair_buffer(ranks, ranks, 0); }
};
static_assert(sizeof(PeerChannel) % 16 == 0 && sizeof(Peer) % 8 == 0);

/// The layout of data in memory: runs of words along up to three dimensions, innermost first, as in Layout.
/// The address is that of the operation.
struct Runs {
  static constexpr int kDimensions = Layout::kDimensions;
  int64_t stride[kDimensions];     ///< bytes between neighbors along a dimension
  Divisor run;                     ///< words
  Divisor count[kDimensions - 1];  ///< runs along the first dimension, groups of these along the second
  uint16_t dimensions;
  uint16_t word;  ///< bytes of a word: 1, 2, 4, 8 or 16; all addresses and lengths are multiples of it
};
static_assert(sizeof(Runs) == 64);

/// Displacement in bytes of a word of the packed data.
WEFT_PACK_INLINE int64_t displacement_of(const Runs& runs, uint32_t word) {
  uint32_t run = runs.run.quotient(word);
  int64_t at = int64_t{word - run * runs.run.divisor} * runs.word;
  for (uint32_t i = 0; i < runs.dimensions; ++i) {
    uint32_t here = run;
    if (i + 1 < runs.dimensions) {
      run = runs.count[i].quotient(here);
      here -= run * runs.count[i].divisor;
    }
    at += runs.stride[i] * static_cast<int64_t>(here);
  }
  return at;
}

/// One send or receive, or a copy on this GPU: of a message of the rank to itself.
struct Op {
  enum Kind : uint8_t { send, receive, copy };
  /// has_successor: a later operation of the launch is ordered behind this one. is_synchronous: a send that
  /// ends when its message has been received.
  enum Flags : uint8_t { is_fresh = 1, is_required = 2, has_successor = 4, is_synchronous = 8 };
  uint64_t address;
  uint64_t bytes;   ///< of a receive: capacity
  uint64_t status;  ///< address of an MPI_Status; 0: none
  uint64_t remote;  ///< the peer's region as mapped here; of a copy: address of the source
  int32_t tag;      ///< receives: may be kAnyTag, which matches tags from 0 on
  uint16_t peer;    ///< rank
  uint16_t state;   ///< index in MailboxRegion::states
  uint16_t before;  ///< previous send to the same peer in the launch, or kNone
  uint8_t kind, flags;
  /// Number of the layout of `address`, and of the source of a copy, in Batch::layouts(); 0: contiguous.
  uint16_t layout, source_layout;
  static constexpr uint16_t kNone = 0xffff;
};
static_assert(sizeof(Op) == 48);

/// Parameters common to all operations of a launch.
struct Head {
  uint64_t region;
  uint64_t fault;  ///< address of a Fault in pinned host memory
  uint16_t rank, ranks;
  uint16_t count, required;
  uint16_t helpers;
  uint16_t independent;  ///< no block depends on another: all are required, none has a successor, no helpers
  uint16_t layouts;      ///< that follow the operations
  uint16_t pair_kib;     ///< sends of at most so many KiB take pair buffers, without RTS and CTS; 0: none
};
static_assert(sizeof(Head) == 32);

/// Parameter of `weft_enqueue(Batch)`, and of `weft_enqueue_layouts(Batch)` for operations with layouts: the
/// unfinished operations of a communicator in the order of the calls. Block i leads operation i; the other
/// blocks help to copy chunks. The launch ends when all required operations are complete; the others progress
/// until then.
struct Batch {
  Head head;
  union {
    Op ops[kOps];
    uint64_t words[508];
  };
  /// The layouts follow the operations; layout n is at n - 1.
  WEFT_BOTH static constexpr uint32_t most_layouts(uint32_t ops) {
    return static_cast<uint32_t>((sizeof words - ops * sizeof(Op)) / sizeof(Runs));
  }
  WEFT_BOTH Runs* layouts() { return reinterpret_cast<Runs*>(ops + head.count); }
  WEFT_BOTH const Runs* layouts() const { return reinterpret_cast<const Runs*>(ops + head.count); }
};
static_assert(sizeof(Batch) == 4096);
/// Parameter of `weft_enqueue_small(SmallBatch)`: a launch copies its parameters, so small ones start faster.
struct SmallBatch {
  Head head;
  Op ops[kSmallBatchOps];
};

/// A truncated message, reported by the next call on the communicator; and the cancel word.
struct Fault {
  uint32_t seen;  ///< written last
  uint32_t peer;
  int32_t tag;
  uint32_t cancelled;  ///< set to 1 by the host once a peer has died: kernels of the communicator leave
  uint64_t bytes, capacity;
};

/// The next step of a block.
struct Step {
  enum What : uint32_t { nothing, finish, write_inline, read_inline, move };
  uint32_t what = nothing;
  uint32_t op = 0;
  uint32_t flag = 0;     ///< of packets
  uint32_t chunk = 0;    ///< move: index in the message
  uint64_t packets = 0;  ///< address of the slot's payload
  uint64_t to = 0, from = 0, bytes = 0;
  /// Layouts of `to` and `from`; 0: contiguous. A side with a layout has the address of the whole data, and
  /// the step moves the bytes from `at` on.
  uint32_t to_layout = 0, from_layout = 0;
  uint64_t at = 0;
};

/// A chunk that a block has taken and copies as soon as the chunk is ready.
struct DrawnChunk {
  static constexpr uint32_t kNone = ~0u;
  uint32_t op = kNone, chunk = 0;
};

/// Pinned host memory of a communicator, which kernels write: Head::fault is its address.
struct Reports {
  Fault fault;
  uint32_t beats[kStates];        ///< changes while a kernel waits in the required operation with that state
  uint32_t statuses[kStates][8];  ///< an MPI_Status of each state, for requests that the host completes
  uint64_t collective_beat;       ///< StreamBeat
};

[[nodiscard]] WEFT_BOTH constexpr uint32_t next_number(uint32_t n) { return n + 1 == kNumbers ? 0 : n + 1; }

}  // namespace weft::device::kernel::enqueue
