// SPDX-License-Identifier: BSD-3-Clause
// What host code, the kernels of collective.cu and the emulated driver agree on: the parameter of a
// collective kernel, the scratch area that every rank has, and how data are cut. Methods and hazards:
// docs/gpu.md.
//
// Data are cut into granules (kernel/element.hpp), whose 16 bytes are a multiple of every element's size.
// Every rank pushes into the others' areas and reads its own only. All ranks are in the call before one of
// them launches (coll/device), so everything of the call before is complete and an area is free. A kernel
// that waits longer than `patience` leaves; launched again it goes on: nothing is pushed twice, nothing is
// written that others still need.
#pragma once
#include <cstdint>

#include "device/kernel/element.hpp"

namespace weft::device::kernel {

/// 8 bytes of data, with a flag beside each half: stored and loaded as a whole, so no fence is needed. The
/// flag is the call's epoch. Areas of packets never hold anything else (docs: "False flags").
struct alignas(16) Packet {
  uint32_t low, low_flag, high, high_flag;
};

/// Seven granules with a flag behind them, the call's epoch: what eight threads of a warp store, or load, by
/// one instruction travels over NVLink as a whole, so no fence is needed either.
struct alignas(128) Line {
  static constexpr uint32_t kGranules = 7;
  Granule data[kGranules];
  uint32_t flag, unused[3];
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint64_t count(uint64_t granules) {
    return (granules + kGranules - 1) / kGranules;
  }
};
static_assert(sizeof(Line) == 128);

/// Parameter of `weft_collective_packets(Collective)`, `weft_collective_lines(Collective)` and
/// `weft_collective_blocks(Collective)`.
struct Collective {
  static constexpr uint32_t kRanks = 16;    ///< of a communicator, at most
  static constexpr uint32_t kBlocks = 256;  ///< of a launch, at most
  static constexpr uint32_t kThreads = 512;

  /// exchange: send[j] goes to rank j, recv[j] comes from it.
  /// reduce: the same, but what comes is combined in rank order into recv[j].address, the same for all j.
  /// two_shot: part d of send[0] goes to rank d, which combines those of `sources` and gives the result to
  /// `targets`, whose recv[0] it becomes a part of. One source: a copy, in parts for all but the source.
  enum Form : uint32_t { exchange, reduce, two_shot };

  struct Message {
    uint64_t address, bytes;
  };
  uint64_t areas[kRanks];  ///< of all ranks, as this GPU sees them
  Message send[kRanks], recv[kRanks];
  uint64_t places;    ///< Places, device memory
  uint64_t status;    ///< a word in pinned memory: see outcome()
  uint64_t patience;  ///< ns that a wait may take
  uint32_t rank, size;
  uint32_t epoch;       ///< of this call: grows, never 0
  uint32_t epoch_high;  ///< of calls in streams: what a flag of 64 bits has above it
  uint32_t launch;      ///< 0, then 1, 2, ... after leaving early
  Form form;
  Reduction reduction;
  uint32_t sources, targets;  ///< bits by rank
  uint32_t piece;             ///< blocks: bytes of a piece, a multiple of 16
  uint32_t rounds;            ///< blocks: the same on all ranks, as are `piece` and `blocks`
  uint32_t blocks;            ///< of the launch

  /// In device memory, for one call at a time.
  struct Places {
    uint32_t ticket;           ///< blocks that have ended, and, above, how many of them were late
    uint64_t blocks[kBlocks];  ///< where a block goes on: 2 * round + stage, after launch 0
  };
  static constexpr uint64_t kEnded = UINT64_MAX;  ///< a place: this block is done

  /// The status word at a launch's end.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t outcome(uint32_t epoch, uint32_t launch, bool late) {
    return static_cast<uint64_t>(epoch) << 32 | (launch & 0x7fffffffu) << 1 | (late ? 1u : 0u);
  }
};
static_assert(sizeof(Collective) <= 1024);

/// A regular collective of contiguous blocks, or of one vector, in few words: what a copier is told of a
/// small one, the rest of which it knows from the home of the port.
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
    allreduce_parts,  ///< these by two_shot
    reduce_parts,
    bcast_parts
  };
  Shape shape;
  uint32_t root;
  uint64_t in, out;  ///< the first blocks; in place: the same
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
  /// Of rank `rank`, to and from rank j.
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
  /// Those of c.rank.
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

/// A small collective as a copier's command: `dst` and `src` are Regular::out and in, `bytes` its bytes and
/// its wire, the rest is in the word `items` and in the port's home, a Collective in pinned memory whose
/// areas, rank, size, patience and status hold for all calls of a port. It ends as a launch 0 would.
struct CallWord {
  static constexpr uint32_t kCall = 1u << 31;
  /// The word `bytes`: how many, and whether they go by lines, else by packets.
  struct Bytes {
    static constexpr uint32_t kLines = 1u << 31;
    uint32_t word;
    [[nodiscard]] WEFT_HOST_DEVICE uint32_t count() const { return word & ~kLines; }
    [[nodiscard]] WEFT_HOST_DEVICE bool lines() const { return (word & kLines) != 0; }
  };
  uint32_t port, version;  ///< a port's version differs between its owners
  Regular::Shape shape;
  uint32_t root;
  Reduction reduction;

