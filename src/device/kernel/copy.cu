// SPDX-License-Identifier: BSD-3-Clause
// Copy kernels: a list of copies in one launch, and the copier, which stays for a while and takes its
// commands from pinned memory. Methods and hazards: docs/gpu.md.
#include "device/kernel/call_device.cuh"
#include "device/kernel/copy.hpp"
#include "device/kernel/copy_device.cuh"
#include "device/kernel/launch_device.cuh"

namespace weft::device::kernel {
namespace {

/// A word and its number at once. Acquires: what the writer did before is seen by what is read behind a
/// barrier.
__device__ __forceinline__ Command::Pair load_pair(const Command::Pair* at) {
  uint64_t both;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(both) : "l"(at) : "memory");
  return {static_cast<uint32_t>(both), static_cast<uint32_t>(both >> 32)};
}

__device__ __forceinline__ void store_pair(Command::Pair* at, uint32_t word, uint32_t sequence) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(word), "r"(sequence) : "memory");
}

__device__ __forceinline__ void publish(uint64_t status, uint32_t done, uint32_t gone, uint32_t alive) {
  const uint64_t word = static_cast<uint64_t>(alive << 16 | (gone & 0xffffu)) << 32 | done;
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(status), "l"(word) : "memory");
}

__device__ __forceinline__ uint64_t nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

/// What the relay's pairs carry: differs between the commands of a life and between lives.
__device__ __forceinline__ uint32_t tag(uint32_t generation, uint32_t sequence) {
  return generation << 16 | (sequence & 0xffffu);
}

struct Shared {
  uint32_t words[8];
  uint32_t leave;
  alignas(16) Item items[Copier::kItems];  ///< read by 16 bytes
  Home home;
  __device__ uint64_t dst() const {
    return static_cast<uint64_t>(words[Command::dst_high]) << 32 | words[Command::dst_low];
  }
  __device__ uint64_t src() const {
    return static_cast<uint64_t>(words[Command::src_high]) << 32 | words[Command::src_low];
  }
};

/// First warp of the first block: the next command, or the end of this life.
__device__ void take(const Copier& copier, Shared& shared, uint32_t next, uint64_t born) {
  const auto* const slot = reinterpret_cast<const Command*>(copier.ring) + next % Copier::kSlots;
  const uint32_t lane = threadIdx.x & 31;
  for (const uint64_t idle_since = nanoseconds();;) {
    const Command::Pair pair = load_pair(&slot->pairs[lane & 7]);
    if (__all_sync(~0u, pair.sequence == next)) {
      if (lane < 8) shared.words[lane] = pair.word;
      if (lane == Command::blocks) shared.leave = pair.word == 0;
      return;
    }
    const uint64_t now = nanoseconds();
    // Lanes may read different times: the first decides.
    if (__shfl_sync(~0u, now - idle_since > copier.linger || now - born > copier.life, 0)) {
      if (lane == 0) shared.leave = 1;
      return;
    }
  }
}

/// First warp of the first block: the command goes to the other blocks.
__device__ void relay(const Copier& copier, Copier::Memory& memory, const Shared& shared, uint32_t sequence) {
  const uint32_t lane = threadIdx.x & 31;
  if (lane < 8)
    store_pair(&memory.relay.pairs[lane], shared.leave && lane == Command::blocks ? 0 : shared.words[lane],
               tag(copier.generation, sequence));
}

/// So many threads copy a small item: few, so that all items are under way at once (a flight over NVLink
/// takes longer than the bytes), but enough for eight words a thread of the longest.
__device__ __forceinline__ uint32_t team_of(uint32_t count, uint32_t longest, uint32_t threads) {
  uint32_t team = 32;
  while (team > 1 && count * team > threads && longest <= team / 2 * 8 * 16) team /= 2;
  return team;
}

