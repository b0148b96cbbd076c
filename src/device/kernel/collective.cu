// SPDX-License-Identifier: BSD-3-Clause
// Collective kernels with the protocols LL (small data), LL128 (medium) and Simple (chunks with a flag behind
// each), and in mapped buffers.
#include "device/kernel/collective_device.cuh"
#include "device/kernel/collective_end_device.cuh"
#include "device/kernel/direct_device.cuh"
#include "device/kernel/stream_call_device.cuh"

namespace weft::device::kernel {
namespace {

/// One block of a call with the Simple protocol.
class SimpleBlock : public SimpleRounds {
 public:
  __device__ explicit SimpleBlock(const Collective& collective) : SimpleRounds(collective) {}
  /// Runs from a resume state. Returns the new resume state, or kEnded. The chunks of the next round are
  /// pushed before the block waits for step 1 of a round: a peer that has set its flag of this round has read
  /// the chunks of the round before.
  __device__ uint64_t run(uint64_t resume, bool resumed) {
    uint32_t stage = resume & 1;
    if (!resumed && c_.rounds != 0) send(0);
    for (uint32_t round = resume / 2; round < c_.rounds; ++round, stage = 0) {
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
  __device__ Range range_of_part(uint32_t d, uint32_t round) const {
    return part_chunk_range(c_, d, round, blockIdx.x, gridDim.x);
  }

  /// Copies the chunks to or from all peers, kInFlight at a time; `copy_of(rank)` returns the ChunkCopy.
  template <class Of>
  __device__ __forceinline__ void move_all(Of&& copy_of) {
    constexpr uint32_t kInFlight = 3;
    for (uint32_t d = 1; d < c_.size; d += kInFlight) {
      ChunkCopy chunks[kInFlight];
#pragma unroll
      for (uint32_t i = 0; i < kInFlight; ++i)
        chunks[i] = d + i < c_.size ? copy_of(after(d + i)) : ChunkCopy{0, 0, 0};
      if (move(chunks)) continue;
#pragma unroll 1
      for (uint32_t i = d; i < c_.size && i < d + kInFlight; ++i) {
        const ChunkCopy odd = copy_of(after(i));
        move(odd.dst, odd.src, odd.bytes);
      }
    }
  }

  __device__ void send(uint32_t round) {
    if (c_.form != Collective::two_shot) {
      move_all([&](uint32_t to) {
        const Range r = range(c_.send[to].bytes, round);
        return ChunkCopy{slot(to, 0, round, c_.rank), c_.send[to].address + r.first, r.count};
      });
    } else if (member(c_.sources, c_.rank)) {
      move_all([&](uint32_t to) {
        const Range r = range_of_part(to, round);
        return ChunkCopy{slot(to, 0, round, c_.rank), c_.send[0].address + r.first, r.count};
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
        return ChunkCopy{c_.recv[from].address + r.first, slot(c_.rank, 0, round, from), r.count};
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

  /// Combines the chunks of some ranks in rank order, this rank's from its input. Stores the result to `out`
  /// and pushes it to the targets.
  __device__ void reduce(uint32_t sources, uint32_t targets, uint64_t out, uint64_t own, uint64_t bytes,
                         uint32_t round) {
    constexpr uint32_t kBatch = 4, kInFlight = 2;  // terms and vectors that are loaded together
    const bool keeps = targets == 0 || member(targets, c_.rank);
    const uint64_t all = vec16_count(bytes), step = blockDim.x;
    for (uint64_t first = threadIdx.x; first < all; first += kInFlight * step) {
      TermAccumulator terms[kInFlight] = {TermAccumulator(c_.reduction), TermAccumulator(c_.reduction)};
      for (uint32_t from = 0; from < c_.size; from += kBatch) {
        Vec16 loaded[kInFlight][kBatch];
#pragma unroll
        for (uint32_t k = 0; k < kInFlight; ++k) {
          const uint64_t g = first + k * step;
#pragma unroll
          for (uint32_t i = 0; i < kBatch; ++i) {
            if (g >= all || from + i >= c_.size || !member(sources, from + i)) continue;
            loaded[k][i] = from + i == c_.rank ? load_vec16(own + 16 * g, valid_bytes(bytes, g))
                                               : to_vec16(load(slot(c_.rank, 0, round, from + i) + 16 * g));
          }
        }
#pragma unroll
        for (uint32_t k = 0; k < kInFlight; ++k)
#pragma unroll
          for (uint32_t i = 0; i < kBatch; ++i)
            if (first + k * step < all && from + i < c_.size && member(sources, from + i))
              terms[k].add(loaded[k][i]);
      }
#pragma unroll
      for (uint32_t k = 0; k < kInFlight; ++k) {
        const uint64_t g = first + k * step;
        if (g >= all) continue;
        const Vec16 result = terms[k].get();
        for (uint32_t d = 1; d < c_.size; ++d)
          if (member(targets, after(d))) store(slot(after(d), 1, round, c_.rank) + 16 * g, words_of(result));
        if (keeps) store_vec16(out + 16 * g, result, valid_bytes(bytes, g));
      }
    }
  }

  __device__ void collect(uint32_t round) {
    if (!member(c_.targets, c_.rank)) return;
    move_all([&](uint32_t from) {
      const Range r = range_of_part(from, round);
      return ChunkCopy{c_.recv[0].address + r.first, slot(c_.rank, 1, round, from), r.count};
    });
  }
};

/// Called by one block of an enqueued call: copies the parameter, waits for credits, fills in the call's
/// number.
__device__ uint64_t begin_stream_call(const StreamCollective& s, Collective& c, bool simple) {
  const auto* words = reinterpret_cast<const uint64_t*>(&s.call);
  for (uint32_t i = threadIdx.x; i < sizeof(Collective) / 8; i += blockDim.x)
    reinterpret_cast<uint64_t*>(&c)[i] = words[i];
  auto& control = *reinterpret_cast<volatile StreamControl*>(s.control[s.call.rank]);
  const uint64_t number = control.calls + 1;
  const uint64_t needed = simple ? control.last_simple : control.last_use[number % 2];
  const uint64_t floor = control.floor;
  if (threadIdx.x == 0) stream_beat() = StreamBeat::of(s.call);
  __syncthreads();
  if (floor < needed)
    await_peers(s.control[s.call.rank], s.call.rank, s.call.size, needed, Collective::kCancelWord | s.cancel);
  if (threadIdx.x < s.call.size && !simple)
    c.regions[threadIdx.x] += StreamCollective::set_offset(s.call.size, number);
  if (threadIdx.x == 0) {
    c.epoch = simple ? static_cast<uint32_t>(number) : StreamCollective::epoch(number);
    c.epoch_high = static_cast<uint32_t>(number >> 32);
    c.timeout_ns = Collective::kCancelWord | s.cancel;
    c.launch = 0;
  }
  __syncthreads();
  return number;
}

/// Ends the part of a block. The last block completes the call and acknowledges to the peers where
/// `synchronizing` does not imply it.
__device__ void end_stream_call(const StreamCollective& s, uint64_t number, bool simple) {
  auto& control = *reinterpret_cast<StreamControl*>(s.control[s.call.rank]);
  if (!last_of_stream_call(control)) return;
  if (threadIdx.x < s.call.size && threadIdx.x != s.call.rank && (simple || s.synchronizing == 0))
    acknowledge(s.control[threadIdx.x], s.call.rank, number, simple);
  if (threadIdx.x != 0) return;
  control.ticket = 0;
  control.calls = number;
  if (simple)
    control.last_simple = number;
  else
    control.last_use[number % 2] = number;
  if (s.synchronizing != 0) control.floor = number - 1;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(Collective::kThreads)
    weft_collective_stream_ll(const __grid_constant__ StreamCollective s) {
  __shared__ Collective c;
  const uint64_t number = begin_stream_call(s, c, false);
  static_cast<void>(run<ProtoLL>(c, blockIdx.x, gridDim.x));
  end_stream_call(s, number, false);
}

extern "C" __global__ void __launch_bounds__(Collective::kThreads)
    weft_collective_stream_simple(const __grid_constant__ StreamCollective s) {
  __shared__ Collective c;
  const uint64_t number = begin_stream_call(s, c, true);
  static_cast<void>(SimpleBlock(c).run(0, false));
  end_stream_call(s, number, true);
}

extern "C" __global__ void __launch_bounds__(Collective::kThreads)
    weft_collective_ll(const __grid_constant__ Collective c) {
  end(c, !run<ProtoLL>(c, blockIdx.x, gridDim.x));
}

extern "C" __global__ void __launch_bounds__(Collective::kThreads)
    weft_collective_ll128(const __grid_constant__ Collective c) {
  end(c, !run<ProtoLL128>(c, blockIdx.x, gridDim.x));
}

// One block on a multiprocessor: for sm_90 ptxas would aim at two, with half of the registers and spills.
extern "C" __global__ void __launch_bounds__(Collective::kThreads, 1)
    weft_collective_direct(const __grid_constant__ Direct d) {
  auto& resume = reinterpret_cast<Collective::ResumeState*>(d.call.resume_state)->blocks[blockIdx.x];
  const uint64_t from = d.call.launch != 0 ? *static_cast<volatile uint64_t*>(&resume) : 0;
  const uint64_t stopped = from == Collective::kEnded ? from : DirectBlock(d).run(from);
  if (threadIdx.x == 0) resume = stopped;
  end_after_all_ranks(d.call, stopped != Collective::kEnded);
}

extern "C" __global__ void __launch_bounds__(Collective::kThreads)
    weft_collective_simple(const __grid_constant__ Collective c) {
  auto& resume = reinterpret_cast<Collective::ResumeState*>(c.resume_state)->blocks[blockIdx.x];
  const bool resumed = c.launch != 0;
  const uint64_t from = resumed ? *static_cast<volatile uint64_t*>(&resume) : 0;
  const uint64_t stopped = from == Collective::kEnded ? from : SimpleBlock(c).run(from, resumed);
  if (threadIdx.x == 0) resume = stopped;
  end(c, stopped != Collective::kEnded);
}

}  // namespace weft::device::kernel
