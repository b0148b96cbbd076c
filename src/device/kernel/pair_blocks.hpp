// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, the kernels of blocks.cu and the emulated driver: exchanges of blocks of any
// regular layout, in which each pair of ranks divides the messages between them by their sizes, which are
// arguments of both.
#pragma once
#include <cstdint>

#include "device/kernel/collective.hpp"
#include "device/kernel/enqueue.hpp"

namespace weft::device::kernel {

/// How the messages between two ranks, or of a rank to itself, are divided; equal on both.
struct PairSplit {
  uint32_t blocks;       ///< thread blocks on each rank; 0: no message
  uint32_t chunk_bytes;  ///< Simple: of a thread block in a round; 0: LL
};

/// Numbers of a call.
struct PairCall {
  uint64_t number;   ///< of the flags of chunks; increases from call to call
  uint32_t flag;     ///< of LL packets
  uint64_t packets;  ///< offset in a region of the set of LL packets
  /// Of a call that all ranks have entered before it is launched.
  [[nodiscard]] WEFT_HOST_DEVICE static PairCall entered(uint32_t epoch) { return {epoch, epoch, 0}; }
  /// Of an enqueued call, which counts in GPU memory.
  [[nodiscard]] WEFT_HOST_DEVICE static PairCall enqueued(uint32_t size, uint64_t number) {
    return {number, StreamCollective::epoch(number), StreamCollective::set_offset(size, number)};
  }
};

/// Parameter of `weft_collective_pairs(PairBlocks)`. Thread blocks first_block[j] to first_block[j + 1] - 1
/// handle the messages to and from rank j. The message to a rank is the packed stream of its blocks, each
/// from a multiple of 16 bytes on. Small messages are sent as LL packets, others by the Simple protocol in
/// chunks. Calls by the host exit on a timeout, as those of weft_collective_simple do. Enqueued calls have a
/// cancel word instead; their regions, call numbers and credits are those of StreamControl, and every rank
/// acknowledges every such call.
struct PairBlocks {
  static constexpr uint32_t kMost = 52;            ///< blocks: those of 26 neighbors
  static constexpr uint32_t kPairBlocks = 64;      ///< most thread blocks of a pair
  static constexpr uint32_t kAllBlocks = 128;      ///< most thread blocks of a launch
  static constexpr uint32_t kAlignment = 16;       ///< of a block in its message, bytes
  static constexpr uint64_t kLLBytes = 256 << 10;  ///< most bytes of an LL message
  static constexpr uint32_t kChunkUnit = 128;

  uint64_t regions[Collective::kRanks];  ///< of all ranks, as mapped on this GPU
  uint64_t timeout_ns;                   ///< as Collective::timeout_ns
  uint64_t status;                       ///< as Collective::status; enqueued: StreamBeat::address
  uint64_t resume_state;  ///< as in Collective; a block waits in a round, or for its LL packets
  uint32_t launch;        ///< as in Collective; enqueued: StreamBeat::id
  uint32_t epoch;         ///< as in Collective
  uint32_t chunk_stride;  ///< bytes between two chunks in a region
  uint8_t most_blocks;    ///< thread blocks of a pair, at most; equal on all ranks, like chunk_stride
  uint8_t rank, size;
  bool ll, simple;  ///< protocols of the messages to and from other ranks
  /// Blocks from[j] to from[j + 1] - 1 are the message to rank j; the same for `to`, the message from rank j.
  uint8_t from[Collective::kRanks + 1], to[Collective::kRanks + 1];
  uint8_t first_block[Collective::kRanks + 1];
  struct Form {
    uint8_t dimensions : 3, word : 5;
  };
  Form form[kMost];  ///< of the layout of a block
  struct Block {
    uint64_t address;
    int64_t stride[enqueue::Runs::kDimensions];
    Divisor run;
    Divisor count[enqueue::Runs::kDimensions - 1];
    uint32_t words;
  };
  uint16_t chunks[Collective::kRanks];  ///< of the pair with a rank: PairSplit::chunk_bytes / kChunkUnit
  Block blocks[kMost];

