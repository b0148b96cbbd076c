// SPDX-License-Identifier: BSD-3-Clause
// Local copies between typed buffers of any memory kind, and host mirrors of device operands of reductions.
// Threading: under the instance lock.
#pragma once
#include <memory>

#include "base/result.hpp"
#include "coll/schedule/call.hpp"
#include "device/copy.hpp"

namespace weft::coll {

/// Copies the packed data of `from` into the layout of `to`. Complete on return. Errc::truncate: no data is
/// copied. The buffers must not overlap; two identical buffers are a no-op.
[[nodiscard]] Status local_copy(const p2p::Buffer& to, const p2p::Buffer& from);

/// Like local_copy(), but asynchronous between device memory: the ticket completes the copy. Copies of other
/// memory are complete on return.
[[nodiscard]] Result<device::Ticket> start_local_copy(const p2p::Buffer& to, const p2p::Buffer& from);

/// inout = in op inout (MPI_Reduce_local), in any memory.
[[nodiscard]] Status reduce_local(const p2p::Buffer& in, const p2p::Buffer& inout, const core::Op& op);

/// Host copies of the device operands of a reduction that the host computes.
class HostMirror {
 public:
  /// Redirects operands in device memory to host copies; no-op for other operands. `why`: reason, for the
  /// slow-path report, why kernels do not reduce them; empty: the host is faster.
  [[nodiscard]] Status enter(Call& call, const char* why);
  /// Copies the result back to the device.
  [[nodiscard]] Status leave(const Call& call);

 private:
  std::unique_ptr<std::byte[]> memory_;
  void* result_ = nullptr;  // the application's buffer
  device::Memory result_memory_;
  bool active_ = false;
};

}  // namespace weft::coll
