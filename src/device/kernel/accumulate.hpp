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

/// Bypasses the L1 cache. Not volatile: the GPU reads volatile words of host memory one by one.
template <class Word>
WEFT_INLINE Word read_word(uint64_t address) {
#ifdef __CUDA_ARCH__
  return __ldcg(reinterpret_cast<const Word*>(address));
#else
  return *reinterpret_cast<const volatile Word*>(address);
#endif
}

WEFT_INLINE uint64_t read_element(uint64_t address, uint32_t size) {
  if (size == 8) return read_word<unsigned long long>(address);
  if (size == 4) return read_word<unsigned>(address);
  if (size == 2) return read_word<unsigned short>(address);
  return read_word<unsigned char>(address);
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
  auto now = read_word<unsigned>(word);
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
  const Vec16 left{{static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32), 0, 0}},
      right{{static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32), 0, 0}};
  const Vec16 both = combine(reduction, left, right);
  return uint64_t{both.words[1]} << 32 | both.words[0];
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

}  // namespace detail

/// Executes the operation on element `i`.
WEFT_INLINE void accumulate_element(const Accumulate& p, uint64_t i) {
  const uint64_t address = p.at(i);
  const uint64_t value =
      p.kind == Accumulate::fetch ? 0 : detail::read_element(p.origin + i * p.size, p.size);
  uint64_t before = 0;
  if (!detail::add_element(p, address, value, before)) {
    const uint64_t expected =
        p.kind == Accumulate::compare_swap ? detail::read_element(p.compare + i * p.size, p.size) : 0;
    before = detail::read_element(address, p.size);
    while (p.kind != Accumulate::fetch && (p.kind != Accumulate::compare_swap || before == expected)) {
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