/// One of the blocks that share a command with a list. Small items: a team of threads each; large ones: their
/// chunks by blocks in turn.
__device__ void copy_items(Shared& shared, uint32_t blocks) {
  constexpr uint32_t kSmall = 16384, kChunk = 65536;  // bytes
  const uint32_t count = min(shared.words[Command::items], Copier::kItems);
  const auto* const from = reinterpret_cast<const uint4*>(shared.src());
  auto* const to = reinterpret_cast<uint4*>(shared.items);
  constexpr uint32_t kWord = sizeof(uint4);
  for (uint32_t i = threadIdx.x; i < (count * sizeof(Item) + kWord - 1) / kWord; i += blockDim.x)
    to[i] = __ldcv(from + i);
  __syncthreads();
  const uint32_t longest = min(shared.words[Command::bytes], kSmall);
  const uint32_t team = team_of(count, longest, blockDim.x * blocks);
  const uint32_t teams = blockDim.x / team * blocks;
  for (uint32_t i = blockIdx.x + threadIdx.x / team * blocks; i < count; i += teams)
    if (shared.items[i].bytes <= kSmall)
      copy<true>(shared.items[i].dst, shared.items[i].src, shared.items[i].bytes, threadIdx.x & (team - 1),
                 team);
  uint32_t turn = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Item& item = shared.items[i];
    if (item.bytes <= kSmall) continue;
    for (uint64_t at = 0; at < item.bytes; at += kChunk, ++turn)
      if (turn % blocks == blockIdx.x)
        copy<true>(item.dst + at, item.src + at, min(item.bytes - at, uint64_t{kChunk}), threadIdx.x,
                   blockDim.x);
  }
}

/// The data of the command itself.
__device__ void store_inline(const Shared& shared) {
  if (threadIdx.x < shared.words[Command::bytes])
    reinterpret_cast<unsigned char*>(shared.dst())[threadIdx.x] =
        static_cast<unsigned char>(shared.src() >> 8 * threadIdx.x);
}

__device__ __forceinline__ bool is_call(const Shared& shared) {
  return (shared.words[Command::items] & CallWord::kCall) != 0;
}

/// What this thread's block has written is there: in another GPU's memory, or a call's output in this one's.
__device__ __forceinline__ void fence(const Shared& shared) {
  if (is_call(shared))
    __threadfence();
  else
    __threadfence_system();
}

/// A block's part of a command that `blocks` share. True: a call that has waited too long.
__device__ bool serve(const Copier& copier, Shared& shared, uint32_t blocks) {
  bool late = false;
  if (is_call(shared))
    late = serve_call(copier.homes, shared.words, shared.home, blockIdx.x, blocks);
  else if (shared.words[Command::items] == Command::kInline)
    store_inline(shared);
  else if (shared.words[Command::items] != 0)
    copy_items(shared, blocks);
  else
    copy<true>(shared.dst(), shared.src(), shared.words[Command::bytes],
               blockIdx.x * blockDim.x + threadIdx.x, blocks * blockDim.x);
  __syncthreads();
  return late;
}

