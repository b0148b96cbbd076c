// SPDX-License-Identifier: BSD-3-Clause
// GPU memory of Weft's own to work in, leased from one capped pool: intermediate results of reductions,
// tables of datatypes. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <utility>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

/// A block of GPU memory; goes back to the pool on destruction.
class Workspace {
 public:
  /// Of what peers may map: less shares an allocation of the driver's with other memory, which can be mapped
  /// only once.
  static constexpr size_t kMappable = size_t{2} << 20;

  Workspace() = default;
  Workspace(Workspace&& other) noexcept { swap(other); }
  Workspace& operator=(Workspace&& other) noexcept {
    Workspace(std::move(other)).swap(*this);
    return *this;
  }
  ~Workspace();
  /// On the GPU of `near`. Errc::unsupported when the pool's cap does not allow it; else the driver's
  /// refusal.
  [[nodiscard]] static Result<Workspace> lease(const Memory& near, size_t bytes);
  [[nodiscard]] explicit operator bool() const { return block_ != nullptr; }
  [[nodiscard]] const Memory& memory() const;
  /// False when its context has ended: the memory is gone.
  [[nodiscard]] bool alive() const;
  /// Frees the pool; what is leased loses its memory.
  static void close();

 private:
  struct Block;
  struct Pool;
  void swap(Workspace& other) noexcept { std::swap(block_, other.block_); }
  static Pool& pool();
  Block* block_ = nullptr;
};

}  // namespace weft::device
