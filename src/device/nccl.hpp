// SPDX-License-Identifier: BSD-3-Clause
// Reductions by NCCL among the GPUs of several processes. The library is loaded on first use only, since NCCL
// allocates contexts and memory of its own. Threading: calls on one object must be serialised.
#pragma once
#include <array>
#include <cstddef>
#include <memory>

#include "base/result.hpp"
#include "device/kernel/element.hpp"
#include "device/memory.hpp"

namespace weft::device {

class Nccl {
 public:
  using Id = std::array<char, 128>;  ///< ncclUniqueId
  /// Creates the id in one process, for join() in all. Errc::unsupported, with the reason, without NCCL.
  [[nodiscard]] static Result<Id> make_id();
  /// Creates the communicator on the GPU of `near`. Collective over the `size` processes; blocks.
  [[nodiscard]] static Result<std::unique_ptr<Nccl>> join(const Id& id, int rank, int size,
                                                          const Memory& near);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  /// Whether NCCL supports this operation on this type.
  [[nodiscard]] static bool computes(kernel::Reduction reduction);
  enum class Kind { all_reduce, reduce, reduce_scatter };
  /// Starts a reduction of `count` output elements, the same in every process; then poll done().
  [[nodiscard]] Status start(Kind kind, const void* in, void* out, size_t count, kernel::Reduction reduction,
                             int root);
  [[nodiscard]] Result<bool> done();

 private:
  Nccl() = default;
  void* comm_ = nullptr;
  void* stream_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace weft::device
