// SPDX-License-Identifier: BSD-3-Clause
// Collective kernels: by packets (small data), by lines (more), and by blocks that push pieces and raise
// flags behind them.
#include <cstddef>

#include "device/kernel/collective_device.cuh"
#include "device/kernel/direct_device.cuh"

namespace weft::device::kernel {
namespace {

/// Whose memory has what was written.
enum class Fence : uint8_t { own, all };
template <Fence whose>
__device__ __forceinline__ void fence() {
  if (whose == Fence::own)
    __threadfence();
  else
    __threadfence_system();
}

/// Counts the blocks of a launch that have ended; thread 0 of the last one hears true, and whether any is
/// late.
template <Fence whose>
__device__ bool last_block(const Collective& c, bool& late) {
  if (threadIdx.x != 0) return false;
  auto& places = *reinterpret_cast<Collective::Places*>(c.places);
  if (gridDim.x > 1) {
    constexpr uint32_t kLate = 1u << 16;  // blocks that are late are counted above the others
    fence<whose>();
    const uint32_t before = atomicAdd(&places.ticket, late ? kLate + 1 : 1u);
    if (before % kLate != gridDim.x - 1) return false;
    late = late || before / kLate != 0;
    *static_cast<volatile uint32_t*>(&places.ticket) = 0;
  }
  fence<whose>();
  return true;
}

__device__ void tell_host(const Collective& c, bool late) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(c.status),
               "l"(Collective::outcome(c.epoch, c.launch, late))
               : "memory");
}

/// The end of a block's launch; the last block tells the host. The output lies in this GPU's memory, so the
/// fence is for this GPU: what went to other ranks says itself that it has come, and waiting for that takes
/// most of a microsecond.
__device__ void end(const Collective& c, bool late) {
  late = __syncthreads_or(late);
  if (last_block<Fence::own>(c, late)) tell_host(c, late);
}

/// The same, when all ranks have done their part.
__device__ void end_together(const Collective& c, bool late) {
  late = __syncthreads_or(late);
  const bool last = __syncthreads_or(last_block<Fence::all>(c, late));
  late = __syncthreads_or(last && late && threadIdx.x == 0);
  if (!last) return;
  if (!late) late = !met(c);
  if (threadIdx.x == 0) tell_host(c, late);
}

/// One block of a call by blocks.
class Block {
 public:
  __device__ explicit Block(const Collective& collective) : c_(collective) {}
  /// Where it stopped; kEnded: nowhere. The pieces of the next round go out before the second step of a round
  /// is awaited: who has raised its flag of this round has read what it got in the one before.
  __device__ uint64_t run(uint64_t place, bool resumed) {
    uint32_t stage = place & 1;
    if (!resumed && c_.rounds != 0) send(0);
    for (uint32_t round = place / 2; round < c_.rounds; ++round, stage = 0) {
      if (stage == 0) {
        if (!wait(0, round)) return 2ull * round;
        receive(round);
        if (round + 1 < c_.rounds) send(round + 1);
      }
      if (c_.form != Collective::two_shot) continue;
      if (!wait(1, round)) return 2ull * round + 1;
      collect(round);
    }
    return Collective::kEnded;
  }

 private:
  __device__ uint32_t set(uint32_t round) const { return round & 1; }
  __device__ uint64_t slot(uint32_t at, uint32_t step, uint32_t round, uint32_t source) const {
    return Area::piece(c_, at, step, set(round), blockIdx.x, source);
  }
  __device__ uint32_t after(uint32_t d) const { return kernel::after(c_, d); }

  /// All that this block has stored is there when its flag is.
  __device__ void signal(uint32_t step, uint32_t round) {
    __syncthreads();
    const uint32_t to = threadIdx.x;
    if (to < c_.size && to != c_.rank)
      raise(Area::flag(c_.areas[to], step, set(round), blockIdx.x, c_.rank), mark(c_, round));
  }
  __device__ bool wait(uint32_t step, uint32_t round) {
    const uint32_t from = threadIdx.x;
    bool late = false;
    if (from < c_.size && from != c_.rank) {
      Waiter waiter(c_.patience);
      const uint64_t flag = Area::flag(c_.areas[c_.rank], step, set(round), blockIdx.x, from);
      while (!late && look(flag) < mark(c_, round)) late = waiter.over();
    }
    return !__syncthreads_or(late);
  }

  __device__ Range range(uint64_t bytes, uint32_t round) const {
    return piece(c_, bytes, round, blockIdx.x, gridDim.x);
  }
  __device__ Range range_of_part(uint32_t d, uint32_t round) const {
    return piece_of_part(c_, d, round, blockIdx.x, gridDim.x);
  }

