// SPDX-License-Identifier: BSD-3-Clause
// GPU workspace memory, leased from one capped pool: intermediate results of reductions, segment tables of
// datatypes. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <utility>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

/// A block of GPU memory; returns to the pool on destruction.
class Workspace {
 public:
  /// Minimum size in bytes of memory that peers map. The driver places smaller allocations into one block
  /// with other memory, and each block can be mapped only once.
  static constexpr size_t kMappable = size_t{2} << 20;

  Workspace() = default;
  Workspace(Workspace&& other) noexcept { swap(other); }
  Workspace& operator=(Workspace&& other) noexcept {
    Workspace(std::move(other)).swap(*this);
    return *this;
  }
  ~Workspace();
  /// Leases memory on the GPU of `near`. Errc::unsupported if the cap of the pool is exceeded; else the error
  /// of the driver.
  [[nodiscard]] static Result<Workspace> lease(const Memory& near, size_t bytes);
  [[nodiscard]] explicit operator bool() const { return block_ != nullptr; }
  [[nodiscard]] const Memory& memory() const;
  /// False if the context was destroyed, and the memory with it.
  [[nodiscard]] bool alive() const;
  /// Frees the pool, including leased blocks.
  static void close();

 private:
  struct Block;
  struct Pool;
  void swap(Workspace& other) noexcept { std::swap(block_, other.block_); }
  static Pool& pool();
  Block* block_ = nullptr;
};

}  // namespace weft::device