  [[nodiscard]] WEFT_HOST_DEVICE uint32_t packed() const {
    return kCall | (version & 0xff) << 23 | root << 19 | shape << 15 |
           static_cast<uint32_t>(reduction.element) << 10 | static_cast<uint32_t>(reduction.op) << 6 | port;
  }
  [[nodiscard]] WEFT_HOST_DEVICE static CallWord unpacked(uint32_t word) {
    CallWord call{};
    call.port = word & 0x3f;
    call.reduction.op = static_cast<ReduceOp>(word >> 6 & 0xf);
    call.reduction.element = static_cast<Element>(word >> 10 & 0x1f);
    call.shape = static_cast<Regular::Shape>(word >> 15 & 0xf);
    call.root = word >> 19 & 0xf;
    call.version = word >> 23 & 0xff;
    return call;
  }
};

/// A rank's scratch: packets of the first step, packets of the second, flags of blocks, lines of the first
/// step, lines of the second, data of blocks.
struct Area {
  static constexpr uint64_t kFlags = uint64_t{128} << 10;
  static constexpr uint64_t kPackets = ((uint64_t{9} << 19) - kFlags) / 2;  ///< bytes, of one step
  static constexpr uint64_t kLines = uint64_t{5} << 18;                     ///< the same
  static constexpr uint64_t kCleared = 2 * kPackets + kFlags + 2 * kLines;  ///< zero before first use
  /// Bytes of data that a rank's packets may carry in one step.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint32_t packet_room(uint32_t size) {
    return static_cast<uint32_t>(kPackets / 2) / size / 64 * 64;
  }
  /// From one rank's packets in a step to the next one's.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint32_t stride(uint32_t size) {
    return 2 * packet_room(size);
  }
  /// Packets of rank `source` in a step, two a granule.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t packets(uint64_t area, uint32_t step, uint32_t source,
                                                         uint32_t size) {
    return area + step * kPackets + uint64_t{source} * stride(size);
  }
  /// Bytes of data that a rank's lines may carry in one step.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint32_t line_room(uint32_t size) {
    return static_cast<uint32_t>(kLines / sizeof(Line)) / size * Line::kGranules * sizeof(Granule);
  }
  /// From one rank's lines in a step to the next one's.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint32_t line_stride(uint32_t size) {
    return static_cast<uint32_t>(kLines / sizeof(Line)) / size * sizeof(Line);
  }
  /// Lines of rank `source` in a step.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t lines(uint64_t area, uint32_t step, uint32_t source,
                                                       uint32_t size) {
    return area + 2 * kPackets + kFlags + step * kLines + uint64_t{source} * line_stride(size);
  }
  /// The word by which block `block` of rank `source` says how far it is in step 0 or 1.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t flag(uint64_t area, uint32_t step, uint32_t set,
                                                      uint32_t block, uint32_t source) {
    return area + 2 * kPackets +
           (((step * 2 + set) * Collective::kBlocks + block) * Collective::kRanks + source) * 8;
  }
  /// Steps of a form in which pieces are pushed.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint32_t steps(Collective::Form form) {
    return form == Collective::two_shot ? 2 : 1;
  }
  /// Bytes that the data of blocks need: two sets of each step, where every other rank has a piece for every
  /// block.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint64_t data(Collective::Form form, uint64_t piece,
                                                                uint32_t blocks, uint32_t size) {
    return 2 * steps(form) * piece * blocks * (size - 1);
  }
  /// In the area of rank `owner`, the piece that comes from another rank.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t piece(const Collective& c, uint32_t owner, uint32_t step,
                                                       uint32_t set, uint32_t block, uint32_t source) {
    const uint64_t row = ((step * 2ull + set) * c.blocks + block) * (c.size - 1);
    return c.areas[owner] + kCleared + (row + (source < owner ? source : source - 1)) * c.piece;
  }
};
static_assert(4 * Collective::kBlocks * Collective::kRanks * 8 <= Area::kFlags);

/// Some granules of a message, or a piece of it in bytes.
struct Range {
  uint64_t first, count;
};

