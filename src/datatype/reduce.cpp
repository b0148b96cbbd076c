// SPDX-License-Identifier: BSD-3-Clause
// Host reduction loops: one function per allowed (operation, type) of base/element/reduce.hpp. Compiled with
// -O3 so that the loops vectorise.
#include "datatype/reduce.hpp"

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

namespace weft::datatype {
namespace {

using element::Apply;

template <class T>
struct IsPair : std::false_type {};
template <class V, class I>
struct IsPair<Pair<V, I>> : std::true_type {};
template <class T>
struct IsComplex : std::false_type {};
template <class T>
struct IsComplex<Complex<T>> : std::true_type {};

/// An element without alignment or aliasing assumptions.
template <class T>
struct __attribute__((packed, may_alias)) Unaligned {
  T value;
};

// Iterations are independent: `result` overlaps an input only at the same element.
#ifdef __clang__
#define WEFT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define WEFT_INDEPENDENT _Pragma("GCC ivdep")
#endif

/// Vector instructions that loops are compiled for. Results are equal bit by bit: nothing is contracted. (GCC
/// 12 contracts complex products if it may use AVX-512, whatever its options say.)
/// selected: AVX-512 where it has an instruction that AVX2 lacks. Zen 4 executes an instruction on 512 bits
/// as two, and its loops over arrays in the cache take 1.13 times as long with them.
enum class Vectors : uint8_t { baseline, avx2, selected, avx512 };
#if defined(__x86_64__) || defined(__i386__)
constexpr size_t kVectorLevels = 4;
#define WEFT_AVX2 __attribute__((target("avx2")))
#define WEFT_AVX512 __attribute__((target("avx2,avx512f,avx512bw")))
#else
constexpr size_t kVectorLevels = 1;
#define WEFT_AVX2
#define WEFT_AVX512
#endif

template <ReduceOp op, class T>
__attribute__((always_inline)) inline void loop_over(const void* left, const void* right, void* result,
                                                     size_t count) {
  const auto* a = static_cast<const Unaligned<T>*>(left);
  const auto* b = static_cast<const Unaligned<T>*>(right);
  auto* to = static_cast<Unaligned<T>*>(result);
  WEFT_INDEPENDENT
  for (size_t i = 0; i < count; ++i)
    to[i].value = element::narrow<T>(Apply<op>::of(element::widen(a[i].value), element::widen(b[i].value)));
}

template <ReduceOp op, class T>
void loop(const void* left, const void* right, void* result, size_t count) {
  loop_over<op, T>(left, right, result, count);
}
template <ReduceOp op, class T>
WEFT_AVX2 void loop_avx2(const void* left, const void* right, void* result, size_t count) {
  loop_over<op, T>(left, right, result, count);
}
template <ReduceOp op, class T>
WEFT_AVX512 void loop_avx512(const void* left, const void* right, void* result, size_t count) {
  loop_over<op, T>(left, right, result, count);
}

template <class T>
void replace(const void* left, const void*, void* result, size_t count) {
  std::memcpy(result, left, count * sizeof(T));
}

template <class T>
void no_operation(const void*, const void* right, void* result, size_t count) {
  std::memmove(result, right, count * sizeof(T));
}

template <class Member>
Member load(const char* from) {
  Member value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Copies value and index separately: the padding must not change.
template <class P>
void put_pair(char* to, const char* from) {
  std::memcpy(to, from, sizeof(P::value));
  std::memcpy(to + offsetof(P, index), from + offsetof(P, index), sizeof(P::index));
}

template <class P>
P load_pair(const char* from) {
  return {load<decltype(P::value)>(from), load<decltype(P::index)>(from + offsetof(P, index))};
}

template <ReduceOp op, class P>
void pair_loop(const void* left, const void* right, void* result, size_t count) {
  const char *a = static_cast<const char*>(left), *b = static_cast<const char*>(right);
  char* to = static_cast<char*>(result);
  for (size_t i = 0; i < count; ++i, a += sizeof(P), b += sizeof(P), to += sizeof(P)) {
    const P first = load_pair<P>(a), second = load_pair<P>(b);
    const bool take_left = op == ReduceOp::replace  ? true
                           : op == ReduceOp::minloc ? element::minloc_selects(first, second)
                                                    : element::maxloc_selects(first, second);
    put_pair<P>(to, take_left ? a : b);
  }
}

/// Whether AVX2 lacks an instruction: comparisons to masks, order of 64-bit integers, conversion of bfloat16.
template <ReduceOp op, class T>
constexpr bool gains_by_avx512() {
  const bool logical = op == ReduceOp::land || op == ReduceOp::lor || op == ReduceOp::lxor;
  const bool orders = op == ReduceOp::min || op == ReduceOp::max;
  return logical || (orders && std::is_integral_v<T> && sizeof(T) == 8) ||
         std::is_same_v<T, element::BFloat16>;
}

template <ReduceOp op, class T, Group group, Vectors vectors>
constexpr ReduceFn function_for() {
  if constexpr (!allowed(op, group))
    return nullptr;
  else if constexpr (op == ReduceOp::no_op)
    return no_operation<T>;
  else if constexpr (IsPair<T>::value)
    return pair_loop<op, T>;
  else if constexpr (op == ReduceOp::replace)
    return replace<T>;
  else if constexpr (vectors == Vectors::baseline)
    return loop<op, T>;
  else if constexpr (vectors == Vectors::avx2 || IsComplex<T>::value ||
                     (vectors == Vectors::selected && !gains_by_avx512<op, T>()))
    return loop_avx2<op, T>;
  else
    return loop_avx512<op, T>;
}

template <class T, Group group, Vectors vectors, size_t... op>
constexpr std::array<ReduceFn, kReduceOpCount> row(std::index_sequence<op...>) {
  return {function_for<static_cast<ReduceOp>(op), T, group, vectors>()...};
}

using Table = std::array<std::array<ReduceFn, kReduceOpCount>, kBasicCount>;
template <Vectors vectors>
constexpr Table table() {
  return {
#define WEFT_X(name, type, group) \
  row<type, Group::group, vectors>(std::make_index_sequence<kReduceOpCount>()),
      WEFT_BASIC_TYPES(WEFT_X)
#undef WEFT_X
  };
}

template <size_t... level>
constexpr std::array<Table, sizeof...(level)> tables(std::index_sequence<level...>) {
  return {table<static_cast<Vectors>(level)>()...};
}
constexpr std::array<Table, kVectorLevels> kTables = tables(std::make_index_sequence<kVectorLevels>());

const Table* g_table = kTables.data();  // for initialisers of other files that run earlier
[[maybe_unused]] const bool g_table_found = (g_table = &kTables[vector_levels() - 1], true);

}  // namespace

size_t vector_levels() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
    return __builtin_cpu_is("amdfam19h") ? 3 : 4;
  if (__builtin_cpu_supports("avx2")) return 2;
#endif
  return 1;
}

ReduceFn reduce_function_for(size_t level, ReduceOp op, Basic basic) {
  return kTables[level][static_cast<size_t>(reduction_type(basic))][static_cast<size_t>(op)];
}

ReduceFn reduce_function(ReduceOp op, Basic basic) {
  return (*g_table)[static_cast<size_t>(reduction_type(basic))][static_cast<size_t>(op)];
}

const char* name(ReduceOp op) {
  static constexpr const char* kNames[kReduceOpCount] = {"sum",    "min",    "max",     "prod", "band",
                                                         "bor",    "bxor",   "land",    "lor",  "lxor",
                                                         "minloc", "maxloc", "replace", "no_op"};
  return kNames[static_cast<size_t>(op)];
}

}  // namespace weft::datatype
