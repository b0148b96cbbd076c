// SPDX-License-Identifier: BSD-3-Clause
// NcclProvider: large reductions by NCCL, if coll.nccl is on. The NCCL communicator is created at the first
// such call; if that fails, NCCL is refused for good and reported as a slow path. Threading: under the
// instance lock.
#pragma once
#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "coll/schedule/call.hpp"
#include "device/nccl.hpp"

namespace weft::coll::gpu {

class NcclProvider {
 public:
  explicit NcclProvider(core::Communicator& comm) : comm_(comm) {}
  ~NcclProvider();
  NcclProvider(const NcclProvider&) = delete;
  NcclProvider& operator=(const NcclProvider&) = delete;
  /// Returns whether NCCL runs a call that kernels could run; equal on all ranks. Collective the first time.
  /// `near`: memory of an operand.
  [[nodiscard]] bool accepts(const Call& call, uint64_t largest, const device::Memory& near);
  /// Collective: runs the call and waits.
  [[nodiscard]] Status run(const Call& call);

 private:
  [[nodiscard]] Status connect(const device::Memory& near);
  core::Communicator& comm_;
  bool tried_ = false;
  std::unique_ptr<device::Nccl> nccl_;
};

}  // namespace weft::coll::gpu
