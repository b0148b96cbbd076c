// SPDX-License-Identifier: BSD-3-Clause
// NCCL, opened at run time when it is asked for: reductions among the GPUs of some processes. NCCL has its
// own ideas of contexts and memory, so nothing is loaded before. Threading: calls on one object are
// serialised.
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
  /// Made by one process, for join() in all. Errc::unsupported, with the reason, without libnccl.so.2.
  [[nodiscard]] static Result<Id> make_id();
  /// Collective over the `size` processes; waits for them. On the GPU of `near`.
  [[nodiscard]] static Result<std::unique_ptr<Nccl>> join(const Id& id, int rank, int size,
                                                          const Memory& near);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  /// Whether it has the operation on the type.
  [[nodiscard]] static bool computes(kernel::Reduction reduction);
  enum class Kind { all_reduce, reduce, reduce_scatter };
  /// Starts one, of `count` elements of the output; every process the same. Then done().
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
