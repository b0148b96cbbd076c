// SPDX-License-Identifier: BSD-3-Clause
// Contract between host code, window.cu and the emulated driver: accumulate operations of windows in GPU
// memory. Each element is changed by an atomic operation at system scope, so that kernels of several GPUs and
// processes, and the device functions of weft_device.cuh, may change it at the same time. C++17.
#pragma once
#include "device/kernel/element.hpp"

namespace weft::device::kernel {

/// Parameter of `weft_accumulate(Accumulate)`. Target elements lie in blocks at a constant distance; operands
/// and results are contiguous. All addresses are multiples of `size`.
struct Accumulate {
  enum Kind : uint32_t {
    combine,      ///< target = origin op target
    replace,      ///< target = origin
    fetch,        ///< only reads
    compare_swap  ///< target = origin where target equals compare, bit for bit
  };
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kBlocks = 528;  ///< at most: four for each multiprocessor of a large GPU
  uint64_t target;
  uint64_t origin;   ///< not read by `fetch`
  uint64_t compare;  ///< compare_swap
  uint64_t result;   ///< gets the values before; 0: none
  uint64_t count;    ///< of elements
  uint64_t block;    ///< elements in a block, at least 1
  int64_t stride;    ///< bytes between the starts of blocks
  Reduction reduction;
  uint32_t size;  ///< of an element: 1, 2, 4 or 8
  Kind kind;

  /// Address of the target element `i`.
  WEFT_INLINE uint64_t at(uint64_t i) const {
    return i < block
               ? target + i * size
               : target + static_cast<uint64_t>(static_cast<int64_t>(i / block) * stride) + i % block * size;
  }
};

/// A small operation on one block in the words of a command of the resident kernel (kernel/copy.hpp), which
/// so needs no second read over PCIe: four addresses of 48 bits, and the rest in Command::items.
struct PackedAccumulate {
  static constexpr uint32_t kAddressWords = 6, kMaxCount = 1024;
  uint32_t addresses[kAddressWords];                    ///< in the words Command::packed_word(i)
  uint32_t rest;                                        ///< 28 bits
  static constexpr uint32_t kOutputIsLocal = 1u << 23;  ///< in `rest`: only memory of this GPU changes

  /// Whether the operation can be packed.
  [[nodiscard]] static bool fits(const Accumulate& call) {
    return (call.target | call.origin | call.compare | call.result) >> 48 == 0 && call.count != 0 &&
           call.count <= kMaxCount && call.count <= call.block;
  }
  /// Precondition: fits(call).
  [[nodiscard]] static PackedAccumulate pack(const Accumulate& call) {
    PackedAccumulate packed{};
    put_pair(packed.addresses, call.target, call.origin);
    put_pair(packed.addresses + 3, call.compare, call.result);
    const uint32_t log2_size = call.size == 8 ? 3 : call.size == 4 ? 2 : call.size == 2 ? 1 : 0;
    packed.rest = static_cast<uint32_t>(call.count - 1) | log2_size << 10 |
                  static_cast<uint32_t>(call.kind) << 12 | static_cast<uint32_t>(call.reduction.op) << 14 |
                  static_cast<uint32_t>(call.reduction.element) << 18;
    return packed;
  }
  [[nodiscard]] WEFT_INLINE static uint32_t count_of(uint32_t rest) { return (rest & 1023) + 1; }
  [[nodiscard]] WEFT_INLINE Accumulate unpack() const {
    Accumulate call{};
    call.target = first(addresses);
    call.origin = second(addresses);
    call.compare = first(addresses + 3);
    call.result = second(addresses + 3);
    call.count = call.block = count_of(rest);
    call.size = 1u << (rest >> 10 & 3);
    call.kind = static_cast<Accumulate::Kind>(rest >> 12 & 3);
    call.reduction = {static_cast<ReduceOp>(rest >> 14 & 15), static_cast<Element>(rest >> 18 & 31)};
    return call;
  }

