// SPDX-License-Identifier: BSD-3-Clause
// Accumulate operations on GPU memory, by kernels with atomic operations on each element. All accumulate
// operations on a type that has them are executed so, by any process and GPU: the choice depends on the
// target's memory, the type and the alignment only. Others hold the accumulate lock of the target.
#pragma once
#include <optional>
#include <span>

#include "base/result.hpp"
#include "datatype/reduce.hpp"
#include "device/memory.hpp"
#include "device/pinned.hpp"
#include "device/window.hpp"

namespace weft::rma {

using AtomicKind = device::kernel::Accumulate::Kind;

/// An accumulate operation as a kernel executes it.
struct ElementOperation {
  AtomicKind kind;
  device::kernel::Reduction reduction;
  uint32_t size;  ///< of an element

  /// Nothing: there is no atomic operation on the type.
  [[nodiscard]] static std::optional<ElementOperation> of(datatype::ReduceOp op, datatype::Basic basic,
                                                          bool compare_swap);
};

/// Contiguous elements of the target.
struct GpuRun {
  uint64_t address, length;
};

/// Packed elements of the origin, the comparison or the result; null: there are none.
struct Operand {
  std::byte* address = nullptr;
  device::Memory memory;
  bool staged = false;  ///< by mark_staged()
};

/// All operands of an operation. Operands that the GPU cannot access are staged.
struct Operands {
  Operand origin, compare, result;
};

/// Marks the operands that have to be staged for elements of `size` bytes; returns their number.
[[nodiscard]] int mark_staged(Operands& operands, uint32_t size, const device::Memory& target);

/// Executes the operation and waits for its end. `pinned`: memory for the staged operands, if there are any.
/// Precondition: mark_staged().
[[nodiscard]] Status accumulate_atomically(const ElementOperation& operation, const device::Memory& target,
                                           std::span<const GpuRun> runs, const Operands& operands,
                                           const device::PinnedBuffer& pinned);

}  // namespace weft::rma
