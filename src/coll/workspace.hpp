// SPDX-License-Identifier: BSD-3-Clause
// Reductions of operands in GPU memory: whether kernels compute them, and the GPU memory that their schedules
// work in, leased from a capped pool. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <utility>

#include "base/result.hpp"
#include "coll/call.hpp"
#include "device/reduce.hpp"

namespace weft::coll {

/// What kernels compute for an operation on elements of a type; not defined() for those of the host:
/// functions of the application, `long double`.
[[nodiscard]] device::Reduction reduction_of(const core::Op& op, const datatype::Datatype& type);

/// Decides whether the steps of this call are done by kernels, and sets Call::on_gpu and Call::gpu. Each rank
/// decides for itself. Why not, in words, where kernels would be quicker; else empty.
[[nodiscard]] const char* choose_gpu(Call& call);

/// A block of GPU memory; goes back to the pool on destruction.
class Workspace {
 public:
  Workspace() = default;
  Workspace(Workspace&& other) noexcept { swap(other); }
  Workspace& operator=(Workspace&& other) noexcept {
    Workspace(std::move(other)).swap(*this);
    return *this;
  }
  ~Workspace();
  /// On the GPU of `near`. Errc::unsupported when the pool's cap does not allow it; else the driver's
  /// refusal.
  [[nodiscard]] static Result<Workspace> lease(const device::Memory& near, size_t bytes);
  [[nodiscard]] explicit operator bool() const { return block_ != nullptr; }
  [[nodiscard]] const device::Memory& memory() const;
  /// Frees the pool. Nothing may be leased.
  static void close();

 private:
  void swap(Workspace& other) noexcept { std::swap(block_, other.block_); }
  struct Block;
  struct Pool;
  static Pool& pool();
  Block* block_ = nullptr;
};

}  // namespace weft::coll
