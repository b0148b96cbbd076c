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

/// Sequence number of relayed words; differs between the commands of an instance and between instances.
__device__ __forceinline__ uint32_t tag(uint32_t instance, uint32_t sequence) {
  return instance << 16 | (sequence & 0xffffu);
}

// Special registers. Volatile: values that depend on them are computed where they are used, not kept in local
// memory across commands.
__device__ __forceinline__ uint32_t lane_id() {
  uint32_t id;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(id));
  return id;
}
__device__ __forceinline__ uint32_t thread_id() {
  uint32_t id;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(id));
  return id;
}
__device__ __forceinline__ uint32_t block_id() {
  uint32_t id;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(id));
  return id;
}

/// A command in registers.
struct Words {
  uint64_t dst, src;
  uint32_t bytes, blocks, items, epoch;
  /// `word(i)` is word i of the command.
  template <class Word>
  __device__ __forceinline__ static Words of(Word&& word) {
    const auto address = [&](uint32_t low) { return static_cast<uint64_t>(word(low + 1)) << 32 | word(low); };
    return {address(Command::dst_low), address(Command::src_low), word(Command::bytes),
            word(Command::blocks),     word(Command::items),      word(Command::epoch)};
  }
};

/// Shared memory of a block of the resident kernel. It holds all that lives longer than a command:
/// collectives need all registers, so that the compiler would keep it in local memory, and each acquire of
/// take() empties the L1 cache. For the same reason the waits for commands are functions that are not inline.
struct Shared {
  alignas(16) uint32_t words[8];                             ///< of the command
  alignas(16) CopyItem items[ResidentKernelParams::kItems];  ///< read as 16-byte words
  CachedSlotConfig config;
  ResidentKernelParams params;
  uint64_t born;      ///< start of this instance, by nanoseconds()
  uint32_t number;    ///< block 0: of the command
  uint32_t sequence;  ///< other blocks: of the last relayed command
  uint32_t arrived;   ///< block 0: Memory::arrived after the last command
  bool all_present;   ///< block 0: whether all blocks are running
  bool late;          ///< whether the block's part of the last collective timed out
  __device__ __forceinline__ Words load() const {
    const auto* const from = reinterpret_cast<const uint4*>(words);
    const uint4 low = from[0], high = from[1];
    const uint32_t all[] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    return Words::of([&](uint32_t i) { return all[i]; });
  }
};

__shared__ alignas(16) unsigned char shared_memory[sizeof(Shared)];

__device__ __forceinline__ Shared& shared() { return *reinterpret_cast<Shared*>(shared_memory); }

__device__ __forceinline__ ResidentKernelParams::Memory& memory() {
  return *reinterpret_cast<ResidentKernelParams::Memory*>(shared().params.memory);
}

/// Stores the status word: `done` is the last complete command, `running` 0 at the end of the instance.
__device__ __forceinline__ void publish(uint32_t done, uint32_t running = 1) {
  const uint32_t instance = shared().params.instance, ended = instance - running;
  const uint64_t word = static_cast<uint64_t>(instance << 16 | (ended & 0xffffu)) << 32 | done;
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(shared().params.status), "l"(word) : "memory");
}

/// First warp of block 0: waits for the next command, or for the end of this instance, when `blocks` is 0.
__device__ __forceinline__ Words take(uint32_t number, uint64_t born) {
  const auto* const slot =
      reinterpret_cast<const Command*>(shared().params.ring) + number % ResidentKernelParams::kSlots;
  const uint32_t lane = lane_id();
  for (const uint64_t idle_since = nanoseconds();;) {
    const Command::Pair pair = load_pair(&slot->pairs[lane & 7]);
    if (__all_sync(~0u, pair.sequence == number)) {
      if (lane < 8) shared().words[lane] = pair.word;
      return Words::of([&](uint32_t i) { return __shfl_sync(~0u, pair.word, i); });
    }
    const uint64_t now = nanoseconds();
    // The threads may read different times: thread 0 decides.
    if (__shfl_sync(
            ~0u,
            now - idle_since > shared().params.idle_timeout_ns || now - born > shared().params.lifetime_ns,
            0)) {
      if (lane == 0) shared().words[Command::blocks] = 0;
      return {};
    }
  }
}

