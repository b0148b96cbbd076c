// SPDX-License-Identifier: BSD-3-Clause
// The kernel of enqueued sends and receives: one leading block per operation, and helper blocks that copy
// chunks.
#include "device/kernel/copy_device.cuh"
#include "device/kernel/enqueue.hpp"
#include "device/kernel/enqueue_protocol.hpp"
#include "device/kernel/runs_device.cuh"

namespace weft::device::kernel::enqueue {
namespace {

/// Memory access of the protocol on a GPU.
struct Env {
  template <class T>
  __device__ T* at(uint64_t address) const {
    return reinterpret_cast<T*>(address);
  }
  __device__ uint32_t peek(const uint32_t* from) const {
    uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
  }
  __device__ uint32_t load(const uint32_t* from) const {
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
  }
  /// For other blocks of this GPU.
  __device__ void store(uint32_t* to, uint32_t value) const {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
  }
  __device__ void signal(uint32_t* to, uint32_t value) const {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
  }
  /// For the peer: releases all earlier stores of the block.
  __device__ void publish(uint32_t* to, uint32_t value) const {
    asm volatile("fence.acq_rel.sys; st.relaxed.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
  }
  __device__ void fence() const { __threadfence_system(); }
  __device__ void put(LLPacket* to, uint32_t flag, uint64_t data) const {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %3, %2, %3};" ::"l"(to),
                 "r"(static_cast<uint32_t>(data)), "r"(static_cast<uint32_t>(data >> 32)), "r"(flag)
                 : "memory");
  }
  __device__ bool get(const LLPacket* from, uint32_t flag, uint64_t& data) const {
    LLPacket packet;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(packet.low), "=r"(packet.low_flag), "=r"(packet.high), "=r"(packet.high_flag)
                 : "l"(from)
                 : "memory");
    data = static_cast<uint64_t>(packet.high) << 32 | packet.low;
    return packet.low_flag == flag && packet.high_flag == flag;
  }
  __device__ uint32_t add(uint32_t* to, uint32_t value) const {
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(to), "r"(value)
                 : "memory");
    return before;
  }
  __device__ bool exchange(uint32_t* at, uint32_t expected, uint32_t value) const {
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(before)
                 : "l"(at), "r"(expected), "r"(value)
                 : "memory");
    return before == expected;
  }
};

/// Both sides of a step that moves, at least one of them with a layout. One thread sets them, before the
/// others move.
struct StepSides {
  RunsSide to, from;
  uint32_t word;
  __device__ void set(const Step& step, const Runs* layouts) {
    word = layouts[(step.to_layout != 0 ? step.to_layout : step.from_layout) - 1].word;
    to = side(step.to, step.to_layout, layouts, step);
    from = side(step.from, step.from_layout, layouts, step);
  }

 private:
  __device__ RunsSide side(uint64_t address, uint32_t layout, const Runs* layouts, const Step& step) const {
    if (layout == 0) return {address, contiguous_runs(word), 0};
    return {address, layouts[layout - 1], static_cast<uint32_t>(step.at / word)};
  }
};

/// A step with layouts; with two, both have the same words. A message that is shorter than its receive may
/// end within a word.
__device__ void move_layouts(const Step& step, const StepSides& sides) {
  const uint32_t word = sides.word;
  const auto n = static_cast<uint32_t>(step.bytes / word), rest = static_cast<uint32_t>(step.bytes % word);
  move_words(sides.to, sides.from, n, word);
  if (threadIdx.x < rest)
    *reinterpret_cast<unsigned char*>(sides.to.at(n) + threadIdx.x) =
        __ldcv(reinterpret_cast<const unsigned char*>(sides.from.at(n) + threadIdx.x));
}

template <bool kLayouts>
__device__ void write_inline(const Env& env, const Step& step, const Runs* layouts) {
  auto* const packets = reinterpret_cast<LLPacket*>(step.packets);
  for (uint64_t i = threadIdx.x; 8 * i < step.bytes; i += blockDim.x) {
    if (kLayouts && step.from_layout != 0)
      env.put(packets + i, step.flag,
              gather(layouts[step.from_layout - 1], step.from, 8 * i, step.bytes - 8 * i));
    else
      env.put(packets + i, step.flag, gather(step.from + 8 * i, step.bytes - 8 * i));
  }
}

