// SPDX-License-Identifier: BSD-3-Clause
// Copy kernels: a batch of copies in one launch, and the resident kernel, which takes commands from pinned
// memory. Methods and hazards: docs/gpu.md.
#include "device/kernel/accumulate.hpp"
#include "device/kernel/command_device.cuh"
#include "device/kernel/copy.hpp"
#include "device/kernel/copy_device.cuh"
#include "device/kernel/launch_device.cuh"

namespace weft::device::kernel {
namespace {

/// Loads a word and its sequence number at once. Acquire: after a barrier, all threads see what the writer
/// did before.
__device__ __forceinline__ Command::Pair load_pair(const Command::Pair* at) {
  uint64_t both;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(both) : "l"(at) : "memory");
  return {static_cast<uint32_t>(both), static_cast<uint32_t>(both >> 32)};
}

__device__ __forceinline__ void store_pair(Command::Pair* at, uint32_t word, uint32_t sequence) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(word), "r"(sequence) : "memory");
}

__device__ __forceinline__ void publish(uint64_t status, uint32_t done, uint32_t ended, uint32_t started) {
  const uint64_t word = static_cast<uint64_t>(started << 16 | (ended & 0xffffu)) << 32 | done;
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(status), "l"(word) : "memory");
}

__device__ __forceinline__ uint64_t nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

/// Sequence number of relayed words; differs between the commands of an instance and between instances.
__device__ __forceinline__ uint32_t tag(uint32_t instance, uint32_t sequence) {
  return instance << 16 | (sequence & 0xffffu);
}

struct Shared {
  uint32_t words[8];
  uint32_t leave;
  alignas(16) CopyItem items[ResidentKernelParams::kItems];  ///< read as 16-byte words
  CachedSlotConfig config;
  __device__ uint64_t dst() const {
    return static_cast<uint64_t>(words[Command::dst_high]) << 32 | words[Command::dst_low];
  }
  __device__ uint64_t src() const {
    return static_cast<uint64_t>(words[Command::src_high]) << 32 | words[Command::src_low];
  }
};

/// First warp of block 0: waits for the next command or for the end of this instance.
__device__ void take(const ResidentKernelParams& params, Shared& shared, uint32_t next, uint64_t born) {
  const auto* const slot =
      reinterpret_cast<const Command*>(params.ring) + next % ResidentKernelParams::kSlots;
  const uint32_t lane = threadIdx.x & 31;
  for (const uint64_t idle_since = nanoseconds();;) {
    const Command::Pair pair = load_pair(&slot->pairs[lane & 7]);
    if (__all_sync(~0u, pair.sequence == next)) {
      if (lane < 8) shared.words[lane] = pair.word;
      if (lane == Command::blocks) shared.leave = pair.word == 0;
      return;
    }
    const uint64_t now = nanoseconds();
    // The threads may read different times: thread 0 decides.
    if (__shfl_sync(~0u, now - idle_since > params.idle_timeout_ns || now - born > params.lifetime_ns, 0)) {
      if (lane == 0) shared.leave = 1;
      return;
    }
  }
}

/// First warp of block 0: relays the command to the other blocks.
__device__ void relay(const ResidentKernelParams& params, ResidentKernelParams::Memory& memory,
                      const Shared& shared, uint32_t sequence) {
  const uint32_t lane = threadIdx.x & 31;
  if (lane < 8)
    store_pair(&memory.relay.pairs[lane], shared.leave && lane == Command::blocks ? 0 : shared.words[lane],
               tag(params.instance, sequence));
}

/// Threads per small item. Few, so that all items are in flight at once (NVLink latency exceeds the transfer
/// time), but enough that a thread copies at most eight words of the longest item.
__device__ __forceinline__ uint32_t team_of(uint32_t count, uint32_t longest, uint32_t threads) {
  uint32_t team = 32;
  while (team > 1 && count * team > threads && longest <= team / 2 * 8 * 16) team /= 2;
  return team;
}

