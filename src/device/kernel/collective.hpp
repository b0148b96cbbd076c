// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, the kernels of collective.cu and the emulated driver: kernel parameters, layout
// of a rank's region, split of data. Methods and hazards: docs/gpu.md.
//
// Every rank pushes into the regions of the other ranks and reads only its own region. All ranks have entered
// the call before any rank launches, so the previous call is complete and the regions are free. A kernel that
// waits longer than `timeout_ns` exits and is relaunched: no data is pushed twice, and nothing is overwritten
// that another rank still needs.
#pragma once
#include <cstdint>

#include "device/kernel/element.hpp"

namespace weft::device::kernel {

/// NCCL's LL protocol: 8 bytes of data with a flag beside each half. The 16 bytes are stored and loaded at
/// once, so no fence is needed. The flag is the epoch of the call. The LL part of a region never holds
/// anything else (docs: "False flags").
struct alignas(16) LLPacket {
  uint32_t low, low_flag, high, high_flag;
};

/// NCCL's LL128 protocol: seven 16-byte vectors and a flag, the epoch of the call. Eight threads of a warp
/// store or load the 128 bytes with one instruction; NVLink keeps them together, so no fence is needed.
struct alignas(128) LL128Line {
  static constexpr uint32_t kVectors = 7;
  Vec16 data[kVectors];
  uint32_t flag, unused[3];
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint64_t count(uint64_t vectors) {
    return (vectors + kVectors - 1) / kVectors;
  }
};
static_assert(sizeof(LL128Line) == 128);

/// Parameter of `weft_collective_ll(Collective)`, `weft_collective_ll128(Collective)` and
/// `weft_collective_simple(Collective)`.
struct Collective {
  static constexpr uint32_t kRanks = 16;    ///< largest communicator
  static constexpr uint32_t kBlocks = 256;  ///< most blocks of a launch
  static constexpr uint32_t kThreads = 512;

  /// In `timeout_ns`: waits end only when the word at the address in the lower bits, in pinned memory, is not
  /// 0.
  static constexpr uint64_t kCancelWord = uint64_t{1} << 63;

  /// exchange: send[j] goes to rank j, recv[j] comes from rank j.
  /// reduce: like exchange, but the received messages are combined in rank order into recv[j].address, which
  /// is the same for all j.
  /// two_shot: part d of send[0] goes to rank d. Rank d combines the parts of all `sources` and sends the
  /// result to all `targets`, where it becomes a part of recv[0]. With one source: a broadcast, in parts for
  /// all ranks but the source.
  enum Form : uint32_t { exchange, reduce, two_shot };

  struct Message {
    uint64_t address, bytes;
  };
  uint64_t regions[kRanks];  ///< of all ranks, as mapped on this GPU
  Message send[kRanks], recv[kRanks];
  uint64_t resume_state;  ///< address of a ResumeState in device memory
  uint64_t status;        ///< address of a word in pinned memory: see outcome()
  uint64_t timeout_ns;    ///< longest wait for a peer, in ns; or kCancelWord and an address
  uint32_t rank, size;
  uint32_t epoch;       ///< of this call: increases, never 0
  uint32_t epoch_high;  ///< enqueued calls: bits 32-63 of the 64-bit flags
  uint32_t launch;      ///< 0, then 1, 2, ... after each timeout
  Form form;
  Reduction reduction;
  uint32_t sources, targets;  ///< bit masks of ranks
  uint32_t chunk_bytes;       ///< Simple: bytes of a chunk, a multiple of 16
  uint32_t rounds;            ///< Simple: the same on all ranks, like `chunk_bytes` and `blocks`
  uint32_t blocks;            ///< of the launch

  /// Resume positions of the blocks after a timed-out launch; in device memory, for one call at a time.
  struct ResumeState {
    uint32_t ticket;           ///< finished blocks; the high half counts the timed-out ones
    uint64_t blocks[kBlocks];  ///< 2 * round + stage, valid after launch 0
  };
  static constexpr uint64_t kEnded = UINT64_MAX;  ///< the block has finished

  /// The status word at the end of a launch.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t outcome(uint32_t epoch, uint32_t launch, bool late) {
    return static_cast<uint64_t>(epoch) << 32 | (launch & 0x7fffffffu) << 1 | (late ? 1u : 0u);
  }
};
static_assert(sizeof(Collective) <= 1024);

