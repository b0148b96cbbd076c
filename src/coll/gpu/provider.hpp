// SPDX-License-Identifier: BSD-3-Clause
// Provider: large reductions by NCCL, where coll.nccl asks for it. Its communicator is made at the first such
// call, or refused once and for all, by name. Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "coll/call.hpp"
#include "device/nccl.hpp"

namespace weft::coll::gpu {

class Provider {
 public:
  explicit Provider(core::Communicator& comm) : comm_(comm) {}
  ~Provider();
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;
  /// Whether it does a call that kernels could do: equal on all ranks. Collective the first time; `near`: of
  /// an operand.
  [[nodiscard]] bool takes(const Call& call, uint64_t largest, const device::Memory& near);
  /// Collective: runs the call to its end.
  [[nodiscard]] Status run(const Call& call);

 private:
  [[nodiscard]] Status connect(const device::Memory& near);
  core::Communicator& comm_;
  bool tried_ = false;
  std::unique_ptr<device::Nccl> nccl_;
};

}  // namespace weft::coll::gpu