/// First warp of a block other than block 0: waits for a relayed command other than the last one.
__device__ __noinline__ void take_relayed() {
  const uint32_t lane = lane_id(), last = shared().sequence;
  for (;;) {
    const Command::Pair pair = load_pair(&memory().relay.pairs[lane & 7]);
    const uint32_t seen = __shfl_sync(~0u, pair.sequence, 0);
    if (!__all_sync(~0u, pair.sequence == seen) || seen == last || seen >> 16 != shared().params.instance)
      continue;
    if (lane == 0) shared().sequence = seen;
    if (lane < 8) shared().words[lane] = pair.word;
    return;
  }
}

/// Logarithm of the number of threads that copy a small item. With as many as there are for each item, all
/// items are in flight at once (NVLink latency exceeds the transfer time). Below a warp only if a thread then
/// copies at most eight words of the longest item.
__device__ __forceinline__ uint32_t log2_team(uint32_t count, uint32_t longest, uint32_t threads) {
  uint32_t log2 = 31 - __clz(blockDim.x);
  while (log2 > 0 && count << log2 > threads && (log2 > 5 || longest <= (8 * 16u) << (log2 - 1))) --log2;
  return log2;
}

/// One block's part of a batch. A team of threads copies each small item; the blocks copy the chunks of large
/// items round robin.
__device__ __forceinline__ void copy_items(const Words& command, uint32_t blocks) {
  constexpr uint32_t kSmall = 16384, kChunk = 65536;  // bytes
  const uint32_t count = min(command.items, ResidentKernelParams::kItems);
  const auto* const from = reinterpret_cast<const uint4*>(command.src);
  auto* const to = reinterpret_cast<uint4*>(shared().items);
  constexpr uint32_t kWord = sizeof(uint4);
  for (uint32_t i = threadIdx.x; i < (count * sizeof(CopyItem) + kWord - 1) / kWord; i += blockDim.x)
    to[i] = __ldcv(from + i);
  __syncthreads();
  const uint32_t log2 = log2_team(count, min(command.bytes, kSmall), blockDim.x * blocks);
  const uint32_t teams = (blockDim.x >> log2) * blocks;
  for (uint32_t i = blockIdx.x + (threadIdx.x >> log2) * blocks; i < count; i += teams)
    if (shared().items[i].bytes <= kSmall)
      copy<true>(shared().items[i].dst, shared().items[i].src, shared().items[i].bytes,
                 threadIdx.x & ((1u << log2) - 1), 1u << log2);
  if (command.bytes <= kSmall) return;
  uint32_t chunk_index = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const CopyItem& item = shared().items[i];
    if (item.bytes <= kSmall) continue;
    for (uint64_t at = 0; at < item.bytes; at += kChunk, ++chunk_index)
      if (chunk_index % blocks == blockIdx.x)
        copy<true>(item.dst + at, item.src + at, min(item.bytes - at, uint64_t{kChunk}), threadIdx.x,
                   blockDim.x);
  }
}

/// Stores the data contained in the command with one warp.
__device__ __forceinline__ void store_inline(const Words& command) {
  if (threadIdx.x < command.bytes)
    reinterpret_cast<unsigned char*>(command.dst)[threadIdx.x] =
        static_cast<unsigned char>(command.src >> 8 * threadIdx.x);
}

/// Whether items says so: CallWord::kCall and kInline are not set in a packed operation.
__device__ __forceinline__ bool is_packed(uint32_t items) { return items >> 28 == Command::kPacked >> 28; }

/// The accumulate operation in the command's words.
__device__ __forceinline__ Accumulate packed_call() {
  PackedAccumulate packed;
#pragma unroll
  for (uint32_t i = 0; i < PackedAccumulate::kAddressWords; ++i)
    packed.addresses[i] = shared().words[Command::packed_word(i)];
  packed.rest = shared().words[Command::items];
  return packed.unpack();
}

