// SPDX-License-Identifier: BSD-3-Clause
// Device side of collectives that come to a copier as commands.
#pragma once
#include "device/kernel/collective_device.cuh"

namespace weft::device::kernel {

/// What a copier keeps of the port that rang last; in shared memory.
struct Home {
  Collective call;
  uint32_t owner;     ///< port and version; 0: none
  uint4 packets[32];  ///< of a call of one granule, two a rank, as they have come
};

__device__ __forceinline__ Regular regular_of(const uint32_t* words, const CallWord& word) {
  const auto address = [&](uint32_t low) { return static_cast<uint64_t>(words[low + 1]) << 32 | words[low]; };
  return {word.shape, word.root, address(2), address(0), CallWord::Bytes{words[4]}.count(), word.reduction};
}

/// Thread `self` of `all` reads its part of what holds for all calls of the port, unless it is there.
__device__ inline void find_home(uint64_t homes, const CallWord& word, Home& home, uint32_t self,
                                 uint32_t all) {
  if (home.owner == (1u << 16 | word.port << 8 | word.version)) return;
  const auto* from = reinterpret_cast<const uint64_t*>(homes + word.port * sizeof(Collective));
  for (uint32_t i = self; i < sizeof(Collective) / 8; i += all)
    reinterpret_cast<uint64_t*>(&home.call)[i] = __ldcv(from + i);
}

/// One thread: the host is told as by a launch. The output lies in this GPU's memory, so the fence is for
/// this GPU: what went to other ranks says itself that it has come.
__device__ inline void end_call(const Collective& c, uint32_t epoch, bool late) {
  __threadfence();
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(c.status), "l"(Collective::outcome(epoch, 0, late))
               : "memory");
}

/// One block's part of a call; true: it has waited too long.
__device__ inline bool serve_call(uint64_t homes, const uint32_t* words, Home& home, uint32_t block,
                                  uint32_t blocks) {
  const CallWord word = CallWord::unpacked(words[6]);
  find_home(homes, word, home, threadIdx.x, blockDim.x);
  __syncthreads();
  if (threadIdx.x < home.call.size) regular_of(words, word).messages(home.call, threadIdx.x);
  if (threadIdx.x == 0) {
    home.owner = 1u << 16 | word.port << 8 | word.version;
    home.call.epoch = words[7];
    home.call.reduction = word.reduction;
  }
  __syncthreads();
  return __syncthreads_or(CallWord::Bytes{words[4]}.lines() ? !run<ByLines>(home.call, block, blocks)
                                                            : !run<ByPackets>(home.call, block, blocks));
}

/// Whether a command is a call of which every message is one granule at most.
__device__ __forceinline__ bool is_granule_call(const uint32_t* words) {
  return (words[6] & CallWord::kCall) != 0 && words[4] <= sizeof(Granule);
}

/// Such a call, by one warp: thread i has the first half of what goes to and comes from rank i, thread 16 + i
/// the second.
__device__ __noinline__ inline void serve_granule(uint64_t homes, const uint32_t* words, Home& home) {
  static_assert(Collective::kRanks == 16);
  const uint32_t lane = threadIdx.x & 31, peer = lane & 15, half = lane >> 4, epoch = words[7];
  const CallWord word = CallWord::unpacked(words[6]);
  find_home(homes, word, home, lane, 32);
  __syncwarp();
  if (lane == 0) home.owner = 1u << 16 | word.port << 8 | word.version;
  const Collective& c = home.call;
  const uint32_t stride = Area::stride(c.size);
  const bool peers = peer < c.size;
  const Regular call = regular_of(words, word);
  const Regular::Messages of = call.messages(c.rank, peer);
  if (peers && of.send.bytes != 0) {
    const uint2 data = load_half(of.send.address + 8 * half, valid_half(of.send.bytes, half));
    store_packet(c.areas[peer] + c.rank * stride + 16 * half, data.x, data.y, epoch);
  }
  __syncwarp();
  const bool takes = peers && of.recv.bytes != 0;
  const uint64_t from = c.areas[peers ? c.rank : 0] + peer * stride + 16 * half;
  uint4 packet{};
  bool missing = takes, late = false;
  for (Waiter waiter(c.patience); !late;) {
    if (missing) packet = load_words(from);
    missing = missing && !present(packet, epoch);
    if (!__any_sync(~0u, missing)) break;
    late = __shfl_sync(~0u, waiter.over(), 0);  // threads may read different times: the first decides
  }
  if (!late && call.form() == Collective::exchange) {
    if (takes)
      store_half(of.recv.address + 8 * half, make_uint2(packet.x, packet.z), valid_half(of.recv.bytes, half));
  } else if (!late) {
    const uint32_t sources = __ballot_sync(~0u, takes) & 0xffff;
    home.packets[2 * peer + half] = packet;
    __syncwarp();
    if (lane == 0 && sources != 0) {
      Granule result;
      if (word.reduction.float_sum()) {
        FloatSum sum;
        for (uint32_t j = 0; j < c.size; ++j)
          if (member(sources, j)) sum.add(home.packets[2 * j], home.packets[2 * j + 1]);
        result = sum.get();
      } else {
        result =
            combined(word.reduction, sources, reinterpret_cast<uint64_t>(home.packets), 32, Lies::in_packets);
      }
      store_granule(call.out, result, static_cast<uint32_t>(call.bytes));
    }
  }
  __syncwarp();
  if (lane == 0) end_call(c, epoch, late);
}

}  // namespace weft::device::kernel