  /// The pieces that go to others, or come from them, some at a time: `piece(rank)`.
  template <class Of>
  __device__ __forceinline__ void move_all(Of&& piece) {
    constexpr uint32_t kTogether = 3;
    for (uint32_t d = 1; d < c_.size; d += kTogether) {
      Piece pieces[kTogether];
#pragma unroll
      for (uint32_t i = 0; i < kTogether; ++i)
        pieces[i] = d + i < c_.size ? piece(after(d + i)) : Piece{0, 0, 0};
      if (move(pieces)) continue;
#pragma unroll 1
      for (uint32_t i = d; i < c_.size && i < d + kTogether; ++i) {
        const Piece odd = piece(after(i));
        move(odd.dst, odd.src, odd.bytes);
      }
    }
  }

  __device__ void send(uint32_t round) {
    if (c_.form != Collective::two_shot) {
      move_all([&](uint32_t to) {
        const Range r = range(c_.send[to].bytes, round);
        return Piece{slot(to, 0, round, c_.rank), c_.send[to].address + r.first, r.count};
      });
    } else if (member(c_.sources, c_.rank)) {
      move_all([&](uint32_t to) {
        const Range r = range_of_part(to, round);
        return Piece{slot(to, 0, round, c_.rank), c_.send[0].address + r.first, r.count};
      });
    }
    signal(0, round);
    if (c_.form != Collective::exchange) return;
    const Range own = range(c_.send[c_.rank].bytes, round);
    move(c_.recv[c_.rank].address + own.first, c_.send[c_.rank].address + own.first, own.count);
  }

  __device__ void receive(uint32_t round) {
    if (c_.form == Collective::exchange) {
      move_all([&](uint32_t from) {
        const Range r = range(c_.recv[from].bytes, round);
        return Piece{c_.recv[from].address + r.first, slot(c_.rank, 0, round, from), r.count};
      });
      return;
    }
    if (c_.form == Collective::reduce) {
      uint32_t sources = 0;
      Collective::Message out{};
      for (uint32_t j = 0; j < c_.size; ++j)
        if (c_.recv[j].bytes != 0) sources |= 1u << j, out = c_.recv[j];
      const Range r = range(out.bytes, round);
      reduce(sources, 0, out.address + r.first, c_.send[c_.rank].address + r.first, r.count, round);
      return;
    }
    const Range r = range_of_part(c_.rank, round);
    reduce(c_.sources, c_.targets, c_.recv[0].address + r.first, c_.send[0].address + r.first, r.count,
           round);
    signal(1, round);
  }

  /// Pieces of some ranks, this one's from its input, combined in rank order: into `out`, and for others.
  __device__ void reduce(uint32_t sources, uint32_t targets, uint64_t out, uint64_t own, uint64_t bytes,
                         uint32_t round) {
    constexpr uint32_t kBatch = 4, kAhead = 2;  // terms, and granules, that are loaded together
    const bool keeps = targets == 0 || member(targets, c_.rank);
    const uint64_t all = granules(bytes), step = blockDim.x;
    for (uint64_t first = threadIdx.x; first < all; first += kAhead * step) {
      Sum terms[kAhead] = {Sum(c_.reduction), Sum(c_.reduction)};
      for (uint32_t from = 0; from < c_.size; from += kBatch) {
        Granule loaded[kAhead][kBatch];
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k) {
          const uint64_t g = first + k * step;
#pragma unroll
          for (uint32_t i = 0; i < kBatch; ++i) {
            if (g >= all || from + i >= c_.size || !member(sources, from + i)) continue;
            loaded[k][i] = from + i == c_.rank ? load_granule(own + 16 * g, valid(bytes, g))
                                               : granule_of(load(slot(c_.rank, 0, round, from + i) + 16 * g));
          }
        }
#pragma unroll
        for (uint32_t k = 0; k < kAhead; ++k)
#pragma unroll
          for (uint32_t i = 0; i < kBatch; ++i)
            if (first + k * step < all && from + i < c_.size && member(sources, from + i))
              terms[k].add(loaded[k][i]);
      }
#pragma unroll
      for (uint32_t k = 0; k < kAhead; ++k) {
        const uint64_t g = first + k * step;
        if (g >= all) continue;
        const Granule result = terms[k].get();
        for (uint32_t d = 1; d < c_.size; ++d)
          if (member(targets, after(d))) store(slot(after(d), 1, round, c_.rank) + 16 * g, words_of(result));
        if (keeps) store_granule(out + 16 * g, result, valid(bytes, g));
      }
    }
  }

  __device__ void collect(uint32_t round) {
    if (!member(c_.targets, c_.rank)) return;
    move_all([&](uint32_t from) {
      const Range r = range_of_part(from, round);
      return Piece{c_.recv[0].address + r.first, slot(c_.rank, 1, round, from), r.count};
    });
  }

  const Collective& c_;
};