/// One block's part of a batch. A team of threads copies each small item; the blocks copy the chunks of large
/// items round robin.
__device__ void copy_items(Shared& shared, uint32_t blocks) {
  constexpr uint32_t kSmall = 16384, kChunk = 65536;  // bytes
  const uint32_t count = min(shared.words[Command::items], ResidentKernelParams::kItems);
  const auto* const from = reinterpret_cast<const uint4*>(shared.src());
  auto* const to = reinterpret_cast<uint4*>(shared.items);
  constexpr uint32_t kWord = sizeof(uint4);
  for (uint32_t i = threadIdx.x; i < (count * sizeof(CopyItem) + kWord - 1) / kWord; i += blockDim.x)
    to[i] = __ldcv(from + i);
  __syncthreads();
  const uint32_t longest = min(shared.words[Command::bytes], kSmall);
  const uint32_t team = team_of(count, longest, blockDim.x * blocks);
  const uint32_t teams = blockDim.x / team * blocks;
  for (uint32_t i = blockIdx.x + threadIdx.x / team * blocks; i < count; i += teams)
    if (shared.items[i].bytes <= kSmall)
      copy<true>(shared.items[i].dst, shared.items[i].src, shared.items[i].bytes, threadIdx.x & (team - 1),
                 team);
  uint32_t chunk_index = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const CopyItem& item = shared.items[i];
    if (item.bytes <= kSmall) continue;
    for (uint64_t at = 0; at < item.bytes; at += kChunk, ++chunk_index)
      if (chunk_index % blocks == blockIdx.x)
        copy<true>(item.dst + at, item.src + at, min(item.bytes - at, uint64_t{kChunk}), threadIdx.x,
                   blockDim.x);
  }
}

/// Stores the data contained in the command with one warp.
__device__ void store_inline(const Shared& shared) {
  if (threadIdx.x < shared.words[Command::bytes])
    reinterpret_cast<unsigned char*>(shared.dst())[threadIdx.x] =
        static_cast<unsigned char>(shared.src() >> 8 * threadIdx.x);
}

/// Whether items says so: CallWord::kCall and kInline are not set in a packed operation.
__device__ __forceinline__ bool is_packed(uint32_t items) { return items >> 28 == Command::kPacked >> 28; }

/// The accumulate operation in the command's words.
__device__ __forceinline__ Accumulate packed_call(const Shared& shared) {
  PackedAccumulate packed;
#pragma unroll
  for (uint32_t i = 0; i < PackedAccumulate::kAddressWords; ++i)
    packed.addresses[i] = shared.words[Command::packed_word(i)];
  packed.rest = shared.words[Command::items];
  return packed.unpack();
}

/// Executes such an operation with one block.
__device__ __noinline__ void serve_packed(const Shared& shared) {
  const Accumulate call = packed_call(shared);
  for (uint64_t i = threadIdx.x; i < call.count; i += blockDim.x) accumulate_element<true>(call, i);
}

/// Executes an accumulate operation with one block.
__device__ __noinline__ void serve_accumulate(Shared& shared) {
  static_assert(sizeof(Accumulate) % sizeof(uint64_t) == 0 && sizeof(Accumulate) <= sizeof shared.items);
  const auto* const from = reinterpret_cast<const uint64_t*>(shared.src());
  auto* const to = reinterpret_cast<uint64_t*>(shared.items);
  for (uint32_t i = threadIdx.x; i < sizeof(Accumulate) / sizeof(uint64_t); i += blockDim.x)
    to[i] = __ldcv(from + i);
  __syncthreads();
  const auto& call = *reinterpret_cast<const Accumulate*>(shared.items);
  for (uint64_t i = threadIdx.x; i < call.count; i += blockDim.x) accumulate_element<true>(call, i);
}

__device__ __forceinline__ bool is_call(const Shared& shared) {
  return (shared.words[Command::items] & CallWord::kCall) != 0;
}

/// Whether a command changes memory of this GPU only: a collective, or as the host says.
__device__ __forceinline__ bool has_local_output(const Shared& shared) {
  const uint32_t items = shared.words[Command::items];
  if (is_packed(items)) return (items & PackedAccumulate::kOutputIsLocal) != 0;
  return is_call(shared) || shared.words[Command::epoch] == Command::own_gpu;
}

/// Makes the stores of this thread's block visible: system-wide, or on this GPU if it owns the output. All
/// readers of that memory, peers included, read it through this GPU's L2 cache.
__device__ __forceinline__ void fence(const Shared& shared) {
  if (has_local_output(shared))
    __threadfence();
  else
    __threadfence_system();
}

/// The copy of a command, if it has at most kDepth words for each of so many threads; otherwise empty.
template <int kDepth>
__device__ __forceinline__ ShortCopy<kDepth> short_copy(const Shared& shared, uint32_t threads) {
  if (shared.words[Command::items] != 0) return {};
  return ShortCopy<kDepth>::of(shared.dst(), shared.src(), shared.words[Command::bytes], threads);
}

__device__ __forceinline__ bool writes_to_peer(const Shared& shared) {
  return shared.words[Command::epoch] == Command::peer_gpu;
}