  [[nodiscard]] WEFT_HOST_DEVICE bool enqueued() const { return (timeout_ns & Collective::kCancelWord) != 0; }
  /// Of a launch; without messages one, which ends the call.
  [[nodiscard]] uint32_t thread_blocks() const { return first_block[size] != 0 ? first_block[size] : 1; }
  /// Sets block i, which has `bytes` bytes.
  void set(uint32_t i, uint64_t address, const enqueue::Runs& runs, uint64_t bytes) {
    blocks[i] = {address,
                 {runs.stride[0], runs.stride[1], runs.stride[2]},
                 runs.run,
                 {runs.count[0], runs.count[1]},
                 static_cast<uint32_t>(bytes / runs.word)};
    form[i].dimensions = static_cast<uint8_t>(runs.dimensions & 7u);
    form[i].word = static_cast<uint8_t>(runs.word & 31u);
  }
  [[nodiscard]] WEFT_HOST_DEVICE enqueue::Runs runs(uint32_t i) const {
    const Block& block = blocks[i];
    return {{block.stride[0], block.stride[1], block.stride[2]},
            block.run,
            {block.count[0], block.count[1]},
            form[i].dimensions,
            form[i].word};
  }
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t bytes(uint32_t i) const {
    return uint64_t{blocks[i].words} * form[i].word;
  }
  /// The byte of the message behind block i, which begins at `first`, where the next block begins.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t behind(uint64_t first, uint32_t i) const {
    return (first + bytes(i) + kAlignment - 1) / kAlignment * kAlignment;
  }
  /// Bytes of the message of blocks list[peer] to list[peer + 1] - 1.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t message_bytes(const uint8_t* list, uint32_t peer) const {
    uint64_t first = 0;
    for (uint32_t i = list[peer]; i + 1 < list[peer + 1]; ++i) first = behind(first, i);
    return list[peer] == list[peer + 1] ? 0 : first + bytes(list[peer + 1] - 1u);
  }
  [[nodiscard]] WEFT_HOST_DEVICE PairSplit split(uint32_t peer) const {
    return {static_cast<uint32_t>(first_block[peer + 1] - first_block[peer]), chunks[peer] * kChunkUnit};
  }
  /// The chunk of thread block `k` of a pair in a round: a range of a message of `bytes` bytes. Empty, for
  /// k = 0, behind the last round.
  [[nodiscard]] WEFT_HOST_DEVICE static Range chunk(const PairSplit& split, uint64_t bytes, uint32_t round,
                                                    uint32_t k) {
    return within((uint64_t{round} * split.blocks + k) * split.chunk_bytes, split.chunk_bytes, bytes);
  }
  /// Address in the region of rank `owner` of the chunk from rank `source`.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t slot(uint32_t owner, uint32_t source, uint32_t round,
                                               uint32_t k) const {
    const uint64_t index = ((round & 1) * uint64_t{most_blocks} + k) * (size - 1u);
    return regions[owner] + RegionLayout::kClearedBytes +
           (index + (source < owner ? source : source - 1)) * chunk_stride;
  }
  /// Address in the region of rank `owner` of the flag of that chunk.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t flag(uint32_t owner, uint32_t source, uint32_t round,
                                               uint32_t k) const {
    return RegionLayout::flag(regions[owner], 0, round & 1, k, source);
  }
  /// The value of a flag in a round; as mark().
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t mark(const PairCall& call, uint32_t round) {
    return call.number << 24 | round;
  }
  /// Address in the region of rank `owner` of the LL packets from rank `source`.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t packets(uint32_t owner, uint32_t source,
                                                  const PairCall& call) const {
    return RegionLayout::ll_packets(regions[owner] + call.packets, 0, source, size);
  }

  /// Enqueued: address of the StreamControl of a rank.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t control(uint32_t of) const {
    return regions[of] - StreamControl::kSpace;
  }
  /// Enqueued: the call that all ranks must have finished before call `number` may push.
  [[nodiscard]] WEFT_HOST_DEVICE uint64_t needed(const StreamControl& own, uint64_t number) const {
    const uint64_t of_ll = ll ? StreamCollective::needed(own, number, false) : 0;
    const uint64_t of_simple = simple ? StreamCollective::needed(own, number, true) : 0;
    return of_ll > of_simple ? of_ll : of_simple;
  }
};
static_assert(sizeof(PairBlocks) <= 4096 && PairBlocks::kAllBlocks < 256);

}  // namespace weft::device::kernel
