// SPDX-License-Identifier: BSD-3-Clause
// Accumulate operations on GPU memory, by kernels with atomic operations on each element. All accumulate
// operations on a type that has them are executed so, by any process and GPU: the choice depends on the
// target's memory, the type and the alignment only. Others hold the accumulate lock of the target.
#pragma once
#include <optional>
#include <span>
#include <utility>
#include <vector>

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

/// Pinned memory for the operands and the result of an operation.
struct GpuStaging {
  device::PinnedBuffer leased;  ///< contains `data`, unless the window has it
  std::byte* data = nullptr;
  size_t bytes = 0;
  device::Memory memory;  ///< like classify(data)

  explicit GpuStaging(device::PinnedBuffer chunk)
      : leased(std::move(chunk)),
        data(reinterpret_cast<std::byte*>(leased.data())),
        bytes(leased.size()),
        memory(leased.memory()) {}
  GpuStaging(std::byte* own, size_t size) : data(own), bytes(size), memory(device::classify(own)) {}
};

/// An operation of a peer on own GPU memory. poll() does not wait for the GPU, which may be full of kernels.
class GpuUpdate {
 public:
  /// `operands`: the packed origin unless the operation fetches only, then what to compare with.
  GpuUpdate(const ElementOperation& operation, const device::Memory& target, std::vector<GpuRun> runs,
            std::vector<std::byte> operands, GpuStaging staging);
  /// Returns true once the operation is complete. After an error it has ended.
  [[nodiscard]] Result<bool> poll();
  /// Waits for the part in flight.
  void wait();
  /// The elements before; complete with the operation.
  [[nodiscard]] std::vector<std::byte> take_before() { return std::move(before_); }

 private:
  [[nodiscard]] Status start_part();

  const ElementOperation operation_;
  const device::Memory target_;
  const std::vector<GpuRun> runs_;
  const std::vector<std::byte> operands_;
  const GpuStaging staging_;
  std::vector<std::byte> before_;
  uint64_t part_ = 0;                  ///< bytes of elements in one part
  uint64_t at_ = 0, bytes_ = 0;        ///< first byte, and number of bytes, of the part in flight
  const std::byte* result_ = nullptr;  ///< of that part, in `staging_`
  device::Ticket ticket_;
  Status failed_;  ///< of wait()
};

}  // namespace weft::rma