/// Words of each thread in a copy to a peer that is read back: 256 KiB by eight blocks.
constexpr int kPutDepth = 4;

/// Outcome of a block's part of a command.
struct Served {
  bool late;     ///< a collective timed out
  bool arrived;  ///< all stores of the block are visible: no fence is needed
};

/// One block's part of a command that is longer than for one warp and that `blocks` blocks share.
__device__ Served serve(const ResidentKernelParams& params, Shared& shared, uint32_t blocks) {
  const uint32_t self = blockIdx.x * blockDim.x + threadIdx.x, threads = blocks * blockDim.x;
  if (blocks > 1 && writes_to_peer(shared)) {
    const auto copy = short_copy<kPutDepth>(shared, threads);
    if (copy.count != 0) return {false, __syncthreads_and(copy.run(self, threads, true)) != 0};
  }
  bool late = false;
  if (is_call(shared))
    late = serve_call(params.slot_configs, shared.words, shared.config, blockIdx.x, blocks);
  else if (is_packed(shared.words[Command::items]))
    serve_packed(shared);
  else if (shared.words[Command::items] == Command::kAccumulate)
    serve_accumulate(shared);
  else if (shared.words[Command::items] != 0)
    copy_items(shared, blocks);
  else
    copy<true>(shared.dst(), shared.src(), shared.words[Command::bytes], self, threads);
  __syncthreads();
  return {late, false};
}

/// The first warp executes a short copy. Afterwards its words are visible. To a peer a round trip is shorter
/// than a system-wide fence; to host memory it is longer.
__device__ __noinline__ void serve_short_copy(const Shared& shared, ShortCopy<1> copy) {
  const uint32_t lane = threadIdx.x & 31;
  const bool to_peer = writes_to_peer(shared);
  const bool arrived = copy.run(lane, 32, to_peer);
  if (to_peer && __all_sync(~0u, arrived)) return;
  __syncwarp();
  if (lane == 0) fence(shared);
}

/// The first warp stores the data in a command or executes the accumulate operation in it. Afterwards the
/// result is visible.
__device__ __noinline__ void serve_short_words(const Shared& shared) {
  const uint32_t lane = threadIdx.x & 31, items = shared.words[Command::items];
  if (items == Command::kInline) {
    store_inline(shared);
  } else {
    const Accumulate call = packed_call(shared);
    if (lane < call.count) accumulate_element<true>(call, lane);
  }
  __syncwarp();
  if (lane == 0) fence(shared);
}

/// The first warp executes a command with at most one word or vector for each lane. Returns false for others.
__device__ __forceinline__ bool serve_short(const ResidentKernelParams& params, Shared& shared) {
  if (is_vec16_call(shared.words)) {
    serve_vec16_call(params.slot_configs, shared.words, shared.config);
    return true;
  }
  const uint32_t items = shared.words[Command::items];
  if (items == Command::kInline || (is_packed(items) && PackedAccumulate::count_of(items) <= 32)) {
    serve_short_words(shared);
    return true;
  }
  const auto copy = short_copy<1>(shared, 32);
  if (copy.count != 0) serve_short_copy(shared, copy);
  return copy.count != 0;
}

/// A block other than block 0: serves relayed commands until the instance ends.
__device__ __noinline__ void follow(const ResidentKernelParams& params, ResidentKernelParams::Memory& memory,
                                    Shared& shared) {
  const uint32_t lane = threadIdx.x & 31;
  uint32_t last = tag(params.instance, params.first - 1);
  if (threadIdx.x == 0) {
    shared.config.owner = 0;
    atomicAdd(&memory.present, 1);
  }
  for (;;) {
    if (threadIdx.x < 32) {
      for (;;) {
        const Command::Pair pair = load_pair(&memory.relay.pairs[lane & 7]);
        const uint32_t seen = __shfl_sync(~0u, pair.sequence, 0);
        if (!__all_sync(~0u, pair.sequence == seen) || seen == last || seen >> 16 != params.instance)
          continue;
        last = seen;
        if (lane < 8) shared.words[lane] = pair.word;
        break;
      }
    }
    __syncthreads();
    const uint32_t blocks = shared.words[Command::blocks];
    if (blocks == 0) break;
    if (blockIdx.x >= blocks) {
      __syncthreads();
      continue;
    }
    const Served served = serve(params, shared, blocks);
    if (threadIdx.x == 0) {
      if (!served.arrived) fence(shared);
      atomicAdd(&memory.arrived, served.late ? ResidentKernelParams::Memory::kLate + 1 : 1);
    }
  }
  if (threadIdx.x == 0) atomicSub(&memory.present, 1);
}