/// The accumulate operation whose address is in the command.
__device__ __forceinline__ Accumulate accumulate_at(uint64_t address) {
  static_assert(sizeof(Accumulate) % sizeof(uint64_t) == 0 && sizeof(Accumulate) <= sizeof shared().items);
  const auto* const from = reinterpret_cast<const uint64_t*>(address);
  auto* const to = reinterpret_cast<uint64_t*>(shared().items);
  for (uint32_t i = threadIdx.x; i < sizeof(Accumulate) / sizeof(uint64_t); i += blockDim.x)
    to[i] = __ldcv(from + i);
  __syncthreads();
  return *reinterpret_cast<const Accumulate*>(shared().items);
}

__device__ __forceinline__ bool is_call(const Words& command) {
  return (command.items & CallWord::kCall) != 0;
}

/// Whether a command changes memory of this GPU only: a collective, or as the host says.
__device__ __forceinline__ bool has_local_output(const Words& command) {
  if (is_packed(command.items)) return (command.items & PackedAccumulate::kOutputIsLocal) != 0;
  return is_call(command) || command.epoch == Command::own_gpu;
}

/// Makes the stores of this thread's block visible: system-wide, or on this GPU if it owns the output. All
/// readers of that memory, peers included, read it through this GPU's L2 cache.
__device__ __forceinline__ void fence(const Words& command) {
  if (has_local_output(command))
    fence_gpu();
  else
    fence_system();
}

__device__ __noinline__ void copy_unaligned(uint32_t blocks) {
  const Words command = shared().load();
  copy<true>(command.dst, command.src, command.bytes, blockIdx.x * blockDim.x + threadIdx.x,
             blocks * blockDim.x);
}

/// One block's part of a single copy. Eight blocks copy 256 KiB, the longest copy, four words a thread.
__device__ __forceinline__ void serve_copy(uint32_t blocks) {
  const Words command = shared().load();
  if (((command.dst | command.src | command.bytes) & 15) != 0) return copy_unaligned(blocks);
  copy_words<true, 4>(reinterpret_cast<uint4*>(command.dst), reinterpret_cast<const uint4*>(command.src),
                      command.bytes / 16, block_id() * blockDim.x + thread_id(), blocks * blockDim.x);
}

/// One block's part of a command other than a single copy.
__device__ __forceinline__ void serve_other(uint64_t slot_configs, uint32_t blocks) {
  const Words command = shared().load();
  if (is_call(command)) {
    const bool late = serve_call(slot_configs, shared().words, shared().config, blockIdx.x, blocks);
    if (threadIdx.x == 0) shared().late = late;
  } else if (is_packed(command.items) || command.items == Command::kAccumulate) {
    const Accumulate call = is_packed(command.items) ? packed_call() : accumulate_at(command.src);
    for (uint64_t i = threadIdx.x; i < call.count; i += blockDim.x) accumulate_element<true>(call, i);
  } else {
    copy_items(command, blocks);
  }
}

/// The first warp executes a command other than a single copy, if it has at most one element or vector for
/// each lane. Afterwards the result is visible.
__device__ __noinline__ bool serve_short_other(uint64_t slot_configs) {
  const Words command = shared().load();
  const uint32_t lane = threadIdx.x & 31;
  if (is_vec16_call(shared().words)) {
    serve_vec16_call(slot_configs, shared().words, shared().config);
    return true;
  }
  if (command.items == Command::kInline) {
    store_inline(command);
  } else if (is_packed(command.items) && PackedAccumulate::count_of(command.items) <= 32) {
    const Accumulate call = packed_call();
    if (lane < call.count) accumulate_element<true>(call, lane);
  } else {
    return false;
  }
  __syncwarp();
  if (lane == 0) fence(command);
  return true;
}

/// The first warp executes a single copy of at most one word for each lane, which is visible afterwards.
/// Returns false for others.
__device__ __forceinline__ bool copy_short(const Words& command) {
  const auto copy = ShortCopy::of(command.dst, command.src, command.bytes);
  if (command.items != 0 || copy.count == 0) return false;
  // To a peer a round trip is shorter than a system-wide fence; to host memory it is longer.
  const bool to_peer = command.epoch == Command::peer_gpu;
  const uint32_t lane = lane_id();
  const bool arrived = copy.run(lane, to_peer);
  if (to_peer && __all_sync(~0u, arrived)) return true;
  __syncwarp();
  if (lane == 0) fence(command);
  return true;
}