/// A block other than the first: its part of what is relayed, until it is told to leave.
__device__ __noinline__ void follow(const Copier& copier, Copier::Memory& memory, Shared& shared) {
  const uint32_t lane = threadIdx.x & 31;
  uint32_t last = tag(copier.generation, copier.first - 1);
  if (threadIdx.x == 0) {
    shared.home.owner = 0;
    atomicAdd(&memory.present, 1);
  }
  for (;;) {
    if (threadIdx.x < 32) {
      for (;;) {
        const Command::Pair pair = load_pair(&memory.relay.pairs[lane & 7]);
        const uint32_t seen = __shfl_sync(~0u, pair.sequence, 0);
        if (!__all_sync(~0u, pair.sequence == seen) || seen == last || seen >> 16 != copier.generation)
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
    const bool late = serve(copier, shared, blocks);
    if (threadIdx.x == 0) {
      fence(shared);
      atomicAdd(&memory.arrived, late ? Copier::Memory::kLate + 1 : 1);
    }
  }
  if (threadIdx.x == 0) atomicSub(&memory.present, 1);
}

/// One thread: waits for the other blocks of a command; whether one of them was late.
__device__ bool gather(Copier::Memory& memory, uint32_t others) {
  uint32_t arrived;
  do arrived = *static_cast<volatile uint32_t*>(&memory.arrived);
  while (arrived % Copier::Memory::kLate != others);
  *static_cast<volatile uint32_t*>(&memory.arrived) = 0;
  return arrived >= Copier::Memory::kLate;
}

/// The first block: takes commands, shares the large ones, says when they are done.
__device__ __noinline__ void lead(const Copier& copier, Copier::Memory& memory, Shared& shared) {
  const uint64_t born = nanoseconds();
  const uint32_t before = copier.generation - 1;
  uint32_t next = copier.first;
  if (threadIdx.x == 0) {
    shared.leave = 0;
    shared.home.owner = 0;
    publish(copier.status, next - 1, before, copier.generation);
  }
  for (;; ++next) {
    __syncthreads();
    if (threadIdx.x < 32) {
      take(copier, shared, next, born);
      __syncwarp();
      // Calls of a granule are for this warp; the others go on waiting.
      while (!shared.leave && is_granule_call(shared.words)) {
        serve_granule(copier.homes, shared.words, shared.home);
        if (threadIdx.x == 0) publish(copier.status, next, before, copier.generation);
        __syncwarp();
        take(copier, shared, ++next, born);
        __syncwarp();
      }
      // The end is relayed also by a block that is alone: what a life finds there is from the one before it.
      if (shared.leave || (gridDim.x > 1 && shared.words[Command::blocks] > 1)) {
        // Blocks that have not been given a place yet must not be waited for.
        const bool all = *static_cast<volatile uint32_t*>(&memory.present) == gridDim.x - 1;
        __syncwarp();
        if (!shared.leave && !all && threadIdx.x == 0) shared.words[Command::blocks] = 1;
        __syncwarp();
        if (shared.leave || all) relay(copier, memory, shared, next);
      }
    }
    __syncthreads();
    if (shared.leave) break;
    const uint32_t blocks = min(shared.words[Command::blocks], gridDim.x);
    bool late = serve(copier, shared, blocks);
    if (threadIdx.x == 0) {
      if (blocks > 1) late = gather(memory, blocks - 1) || late;
      if (is_call(shared))
        end_call(shared.home.call, shared.words[Command::epoch], late);
      else
        __threadfence_system();
      publish(copier.status, next, before, copier.generation);
    }
  }
  if (threadIdx.x == 0) publish(copier.status, next - 1, copier.generation, copier.generation);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(512) weft_copy_list(const __grid_constant__ List list) {
  __shared__ uint32_t dealt[2];
  Launch::Words& words = words_of(list);
  if (threadIdx.x == 0) dealt[0] = first_chunk(list);
  __syncthreads();
  uint32_t copied = 0, item = 0;
  uint64_t before = 0;  // chunks of the items before `item`
  for (uint32_t mine = dealt[0]; mine < list.chunks; ++copied) {
    uint32_t upcoming = 0;  // asked for early: its way to memory overlaps the copy
    if (threadIdx.x == 0) upcoming = atomicAdd(&words.next, 1);
    for (uint64_t n; mine >= before + (n = List::chunks_of(list.items[item].bytes, list.chunk)); ++item)
      before += n;
    const Item& of = list.items[item];
    const uint64_t offset = (mine - before) * list.chunk, rest = of.bytes - offset;
    copy<false>(of.dst + offset, of.src + offset, rest < list.chunk ? rest : list.chunk, threadIdx.x,
                blockDim.x);
    if (threadIdx.x == 0) dealt[~copied & 1] = upcoming;
    __syncthreads();
    mine = dealt[~copied & 1];
  }
  if (threadIdx.x == 0 && copied != 0) account(list, words, copied);
}

extern "C" __global__ void __launch_bounds__(512) weft_copier(const __grid_constant__ Copier copier) {
  __shared__ Shared shared;
  auto& memory = *reinterpret_cast<Copier::Memory*>(copier.memory);
  if (blockIdx.x == 0)
    lead(copier, memory, shared);
  else
    follow(copier, memory, shared);
}

}  // namespace weft::device::kernel