/// One thread: waits for the other blocks of a command. Returns whether any timed out.
__device__ bool gather(ResidentKernelParams::Memory& memory, uint32_t others) {
  uint32_t arrived;
  do arrived = *static_cast<volatile uint32_t*>(&memory.arrived);
  while (arrived % ResidentKernelParams::Memory::kLate != others);
  *static_cast<volatile uint32_t*>(&memory.arrived) = 0;
  return arrived >= ResidentKernelParams::Memory::kLate;
}

/// Block 0: takes commands, shares the large ones, publishes completions.
__device__ __noinline__ void lead(const ResidentKernelParams& params, ResidentKernelParams::Memory& memory,
                                  Shared& shared) {
  const uint64_t born = nanoseconds();
  const uint32_t before = params.instance - 1;
  uint32_t next = params.first;
  if (threadIdx.x == 0) {
    shared.leave = 0;
    shared.config.owner = 0;
    publish(params.status, next - 1, before, params.instance);
  }
  for (;; ++next) {
    __syncthreads();
    if (threadIdx.x < 32) {
      take(params, shared, next, born);
      __syncwarp();
      // This warp alone executes short commands; the other warps keep waiting.
      while (!shared.leave && serve_short(params, shared)) {
        if (threadIdx.x == 0) publish(params.status, next, before, params.instance);
        __syncwarp();
        take(params, shared, ++next, born);
        __syncwarp();
      }
      // Relayed even by a single block: the words in memory may be those of an earlier instance.
      if (shared.leave || (gridDim.x > 1 && shared.words[Command::blocks] > 1)) {
        // Blocks that are not scheduled yet must not be waited for.
        const bool all = *static_cast<volatile uint32_t*>(&memory.present) == gridDim.x - 1;
        __syncwarp();
        if (!shared.leave && !all && threadIdx.x == 0) shared.words[Command::blocks] = 1;
        __syncwarp();
        if (shared.leave || all) relay(params, memory, shared, next);
      }
    }
    __syncthreads();
    if (shared.leave) break;
    const uint32_t blocks = min(shared.words[Command::blocks], gridDim.x);
    const Served served = serve(params, shared, blocks);
    if (threadIdx.x == 0) {
      const bool late = (blocks > 1 && gather(memory, blocks - 1)) || served.late;
      if (is_call(shared))
        end_call(shared.config.call, shared.words[Command::epoch], late);
      else if (!served.arrived)
        fence(shared);
      publish(params.status, next, before, params.instance);
    }
  }
  if (threadIdx.x == 0) publish(params.status, next - 1, params.instance, params.instance);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(512)
    weft_batch_copy(const __grid_constant__ BatchCopyParams list) {
  __shared__ uint32_t dealt[2];
  CancellableLaunch::Words& words = words_of(list);
  if (threadIdx.x == 0) dealt[0] = first_chunk(list);
  __syncthreads();
  uint32_t copied = 0, item = 0;
  uint64_t before = 0;  // chunks of the items before `item`
  for (uint32_t mine = dealt[0]; mine < list.chunks; ++copied) {
    uint32_t upcoming = 0;  // requested early, so that the atomic overlaps the copy
    if (threadIdx.x == 0) upcoming = atomicAdd(&words.next, 1);
    for (uint64_t n; mine >= before + (n = BatchCopyParams::chunks_of(list.items[item].bytes, list.chunk));
         ++item)
      before += n;
    const CopyItem& of = list.items[item];
    const uint64_t offset = (mine - before) * list.chunk, rest = of.bytes - offset;
    copy<false>(of.dst + offset, of.src + offset, rest < list.chunk ? rest : list.chunk, threadIdx.x,
                blockDim.x);
    if (threadIdx.x == 0) dealt[~copied & 1] = upcoming;
    __syncthreads();
    mine = dealt[~copied & 1];
  }
  if (threadIdx.x == 0 && copied != 0) account(list, words, copied);
}

extern "C" __global__ void __launch_bounds__(512)
    weft_resident_kernel(const __grid_constant__ ResidentKernelParams params) {
  __shared__ Shared shared;
  auto& memory = *reinterpret_cast<ResidentKernelParams::Memory*>(params.memory);
  if (blockIdx.x == 0)
    lead(params, memory, shared);
  else
    follow(params, memory, shared);
}

}  // namespace weft::device::kernel