[[nodiscard]] WEFT_HOST_DEVICE inline uint64_t granules(uint64_t bytes) { return (bytes + 15) / 16; }
/// Share i of n of so many granules.
[[nodiscard]] WEFT_HOST_DEVICE inline Range share(uint64_t total, uint32_t i, uint32_t n) {
  if (n == 1) return {0, total};
  if (total >> 23 == 0) {  // 64-bit divisions take long on a GPU; n is at most Collective::kBlocks
    const auto few = static_cast<uint32_t>(total);
    const uint32_t first = few * i / n;
    return {first, few * (i + 1) / n - first};
  }
  const uint64_t first = total * i / n;
  return {first, total * (i + 1) / n - first};
}
/// two_shot: how many parts there are, and which is that of rank d; as many: none is.
struct Parts {
  uint32_t count;
  bool alone;  ///< there is one source
  WEFT_HOST_DEVICE explicit Parts(const Collective& c)
      : alone(c.sources != 0 && (c.sources & (c.sources - 1)) == 0), sources_(c.sources) {
    count = alone ? c.size - 1 : c.size;
  }
  [[nodiscard]] WEFT_HOST_DEVICE uint32_t of(uint32_t d) const {
    if (!alone) return d;
    return sources_ == 1u << d ? count : sources_ >> d == 0 ? d - 1 : d;
  }

 private:
  uint32_t sources_;
};
/// By packets: the granules of part d.
[[nodiscard]] WEFT_HOST_DEVICE inline Range part(const Collective& c, uint32_t d) {
  const Parts parts(c);
  const uint32_t index = parts.of(d);
  return index == parts.count ? Range{0, 0} : share(granules(c.send[0].bytes), index, parts.count);
}
[[nodiscard]] WEFT_HOST_DEVICE inline Range within(uint64_t first, uint64_t count, uint64_t total) {
  const uint64_t rest = first < total ? total - first : 0;
  return {first, rest < count ? rest : count};
}
/// Share i of n of so many granules, by whole lines.
[[nodiscard]] WEFT_HOST_DEVICE inline Range share_by_lines(uint64_t total, uint32_t i, uint32_t n) {
  const Range lines = share(Line::count(total), i, n);
  return within(lines.first * Line::kGranules, lines.count * Line::kGranules, total);
}
/// Blocks: the bytes that a block moves of a message in a round, or of part d of the vector.
[[nodiscard]] WEFT_HOST_DEVICE inline Range piece(const Collective& c, uint64_t bytes, uint32_t round,
                                                  uint32_t block, uint32_t blocks) {
  return within((static_cast<uint64_t>(round) * blocks + block) * c.piece, c.piece, bytes);
}
[[nodiscard]] WEFT_HOST_DEVICE inline Range piece_of_part(const Collective& c, uint32_t d, uint32_t round,
                                                          uint32_t block, uint32_t blocks) {
  const Parts parts(c);
  const uint32_t index = parts.of(d);
  if (index == parts.count) return {0, 0};
  const uint64_t at = (static_cast<uint64_t>(round) * blocks + block) * parts.count + index;
  return within(at * c.piece, c.piece, c.send[0].bytes);
}

[[nodiscard]] WEFT_HOST_DEVICE inline bool member(uint32_t ranks, uint32_t rank) {
  return (ranks >> rank & 1) != 0;
}
/// What a flag word holds in a round; grows from call to call.
[[nodiscard]] WEFT_HOST_DEVICE inline uint64_t mark(const Collective& c, uint32_t round) {
  return (static_cast<uint64_t>(c.epoch_high) << 32 | c.epoch) << 24 | round;
}

/// Behind a rank's area where calls are enqueued in streams: nobody but kernels knows which call is how far,
/// since a graph runs again and again.
struct StreamControl {
  uint64_t calls;                                     ///< that are over
  uint64_t floor;                                     ///< all ranks have finished this call and those before
  uint64_t last_use[2];                               ///< calls that have used a set of packets last
  uint64_t last_pieces;                               ///< the last one by pieces
  uint32_t ticket;                                    ///< blocks of the running call that have ended
  alignas(64) uint64_t finished[Collective::kRanks];  ///< by the others: their last call, where it matters
};

/// Parameter of `weft_collective_stream_packets(StreamCollective)` and `..._stream_blocks`: a call whose
/// epoch, set and credits come from the area. The kernel waits as long as it takes.
struct StreamCollective {
  Collective call;
  uint64_t control[Collective::kRanks];  ///< StreamControl of all ranks
  uint32_t dependent;  ///< no rank ends this call before all have begun it: nobody has to be told

  /// Bytes that a rank's packets may carry: a half of the room, the other half is the other set.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint64_t packet_room(uint32_t size) {
    return Area::packet_room(size) / 2 / 16 * 16;
  }
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint64_t set_offset(uint32_t size, uint64_t number) {
    return number % 2 * Area::packet_room(size);
  }
  /// The flag of call `number`, which counts from 1; never 0.
  [[nodiscard]] WEFT_HOST_DEVICE static constexpr uint32_t epoch(uint64_t number) {
    return static_cast<uint32_t>(number % 0xffffffffu) + 1;
  }
  /// The call that all must have finished before `number` may push.
  [[nodiscard]] WEFT_HOST_DEVICE static uint64_t needed(const StreamControl& control, uint64_t number,
                                                        bool pieces) {
    return pieces ? control.last_pieces : control.last_use[number % 2];
  }
};

}  // namespace weft::device::kernel