/// A regular collective (blocks of one size, or one vector) as sent to a resident kernel; the other
/// parameters are those of the collective slot.
struct Regular {
  enum Shape : uint32_t {
    allreduce,
    reduce,
    reduce_scatter,
    scan,
    exscan,
    bcast,
    allgather,
    alltoall,
    gather,
    scatter,
    allreduce_parts,  ///< the _parts shapes use two_shot
    reduce_parts,
    bcast_parts
  };
  Shape shape;
  uint32_t root;
  uint64_t in, out;  ///< address of the first block; equal for in-place calls
  uint64_t bytes;    ///< of a block, or of the vector
  Reduction reduction;

  struct Messages {
    Collective::Message send, recv;
  };
  [[nodiscard]] WEFT_HOST_DEVICE Collective::Form form() const {
    return shape >= allreduce_parts ? Collective::two_shot
           : shape < bcast          ? Collective::reduce
                                    : Collective::exchange;
  }
  /// Messages of rank `rank` to and from rank j.
  [[nodiscard]] WEFT_HOST_DEVICE Messages messages(uint32_t rank, uint32_t j) const {
    const bool rooted = rank == root, to_root = j == root;
    const Collective::Message none{0, 0}, whole_in{in, bytes}, whole_out{out, bytes};
    const Collective::Message block_in{in + j * bytes, bytes}, block_out{out + j * bytes, bytes};
    switch (shape) {
      case allreduce:
        return {whole_in, whole_out};
      case reduce:
        return {to_root ? whole_in : none, rooted ? whole_out : none};
      case reduce_scatter:
        return {block_in, whole_out};
      case scan:
        return {j >= rank ? whole_in : none, j <= rank ? whole_out : none};
      case exscan:
        return {j > rank ? whole_in : none, j < rank ? whole_out : none};
      case bcast:
        return {rooted && !to_root ? whole_in : none, to_root && !rooted ? whole_out : none};
      case allgather:
        return {whole_in, block_out};
      case alltoall:
        return {block_in, block_out};
      case gather:
        return {to_root ? whole_in : none, rooted ? block_out : none};
      case scatter:
        return {rooted ? block_in : none, to_root ? whole_out : none};
      default:
        return j == 0 ? Messages{whole_in, whole_out} : Messages{none, none};
    }
  }
  /// Fills in the form and the messages between c.rank and rank j.
  WEFT_HOST_DEVICE void messages(Collective& c, uint32_t j) const {
    const Messages both = messages(c.rank, j);
    c.form = form();
    c.send[j] = both.send;
    c.recv[j] = both.recv;
    if (j != 0 || c.form != Collective::two_shot) return;
    const uint32_t everyone = (1u << c.size) - 1;
    c.sources = shape == bcast_parts ? 1u << root : everyone;
    c.targets = shape == reduce_parts  ? 1u << root
                : shape == bcast_parts ? everyone & ~(1u << root)
                                       : everyone;
  }
};

/// A small collective as a command of the resident kernel: `dst` and `src` are Regular::out and Regular::in,
/// `bytes` is CallWord::Bytes, `items` holds this packed word. The configuration of the slot is a Collective
/// in pinned memory with the regions, rank, size, timeout and status word of all its calls. The command ends
/// with the status word of launch 0.
struct CallWord {
  static constexpr uint32_t kCall = 1u << 31;
  /// The word `bytes` holds the message size and the protocol, LL128 or LL.
  struct Bytes {
    static constexpr uint32_t kLL128 = 1u << 31;
    uint32_t word;
    [[nodiscard]] WEFT_HOST_DEVICE uint32_t count() const { return word & ~kLL128; }
    [[nodiscard]] WEFT_HOST_DEVICE bool ll128() const { return (word & kLL128) != 0; }
  };
  uint32_t slot, version;  ///< the version changes with the owner of the slot
  Regular::Shape shape;
  uint32_t root;
  Reduction reduction;

  [[nodiscard]] WEFT_HOST_DEVICE uint32_t packed() const {
    return kCall | (version & 0xff) << 23 | root << 19 | shape << 15 |
           static_cast<uint32_t>(reduction.element) << 10 | static_cast<uint32_t>(reduction.op) << 6 | slot;
  }
  [[nodiscard]] WEFT_HOST_DEVICE static CallWord unpacked(uint32_t word) {
    CallWord call{};
    call.slot = word & 0x3f;
    call.reduction.op = static_cast<ReduceOp>(word >> 6 & 0xf);
    call.reduction.element = static_cast<Element>(word >> 10 & 0x1f);
    call.shape = static_cast<Regular::Shape>(word >> 15 & 0xf);
    call.root = word >> 19 & 0xf;
    call.version = word >> 23 & 0xff;
    return call;
  }
};

