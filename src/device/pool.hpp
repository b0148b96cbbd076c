// SPDX-License-Identifier: BSD-3-Clause
// Pool of all GPU memory that Weft takes for itself, capped by gpu.pool_bytes: bounce buffers, regions of
// collectives, probe blocks, and workspace (intermediate results, segment tables), which is leased and
// reused. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <utility>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

/// Allocates memory on the GPU of `near`; free it with free_scratch(). Errc::unsupported if it exceeds the
/// cap even without unleased workspace and unused memory of caches; else the error of the driver.
[[nodiscard]] Result<Memory> allocate_scratch(const Memory& near, size_t bytes);
void free_scratch(const Memory& scratch);

/// An owner of memory of allocate_scratch() that keeps some of it unused. Other memory that would exceed the
/// cap makes it free that.
class ScratchCache {
 public:
  ScratchCache(const ScratchCache&) = delete;
  ScratchCache& operator=(const ScratchCache&) = delete;
  /// Frees unused memory. Returns false if there is none.
  [[nodiscard]] virtual bool evict() = 0;

 protected:
  ScratchCache();
  ~ScratchCache();
};

/// A leased block of workspace; returns to the pool on destruction.
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
  ~Workspace() {
    if (block_ != nullptr) release();
  }
  /// Leases memory on the GPU of `near`; errors as allocate_scratch().
  [[nodiscard]] static Result<Workspace> lease(const Memory& near, size_t bytes);
  [[nodiscard]] explicit operator bool() const { return block_ != nullptr; }
  [[nodiscard]] const Memory& memory() const;
  /// False if the context was destroyed, and the memory with it.
  [[nodiscard]] bool alive() const;
  /// Frees all workspace, including leased blocks.
  static void close();

 private:
  friend Result<Memory> allocate_scratch(const Memory& near, size_t bytes);
  friend ScratchCache;
  struct Block;
  struct Pool;
  void swap(Workspace& other) noexcept { std::swap(block_, other.block_); }
  static Pool& pool();
  void release();
  Block* block_ = nullptr;
};

}  // namespace weft::device
