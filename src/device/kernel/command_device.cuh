// SPDX-License-Identifier: BSD-3-Clause
// Device side of collectives that the resident kernel executes as commands.
#pragma once
#include "device/kernel/collective_device.cuh"

namespace weft::device::kernel {

/// Configuration of the collective slot of the last command, cached in shared memory.
struct CachedSlotConfig {
  Collective call;
  uint32_t owner;     ///< tag of slot and version; 0: empty
  uint4 packets[32];  ///< received packets of a one-vector call, two per rank
};

__device__ __forceinline__ Regular regular_of(const uint32_t* words, const CallWord& word) {
  const auto address = [&](uint32_t low) { return static_cast<uint64_t>(words[low + 1]) << 32 | words[low]; };
  return {word.shape, word.root, address(2), address(0), CallWord::Bytes{words[4]}.count(), word.reduction};
}

/// Thread `self` of `all` loads its part of the configuration of the slot, unless it is cached.
__device__ inline void load_config(uint64_t slot_configs, const CallWord& word, CachedSlotConfig& config,
                                   uint32_t self, uint32_t all) {
  if (config.owner == (1u << 16 | word.slot << 8 | word.version)) return;
  const auto* from = reinterpret_cast<const uint64_t*>(slot_configs + word.slot * sizeof(Collective));
  for (uint32_t i = self; i < sizeof(Collective) / 8; i += all)
    reinterpret_cast<uint64_t*>(&config.call)[i] = __ldcv(from + i);
}

/// One thread publishes the outcome, like the end of a launch. The output lies in the memory of this GPU, so
/// a GPU-scope fence suffices: flags guard the data sent to other ranks.
__device__ inline void end_call(const Collective& c, uint32_t epoch, bool late) {
  __threadfence();
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(c.status), "l"(Collective::outcome(epoch, 0, late))
               : "memory");
}

/// One block's part of a call. Returns true on timeout.
__device__ inline bool serve_call(uint64_t slot_configs, const uint32_t* words, CachedSlotConfig& config,
                                  uint32_t block, uint32_t blocks) {
  const CallWord word = CallWord::unpacked(words[6]);
  load_config(slot_configs, word, config, threadIdx.x, blockDim.x);
  __syncthreads();
  if (threadIdx.x < config.call.size) regular_of(words, word).messages(config.call, threadIdx.x);
  if (threadIdx.x == 0) {
    config.owner = 1u << 16 | word.slot << 8 | word.version;
    config.call.epoch = words[7];
    config.call.reduction = word.reduction;
  }
  __syncthreads();
  return __syncthreads_or(CallWord::Bytes{words[4]}.ll128() ? !run<ProtoLL128>(config.call, block, blocks)
                                                            : !run<ProtoLL>(config.call, block, blocks));
}

/// Returns whether a command is a call whose messages have at most one 16-byte vector.
__device__ __forceinline__ bool is_vec16_call(const uint32_t* words) {
  return (words[6] & CallWord::kCall) != 0 && words[4] <= sizeof(Vec16);
}

/// Executes such a call with one warp: thread i handles the first half of the messages to and from rank i,
/// thread 16 + i the second half.
__device__ __noinline__ inline void serve_vec16_call(uint64_t slot_configs, const uint32_t* words,
                                                     CachedSlotConfig& config) {
  static_assert(Collective::kRanks == 16);
  const uint32_t lane = threadIdx.x & 31, peer = lane & 15, half = lane >> 4, epoch = words[7];
  const CallWord word = CallWord::unpacked(words[6]);
  load_config(slot_configs, word, config, lane, 32);
  __syncwarp();
  if (lane == 0) config.owner = 1u << 16 | word.slot << 8 | word.version;
  const Collective& c = config.call;
  const uint32_t stride = RegionLayout::ll_stride(c.size);
  const bool peers = peer < c.size;
  const Regular call = regular_of(words, word);
  const Regular::Messages of = call.messages(c.rank, peer);
  if (peers && of.send.bytes != 0) {
    const uint2 data = load_half(of.send.address + 8 * half, valid_half_bytes(of.send.bytes, half));
    store_packet(c.regions[peer] + c.rank * stride + 16 * half, data.x, data.y, epoch);
  }
  __syncwarp();
  const bool takes = peers && of.recv.bytes != 0;
  const uint64_t from = c.regions[peers ? c.rank : 0] + peer * stride + 16 * half;
  uint4 packet{};
  bool missing = takes, late = false;
  for (Timeout timeout(c.timeout_ns); !late;) {
    if (missing) packet = load_words(from);
    missing = missing && !present(packet, epoch);
    if (!__any_sync(~0u, missing)) break;
    late = __shfl_sync(~0u, timeout.expired(), 0);  // threads may read different times: thread 0 decides
  }
  if (!late && call.form() == Collective::exchange) {
    if (takes)
      store_half(of.recv.address + 8 * half, make_uint2(packet.x, packet.z),
                 valid_half_bytes(of.recv.bytes, half));
  } else if (!late) {
    const uint32_t sources = __ballot_sync(~0u, takes) & 0xffff;
    config.packets[2 * peer + half] = packet;
    __syncwarp();
    if (lane == 0 && sources != 0) {
      Vec16 result;
      if (word.reduction.float_sum()) {
        FloatSum sum;
        for (uint32_t j = 0; j < c.size; ++j)
          if (member(sources, j)) sum.add(config.packets[2 * j], config.packets[2 * j + 1]);
        result = sum.get();
      } else {
        result = combined(word.reduction, sources, reinterpret_cast<uint64_t>(config.packets), 32,
                          TermLayout::ll_packets);
      }
      store_vec16(call.out, result, static_cast<uint32_t>(call.bytes));
    }
  }
  __syncwarp();
  if (lane == 0) end_call(c, epoch, late);
}

}  // namespace weft::device::kernel