/// Layout of a rank's region: LL packets of step 0 and 1, flags of the Simple protocol, LL128 lines of step 0
/// and 1, data of the Simple protocol.
struct RegionLayout {
  static constexpr uint64_t kFlagBytes = uint64_t{128} << 10;
  static constexpr uint64_t kLLBytes = ((uint64_t{9} << 19) - kFlagBytes) / 2;  ///< of one step
  static constexpr uint64_t kLL128Bytes = uint64_t{5} << 18;                    ///< of one step
  static constexpr uint64_t kClearedBytes =
      2 * kLLBytes + kFlagBytes + 2 * kLL128Bytes;  ///< zeroed before first use
  /// Most data bytes per source rank and step with LL.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint32_t ll_capacity(uint32_t size) {
    return static_cast<uint32_t>(kLLBytes / 2) / size / 64 * 64;
  }
  /// Bytes between the LL packets of two source ranks.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint32_t ll_stride(uint32_t size) {
    return 2 * ll_capacity(size);
  }
  /// Address of the LL packets of rank `source`, two per 16-byte vector.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t ll_packets(uint64_t region, uint32_t step, uint32_t source,
                                                            uint32_t size) {
    return region + step * kLLBytes + uint64_t{source} * ll_stride(size);
  }
  /// Most data bytes per source rank and step with LL128.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint32_t ll128_capacity(uint32_t size) {
    return static_cast<uint32_t>(kLL128Bytes / sizeof(LL128Line)) / size * LL128Line::kVectors *
           sizeof(Vec16);
  }
  /// Bytes between the LL128 lines of two source ranks.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint32_t ll128_stride(uint32_t size) {
    return static_cast<uint32_t>(kLL128Bytes / sizeof(LL128Line)) / size * sizeof(LL128Line);
  }
  /// Address of the LL128 lines of rank `source`.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t ll128_lines(uint64_t region, uint32_t step, uint32_t source,
                                                             uint32_t size) {
    return region + 2 * kLLBytes + kFlagBytes + step * kLL128Bytes + uint64_t{source} * ll128_stride(size);
  }
  /// Address of the progress flag of block `block` of rank `source` in a step.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t flag(uint64_t region, uint32_t step, uint32_t set,
                                                      uint32_t block, uint32_t source) {
    return region + 2 * kLLBytes +
           (((step * 2 + set) * Collective::kBlocks + block) * Collective::kRanks + source) * 8;
  }
  /// Steps of a form in which chunks are pushed.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint32_t steps(Collective::Form form) {
    return form == Collective::two_shot ? 2 : 1;
  }
  /// Bytes of the Simple data: two sets per step, with one chunk per block and peer.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint64_t simple_bytes(Collective::Form form,
                                                                        uint64_t chunk_bytes, uint32_t blocks,
                                                                        uint32_t size) {
    return 2 * steps(form) * chunk_bytes * blocks * (size - 1);
  }
  /// Address in the region of rank `owner` of the chunk from rank `source`.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t simple_slot(const Collective& c, uint32_t owner,
                                                             uint32_t step, uint32_t set, uint32_t block,
                                                             uint32_t source) {
    const uint64_t slot = ((step * 2ull + set) * c.blocks + block) * (c.size - 1);
    return c.regions[owner] + kClearedBytes + (slot + (source < owner ? source : source - 1)) * c.chunk_bytes;
  }
};
static_assert(4 * Collective::kBlocks * Collective::kRanks * 8 <= RegionLayout::kFlagBytes);

/// A range of 16-byte vectors of a message, or of bytes of a chunk.
struct Range {
  uint64_t first, count;
};

[[nodiscard]] WEFT_HOST_DEVICE inline uint64_t vec16_count(uint64_t bytes) { return (bytes + 15) / 16; }
/// Share i of n of `total` vectors.
[[nodiscard]] WEFT_HOST_DEVICE inline Range share(uint64_t total, uint32_t i, uint32_t n) {
  if (n == 1) return {0, total};
  if (total >> 23 == 0) {  // 64-bit divisions are slow on a GPU; n is at most Collective::kBlocks
    const auto total32 = static_cast<uint32_t>(total);
    const uint32_t first = total32 * i / n;
    return {first, total32 * (i + 1) / n - first};
  }
  const uint64_t first = total * i / n;
  return {first, total * (i + 1) / n - first};
}
/// two_shot: the number of parts, and the part index of rank d (`count`: rank d has no part).
struct Parts {
  uint32_t count;
  bool single_source;  ///< single source
  WEFT_HOST_DEVICE explicit Parts(const Collective& c)
      : single_source(c.sources != 0 && (c.sources & (c.sources - 1)) == 0), sources_(c.sources) {
    count = single_source ? c.size - 1 : c.size;
  }
  [[nodiscard]] WEFT_HOST_DEVICE uint32_t of(uint32_t d) const {
    if (!single_source) return d;
    return sources_ == 1u << d ? count : sources_ >> d == 0 ? d - 1 : d;
  }

