// SPDX-License-Identifier: BSD-3-Clause
#include "transport/rma/atomic.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

namespace weft::transport::rma {
namespace {

template <class T>
uint64_t bits_of(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T value_of(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Signed sums and products wrap around.
template <class T>
T combine(AtomicOp op, T current, T operand) {
  if constexpr (std::is_integral_v<T>) {
    using Bits = std::make_unsigned_t<T>;
    const auto a = static_cast<Bits>(current), b = static_cast<Bits>(operand);
    switch (op) {
      case AtomicOp::sum:
        return static_cast<T>(a + b);
      case AtomicOp::product:
        return static_cast<T>(a * b);
      case AtomicOp::bit_and:
        return static_cast<T>(a & b);
      case AtomicOp::bit_or:
        return static_cast<T>(a | b);
      case AtomicOp::bit_xor:
        return static_cast<T>(a ^ b);
      default:
        break;
    }
  }
  switch (op) {
    case AtomicOp::no_op:
      return current;
    case AtomicOp::sum:
      return current + operand;
    case AtomicOp::product:
      return current * operand;
    case AtomicOp::min:
      return std::min(current, operand);
    case AtomicOp::max:
      return std::max(current, operand);
    default:
      return operand;  // replace
  }
}

template <class T>
uint64_t apply_as(const Atomic& atomic, uint64_t current) {
  if (atomic.op == AtomicOp::compare_swap)
    return bits_of(value_of<T>(
        bits_of(value_of<T>(current)) == bits_of(value_of<T>(atomic.compare)) ? atomic.operand : current));
  return bits_of(combine(atomic.op, value_of<T>(current), value_of<T>(atomic.operand)));
}

/// `Bits`: unsigned integer of the operation's size.
template <class Bits>
uint64_t execute_as(const Atomic& atomic, void* address) {
  const std::atomic_ref<Bits> memory(*static_cast<Bits*>(address));
  const auto operand = static_cast<Bits>(atomic.operand);
  const bool integral = atomic.type != AtomicType::float32 && atomic.type != AtomicType::float64;
  if (atomic.op == AtomicOp::sum && integral) return memory.fetch_add(operand);
  if (atomic.op == AtomicOp::replace) return memory.exchange(operand);
  if (atomic.op == AtomicOp::no_op) return memory.load();
  Bits before = memory.load();
  while (!memory.compare_exchange_weak(before, static_cast<Bits>(apply(atomic, before)))) {
  }
  return before;
}

}  // namespace

bool valid(const Atomic& atomic) {
  if (atomic.op > AtomicOp::compare_swap || atomic.type > AtomicType::float64) return false;
  const bool bitwise =
      atomic.op == AtomicOp::bit_and || atomic.op == AtomicOp::bit_or || atomic.op == AtomicOp::bit_xor;
  return !bitwise || (atomic.type != AtomicType::float32 && atomic.type != AtomicType::float64);
}

uint64_t apply(const Atomic& atomic, uint64_t current) {
  switch (atomic.type) {
    case AtomicType::int32:
      return apply_as<int32_t>(atomic, current);
    case AtomicType::uint32:
      return apply_as<uint32_t>(atomic, current);
    case AtomicType::float32:
      return apply_as<float>(atomic, current);
    case AtomicType::int64:
      return apply_as<int64_t>(atomic, current);
    case AtomicType::uint64:
      return apply_as<uint64_t>(atomic, current);
    case AtomicType::float64:
      return apply_as<double>(atomic, current);
  }
  return current;
}

uint64_t execute(const Atomic& atomic, void* address) {
  return size_of(atomic.type) == 4 ? execute_as<uint32_t>(atomic, address)
                                   : execute_as<uint64_t>(atomic, address);
}

}  // namespace weft::transport::rma