 private:
  static void put_pair(uint32_t* words, uint64_t one, uint64_t other) {
    words[0] = static_cast<uint32_t>(one);
    words[1] = static_cast<uint32_t>(one >> 32) | static_cast<uint32_t>(other << 16);
    words[2] = static_cast<uint32_t>(other >> 16);
  }
  WEFT_INLINE static uint64_t first(const uint32_t* words) {
    return static_cast<uint64_t>(words[1] & 0xffff) << 32 | words[0];
  }
  WEFT_INLINE static uint64_t second(const uint32_t* words) {
    return static_cast<uint64_t>(words[2]) << 16 | words[1] >> 16;
  }
};
static_assert(element::kReduceOpCount <= 16 && static_cast<int>(Element::none) < 32);

namespace detail {

/// Stores `next` if the word is `expected`; returns the word before.
template <class Word>
WEFT_INLINE Word compare_swap(uint64_t address, Word expected, Word next) {
#ifdef __CUDA_ARCH__
  return atomicCAS_system(reinterpret_cast<Word*>(address), expected, next);
#else
  __atomic_compare_exchange_n(reinterpret_cast<Word*>(address), &expected, next, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_ACQUIRE);
  return expected;
#endif
}

/// Bypasses the L1 cache. `fresh`: and the copies of host memory in the L2 cache, which may be older than a
/// command of the resident kernel; the GPU then reads words of host memory one by one.
template <bool fresh, class Word>
WEFT_INLINE Word read_word(uint64_t address) {
#ifdef __CUDA_ARCH__
  return fresh ? __ldcv(reinterpret_cast<const Word*>(address))
               : __ldcg(reinterpret_cast<const Word*>(address));
#else
  return *reinterpret_cast<const volatile Word*>(address);
#endif
}

template <bool fresh>
WEFT_INLINE uint64_t read_element(uint64_t address, uint32_t size) {
  if (size == 8) return read_word<fresh, unsigned long long>(address);
  if (size == 4) return read_word<fresh, unsigned>(address);
  if (size == 2) return read_word<fresh, unsigned short>(address);
  return read_word<fresh, unsigned char>(address);
}

WEFT_INLINE void write_element(uint64_t address, uint32_t size, uint64_t value) {
  if (size == 8)
    *reinterpret_cast<unsigned long long*>(address) = value;
  else if (size == 4)
    *reinterpret_cast<unsigned*>(address) = static_cast<unsigned>(value);
  else if (size == 2)
    *reinterpret_cast<unsigned short*>(address) = static_cast<unsigned short>(value);
  else
    *reinterpret_cast<unsigned char*>(address) = static_cast<unsigned char>(value);
}

/// compare_swap() for an element of any size: small ones with the word that contains them.
WEFT_INLINE uint64_t compare_swap_element(uint64_t address, uint32_t size, uint64_t expected, uint64_t next) {
  if (size == 8) return compare_swap<unsigned long long>(address, expected, next);
  if (size == 4)
    return compare_swap<unsigned>(address, static_cast<unsigned>(expected), static_cast<unsigned>(next));
  const auto shift = static_cast<uint32_t>(address % 4 * 8);
  const uint64_t word = address / 4 * 4;
  const uint32_t mask = (size == 2 ? 0xffffu : 0xffu) << shift;
  auto now = read_word<false, unsigned>(word);
  for (;;) {
    const uint32_t here = (now & mask) >> shift;
    if (here != expected) return here;
    const unsigned seen =
        compare_swap<unsigned>(word, now, (now & ~mask) | (static_cast<unsigned>(next) << shift & mask));
    if (seen == now) return expected;
    now = seen;
  }
}

/// a op b of one element.
WEFT_INLINE uint64_t combine_element(Reduction reduction, uint64_t a, uint64_t b) {
  uint64_t both = 0;
  visit(reduction, [&](auto term) {
    using Operation = decltype(term);
    if constexpr (sizeof(typename Operation::Lane) <= sizeof both) both = Operation::of_element(a, b);
  });
  return both;
}

/// Sums by the GPU's own atomic operations. Returns false for other types.
WEFT_INLINE bool add_element(const Accumulate& p, uint64_t address, uint64_t value, uint64_t& before) {
#ifdef __CUDA_ARCH__
  if (p.kind != Accumulate::combine || p.reduction.op != ReduceOp::sum) return false;
  switch (p.reduction.element) {
    case Element::float32:
      before = __float_as_uint(
          atomicAdd_system(reinterpret_cast<float*>(address), __uint_as_float(static_cast<unsigned>(value))));
      return true;
    case Element::float64:
      before = static_cast<uint64_t>(__double_as_longlong(atomicAdd_system(
          reinterpret_cast<double*>(address), __longlong_as_double(static_cast<long long>(value)))));
      return true;
    case Element::int32:
      before = atomicAdd_system(reinterpret_cast<unsigned*>(address), static_cast<unsigned>(value));
      return true;
    case Element::int64:
      before = atomicAdd_system(reinterpret_cast<unsigned long long*>(address), value);
      return true;
    default:
      return false;
  }
#else
  (void)p, (void)address, (void)value, (void)before;
  return false;
#endif
}

/// The same without the values before, which would cross the link. Returns false for other types.
WEFT_INLINE bool add_without_result(const Accumulate& p, uint64_t address, uint64_t value) {
#ifdef __CUDA_ARCH__
  if (p.kind != Accumulate::combine || p.reduction.op != ReduceOp::sum) return false;
  const auto low = static_cast<unsigned>(value);
  switch (p.reduction.element) {
    case Element::float32:
      asm volatile("red.relaxed.sys.global.add.f32 [%0], %1;" ::"l"(address), "f"(__uint_as_float(low))
                   : "memory");
      return true;
    case Element::float64:
      asm volatile("red.relaxed.sys.global.add.f64 [%0], %1;" ::"l"(address),
                   "d"(__longlong_as_double(static_cast<long long>(value)))
                   : "memory");
      return true;
    case Element::int32:
      asm volatile("red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(address), "r"(low) : "memory");
      return true;
    case Element::int64:
      asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
      return true;
    default:
      return false;
  }
#else
  (void)p, (void)address, (void)value;
  return false;
#endif
}

/// Replaces a word. Returns false for other operations and smaller elements.
WEFT_INLINE bool exchange_element(const Accumulate& p, uint64_t address, uint64_t value, uint64_t& before) {
#ifdef __CUDA_ARCH__
  if (p.kind != Accumulate::replace || p.size < 4) return false;
  before = p.size == 8
               ? atomicExch_system(reinterpret_cast<unsigned long long*>(address), value)
               : atomicExch_system(reinterpret_cast<unsigned*>(address), static_cast<unsigned>(value));
  return true;
#else
  (void)p, (void)address, (void)value, (void)before;
  return false;
#endif
}

}  // namespace detail

/// Executes the operation on element `i`. Sums, compare-and-swap and replacement of words take one round trip
/// to the memory. `fresh`: of the operands, see read_word().
template <bool fresh>
WEFT_INLINE void accumulate_element(const Accumulate& p, uint64_t i) {
  const uint64_t address = p.at(i);
  const uint64_t value =
      p.kind == Accumulate::fetch ? 0 : detail::read_element<fresh>(p.origin + i * p.size, p.size);
  uint64_t before = 0;
  if (p.result == 0 && detail::add_without_result(p, address, value)) return;
  if (p.kind == Accumulate::compare_swap) {
    const uint64_t expected = detail::read_element<fresh>(p.compare + i * p.size, p.size);
    before = detail::compare_swap_element(address, p.size, expected, value);
  } else if (!detail::add_element(p, address, value, before) &&
             !detail::exchange_element(p, address, value, before)) {
    before = detail::read_element<false>(address, p.size);
    while (p.kind != Accumulate::fetch) {
      const uint64_t next =
          p.kind == Accumulate::combine ? detail::combine_element(p.reduction, value, before) : value;
      const uint64_t seen = detail::compare_swap_element(address, p.size, before, next);
      if (seen == before) break;
      before = seen;
    }
  }
  if (p.result != 0) detail::write_element(p.result + i * p.size, p.size, before);
}

}  // namespace weft::device::kernel