/// Polls between two looks at the cancel word, which is in host memory.
constexpr uint32_t kPollsPerCancelCheck = 4096;

template <bool kLayouts>
__device__ void read_inline(const Env& env, const Step& step, const Runs* layouts, Protocol<Env>& protocol) {
  const auto* const packets = reinterpret_cast<const LLPacket*>(step.packets);
  for (uint64_t i = threadIdx.x; 8 * i < step.bytes; i += blockDim.x) {
    uint64_t data;
    for (uint32_t polls = 1; !env.get(packets + i, step.flag, data); ++polls)
      if (polls % kPollsPerCancelCheck == 0 && protocol.cancelled()) return;
    if (kLayouts && step.to_layout != 0)
      scatter(layouts[step.to_layout - 1], step.to, 8 * i, step.bytes - 8 * i, data);
    else
      scatter(step.to + 8 * i, step.bytes - 8 * i, data);
  }
}

/// One thread: waits for the next step.
__device__ Step await(Protocol<Env>& protocol, bool leads, uint32_t i, uint32_t& phase, DrawnChunk& held) {
  for (uint32_t polls = 1;; ++polls) {
    Step step = leads ? protocol.next(i, phase, held) : protocol.help(held);
    if (step.what == Step::finish) protocol.count(i);
    if (step.what != Step::nothing) return step;
    const bool looks = polls % kPollsPerCancelCheck == 0;
    if (looks && leads) protocol.beat(i);
    if ((leads ? protocol.may_leave(i) : protocol.all_finished()) || (looks && protocol.cancelled())) {
      step.what = Step::finish;
      return step;
    }
    if (!leads && held.op == DrawnChunk::kNone) __nanosleep(200);
  }
}

/// `layouts`: null unless kLayouts.
template <bool kLayouts>
__device__ void run(const Head& head, const Op* ops, const Runs* layouts) {
  __shared__ Step step;
  __shared__ StepSides sides;
  Env env;
  Protocol<Env> protocol(env, head, ops);
  const bool leads = blockIdx.x < head.count;
  const uint32_t i = blockIdx.x;
  uint32_t phase = threadIdx.x == 0 && leads ? protocol.begin(i) : 0;
  DrawnChunk held;
  for (;;) {
    if (threadIdx.x == 0) {
      step = await(protocol, leads, i, phase, held);
      if (step.what == Step::write_inline) protocol.write_header(step);
      if (kLayouts && step.what == Step::move && (step.to_layout | step.from_layout) != 0)
        sides.set(step, layouts);
    }
    __syncthreads();
    if (step.what == Step::finish) break;
    if (step.what == Step::write_inline) write_inline<kLayouts>(env, step, layouts);
    if (step.what == Step::read_inline) read_inline<kLayouts>(env, step, layouts, protocol);
    // Chunk buffers change while the kernel runs, so loads bypass the L1 cache.
    if (step.what == Step::move) {
      if (kLayouts && (step.to_layout | step.from_layout) != 0)
        move_layouts(step, sides);
      else
        copy<true>(step.to, step.from, step.bytes, threadIdx.x, blockDim.x);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      protocol.performed(step);
      phase = protocol.phase_after(step);
    }
  }
  if (threadIdx.x == 0) protocol.leave();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(512) weft_enqueue(const __grid_constant__ Batch batch) {
  run<false>(batch.head, batch.ops, nullptr);
}

extern "C" __global__ void __launch_bounds__(512) weft_enqueue_layouts(const __grid_constant__ Batch batch) {
  run<true>(batch.head, batch.ops, batch.layouts());
}

extern "C" __global__ void __launch_bounds__(512) weft_enqueue_small(const __grid_constant__ SmallBatch few) {
  run<false>(few.head, few.ops, nullptr);
}

}  // namespace weft::device::kernel::enqueue
