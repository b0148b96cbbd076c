// SPDX-License-Identifier: BSD-3-Clause
// Atomic operations on 4 and 8 bytes of host memory, as the initiator executes them on mapped memory and the
// target on behalf of a message. Both use the CPU's atomics, so they may be mixed on one location.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft::transport::rma {

enum class AtomicOp : uint8_t {
  no_op,  ///< fetches only
  replace,
  sum,
  product,
  min,
  max,
  bit_and,
  bit_or,
  bit_xor,
  compare_swap  ///< stores `operand` if the memory equals `compare`, bit for bit
};
enum class AtomicType : uint8_t { int32, uint32, float32, int64, uint64, float64 };

/// One operation. Values are the bits of their type, in the lower bytes.
struct Atomic {
  AtomicOp op;
  AtomicType type;
  uint64_t operand = 0, compare = 0;
};

[[nodiscard]] constexpr size_t size_of(AtomicType type) {
  return type == AtomicType::int32 || type == AtomicType::uint32 || type == AtomicType::float32 ? 4 : 8;
}
/// Whether op and type are known values, and the type has the operation (none of the floating-point types has
/// bit operations).
[[nodiscard]] bool valid(const Atomic& atomic);
/// Returns the value after the operation on `current`. Precondition: valid(atomic).
[[nodiscard]] uint64_t apply(const Atomic& atomic, uint64_t current);
/// Executes the operation on memory aligned to its size; returns the value before. Precondition:
/// valid(atomic).
[[nodiscard]] uint64_t execute(const Atomic& atomic, void* address);

}  // namespace weft::transport::rma