/// Relays the command in shared memory to the other blocks.
__device__ __forceinline__ void relay(uint32_t sequence) {
  const uint32_t lane = lane_id();
  if (lane < 8) store_pair(&memory().relay.pairs[lane], shared().words[lane], sequence);
}

/// First warp of block 0: executes short copies and publishes each. Leaves the next other command in shared
/// memory and returns whether it is a single copy or the end.
__device__ __forceinline__ bool take_long() {
  const uint64_t born = shared().born;
  uint32_t number = shared().number;
  Words command;
  for (;;) {
    command = take(++number, born);
    if (command.blocks == 0 || !copy_short(command)) break;
    if (lane_id() == 0) publish(number);
    __syncwarp();
  }
  if (lane_id() == 0) shared().number = number;
  __syncwarp();
  return command.blocks == 0 || command.items == 0;
}

/// First warp of block 0: executes short commands, publishes each, and leaves the next other one in shared
/// memory, relayed if several blocks share it.
__device__ __noinline__ void lead() {
  while (!take_long() && serve_short_other(shared().params.slot_configs)) {
    if (lane_id() == 0) publish(shared().number);
    __syncwarp();
  }
  const uint32_t blocks = shared().words[Command::blocks];
  // The end is relayed even by a single block: the words in memory may be those of an earlier instance.
  if (blocks == 0) return relay(tag(shared().params.instance, shared().number));
  if (gridDim.x == 1 || blocks == 1) return;
  // Blocks that are not scheduled yet must not be waited for.
  bool present = shared().all_present;
  if (!present) {
    present = *static_cast<volatile uint32_t*>(&memory().present) == gridDim.x - 1;
    if (lane_id() == 0) shared().all_present = present;
  }
  if (present) return relay(tag(shared().params.instance, shared().number));
  if (lane_id() == 0) shared().words[Command::blocks] = 1;
}

/// Thread 0 of block 0: waits for the other blocks of a command. Returns whether any timed out.
__device__ __forceinline__ bool gather(uint32_t others) {
  constexpr uint32_t kLate = ResidentKernelParams::Memory::kLate;
  const uint32_t before = shared().arrived;
  uint32_t arrived;
  do arrived = *static_cast<volatile uint32_t*>(&memory().arrived);
  while ((arrived - before) % kLate != others);
  shared().arrived = arrived;
  return arrived - before >= kLate;
}

/// Thread 0 of a block, after its part of a command.
__device__ __forceinline__ void complete() {
  const Words command = shared().load();
  const uint32_t blocks = command.blocks, block = block_id();
  if (block >= blocks) return;
  bool late = is_call(command) && shared().late;
  if (block != 0) {
    fence(command);
    atomicAdd(&memory().arrived, late ? ResidentKernelParams::Memory::kLate + 1 : 1);
    return;
  }
  // The fences of all blocks overlap. Each returns when the stores of its block are visible.
  if (!is_call(command)) fence(command);
  if (blocks > 1) late = gather(blocks - 1) || late;
  if (is_call(command)) end_call(shared().config.call, command.epoch, late);
  publish(shared().number);
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
  if (thread_id() == 0) {
    shared().params = params;
    shared().arrived = memory().arrived;
    shared().config.owner = 0;
    shared().born = nanoseconds();
    shared().number = params.first - 1;
    shared().sequence = tag(params.instance, params.first - 1);
    shared().all_present = false;
    if (block_id() == 0)
      publish(params.first - 1);
    else
      atomicAdd(&memory().present, 1);
  }
  __syncthreads();
  for (;;) {
    if (thread_id() < 32) {
      if (block_id() == 0)
        lead();
      else
        take_relayed();
    }
    __syncthreads();
    const uint32_t blocks = shared().words[Command::blocks];
    if (blocks == 0) break;
    if (block_id() < blocks) {
      if (shared().words[Command::items] == 0)
        serve_copy(blocks);
      else
        serve_other(shared().params.slot_configs, blocks);
    }
    __syncthreads();
    if (thread_id() == 0) complete();
    __syncwarp();
  }
  if (thread_id() != 0) return;
  if (block_id() == 0)
    publish(shared().number - 1, 0);
  else
    atomicSub(&memory().present, 1);
}

}  // namespace weft::device::kernel