 private:
  uint32_t sources_;
};
/// LL and LL128: the vectors of part d.
[[nodiscard]] WEFT_HOST_DEVICE inline Range part(const Collective& c, uint32_t d) {
  const Parts parts(c);
  const uint32_t index = parts.of(d);
  return index == parts.count ? Range{0, 0} : share(vec16_count(c.send[0].bytes), index, parts.count);
}
[[nodiscard]] WEFT_HOST_DEVICE inline Range within(uint64_t first, uint64_t count, uint64_t total) {
  const uint64_t rest = first < total ? total - first : 0;
  return {first, rest < count ? rest : count};
}
/// Share i of n of `total` vectors, in whole LL128 lines.
[[nodiscard]] WEFT_HOST_DEVICE inline Range share_by_ll128_lines(uint64_t total, uint32_t i, uint32_t n) {
  const Range lines = share(LL128Line::count(total), i, n);
  return within(lines.first * LL128Line::kVectors, lines.count * LL128Line::kVectors, total);
}
/// Simple: the bytes of a message, or of part d of the vector, that a block moves in a round.
[[nodiscard]] WEFT_HOST_DEVICE inline Range chunk_range(const Collective& c, uint64_t bytes, uint32_t round,
                                                        uint32_t block, uint32_t blocks) {
  return within((static_cast<uint64_t>(round) * blocks + block) * c.chunk_bytes, c.chunk_bytes, bytes);
}
[[nodiscard]] WEFT_HOST_DEVICE inline Range part_chunk_range(const Collective& c, uint32_t d, uint32_t round,
                                                             uint32_t block, uint32_t blocks) {
  const Parts parts(c);
  const uint32_t index = parts.of(d);
  if (index == parts.count) return {0, 0};
  const uint64_t at = (static_cast<uint64_t>(round) * blocks + block) * parts.count + index;
  return within(at * c.chunk_bytes, c.chunk_bytes, c.send[0].bytes);
}

[[nodiscard]] WEFT_HOST_DEVICE inline bool member(uint32_t ranks, uint32_t rank) {
  return (ranks >> rank & 1) != 0;
}
/// Value of a flag word in a round; increases from call to call.
[[nodiscard]] WEFT_HOST_DEVICE inline uint64_t mark(const Collective& c, uint32_t round) {
  return (static_cast<uint64_t>(c.epoch_high) << 32 | c.epoch) << 24 | round;
}

/// Counters of enqueued calls, in front of the region of a rank. Kernels alone know the call number, since a
/// graph may be launched many times.
struct StreamControl {
  static constexpr uint64_t kSpace = 4096;  ///< from these counters to the region
  uint64_t calls;                           ///< completed
  uint64_t floor;                           ///< all ranks have finished this call and all earlier ones
  uint64_t last_use[2];                     ///< last call that used each set of LL packets
  uint64_t last_simple;                     ///< last call with the Simple protocol
  uint32_t ticket;                          ///< finished blocks of the running call
  alignas(64)
      uint64_t finished[Collective::kRanks];  ///< by the peers: their last call that needs an acknowledgement
};

/// Parameter of `weft_collective_stream_ll(StreamCollective)` and `weft_collective_stream_simple`: a call
/// whose epoch, LL set and credits come from StreamControl. The kernel waits without timeout, until
/// cancelled.
struct StreamCollective {
  Collective call;
  uint64_t cancel;                       ///< address of the word that ends all waits, in pinned memory
  uint64_t control[Collective::kRanks];  ///< address of the StreamControl of each rank
  uint32_t
      synchronizing;  ///< no rank ends this call before all have begun it: acknowledgements are unnecessary

  /// Most data bytes per source rank: half of the LL capacity, since two sets alternate.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint64_t ll_capacity(uint32_t size) {
    return RegionLayout::ll_capacity(size) / 2 / 16 * 16;
  }
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint64_t set_offset(uint32_t size, uint64_t number) {
    return number % 2 * RegionLayout::ll_capacity(size);
  }
  /// The flag of call `number`, which counts from 1; never 0.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint32_t epoch(uint64_t number) {
    return static_cast<uint32_t>(number % 0xffffffffu) + 1;
  }
  /// The call that all ranks must have finished before call `number` may push.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t needed(const StreamControl& control, uint64_t number,
                                                        bool chunks) {
    return chunks ? control.last_simple : control.last_use[number % 2];
  }
};

}  // namespace weft::device::kernel