/// A call in a stream, by one block: what the area says, and waiting for room in it.
__device__ uint64_t enter_stream(const StreamCollective& s, Collective& c, bool pieces) {
  const auto* words = reinterpret_cast<const uint64_t*>(&s.call);
  for (uint32_t i = threadIdx.x; i < sizeof(Collective) / 8; i += blockDim.x)
    reinterpret_cast<uint64_t*>(&c)[i] = words[i];
  auto& control = *reinterpret_cast<volatile StreamControl*>(s.control[s.call.rank]);
  const uint64_t number = control.calls + 1;
  const uint64_t needed = pieces ? control.last_pieces : control.last_use[number % 2];
  const uint64_t floor = control.floor;
  __syncthreads();
  if (threadIdx.x < s.call.size && threadIdx.x != s.call.rank && floor < needed) {
    const uint64_t flag =
        reinterpret_cast<uint64_t>(const_cast<const uint64_t*>(&control.finished[threadIdx.x]));
    while (look(flag) < needed) continue;
  }
  if (threadIdx.x < s.call.size && !pieces)
    c.areas[threadIdx.x] += StreamCollective::set_offset(s.call.size, number);
  if (threadIdx.x == 0) {
    c.epoch = pieces ? static_cast<uint32_t>(number) : StreamCollective::epoch(number);
    c.epoch_high = static_cast<uint32_t>(number >> 32);
    c.patience = UINT64_MAX;
    c.launch = 0;
  }
  __syncthreads();
  return number;
}

/// The end of a block's part; the last block counts the call, and tells the others where they would not know.
__device__ void leave_stream(const StreamCollective& s, uint64_t number, bool pieces) {
  __syncthreads();
  __shared__ bool last;
  auto& control = *reinterpret_cast<StreamControl*>(s.control[s.call.rank]);
  if (threadIdx.x == 0) {
    last = true;
    if (gridDim.x > 1) {
      __threadfence();
      last = atomicAdd(&control.ticket, 1u) == gridDim.x - 1;
      __threadfence();
    }
  }
  __syncthreads();
  if (!last) return;
  if (threadIdx.x < s.call.size && threadIdx.x != s.call.rank && (pieces || s.dependent == 0)) {
    const uint64_t word = s.control[threadIdx.x] + offsetof(StreamControl, finished) + s.call.rank * 8ull;
    // What it says is that this rank has read its packets, which it has: what it pushed itself need not
    // have arrived, and to wait for that takes a microsecond.
    if (pieces)
      raise(word, number);
    else
      asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(number) : "memory");
  }
  if (threadIdx.x != 0) return;
  control.ticket = 0;
  control.calls = number;
  if (pieces)
    control.last_pieces = number;
  else
    control.last_use[number % 2] = number;
  if (s.dependent != 0) control.floor = number - 1;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(Collective::kThreads)
    weft_collective_stream_packets(const __grid_constant__ StreamCollective s) {
  __shared__ Collective c;
  const uint64_t number = enter_stream(s, c, false);
  static_cast<void>(run<ByPackets>(c, blockIdx.x, gridDim.x));
  leave_stream(s, number, false);
}

extern "C" __global__ void __launch_bounds__(Collective::kThreads)
    weft_collective_stream_blocks(const __grid_constant__ StreamCollective s) {
  __shared__ Collective c;
  const uint64_t number = enter_stream(s, c, true);
  static_cast<void>(Block(c).run(0, false));
  leave_stream(s, number, true);
}

extern "C" __global__ void __launch_bounds__(Collective::kThreads)
    weft_collective_packets(const __grid_constant__ Collective c) {
  end(c, !run<ByPackets>(c, blockIdx.x, gridDim.x));
}

extern "C" __global__ void __launch_bounds__(Collective::kThreads)
    weft_collective_lines(const __grid_constant__ Collective c) {
  end(c, !run<ByLines>(c, blockIdx.x, gridDim.x));
}

extern "C" __global__ void __launch_bounds__(Collective::kThreads)
    weft_collective_direct(const __grid_constant__ Direct d) {
  auto& place = reinterpret_cast<Collective::Places*>(d.call.places)->blocks[blockIdx.x];
  const uint64_t from = d.call.launch != 0 ? *static_cast<volatile uint64_t*>(&place) : 0;
  const uint64_t stopped = from == Collective::kEnded ? from : DirectBlock(d).run(from);
  if (threadIdx.x == 0) place = stopped;
  end_together(d.call, stopped != Collective::kEnded);
}

extern "C" __global__ void __launch_bounds__(Collective::kThreads)
    weft_collective_blocks(const __grid_constant__ Collective c) {
  auto& place = reinterpret_cast<Collective::Places*>(c.places)->blocks[blockIdx.x];
  const bool resumed = c.launch != 0;
  const uint64_t from = resumed ? *static_cast<volatile uint64_t*>(&place) : 0;
  const uint64_t stopped = from == Collective::kEnded ? from : Block(c).run(from, resumed);
  if (threadIdx.x == 0) place = stopped;
  end(c, stopped != Collective::kEnded);
}

}  // namespace weft::device::kernel
