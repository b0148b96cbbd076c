// SPDX-License-Identifier: BSD-3-Clause
// Local copies between typed buffers of any memory kinds, and host mirrors of device operands for reductions.
// Threading: under the instance lock.
#pragma once
#include <memory>

#include "base/result.hpp"
#include "coll/call.hpp"
#include "device/copy.hpp"

namespace weft::coll {

/// Copies the packed stream of `from` to the places of `to`. Complete on return. Errc::truncate: nothing is
/// copied. Buffers must not overlap, except that the same buffer twice is a no-op.
[[nodiscard]] Status local_copy(const p2p::Buffer& to, const p2p::Buffer& from);

/// The same, submitted: a copy between device memory may be under way, which the ticket tells. Of other
/// memory it is complete.
[[nodiscard]] Result<device::Ticket> start_local_copy(const p2p::Buffer& to, const p2p::Buffer& from);

/// inout = in op inout (MPI_Reduce_local), in any memory.
[[nodiscard]] Status reduce_local(const p2p::Buffer& in, const p2p::Buffer& inout, const core::Op& op);

/// Host copies of the device operands of a reduction: host code computes on them.
class HostMirror {
 public:
  /// Points the operands that lie on a device to host copies of them. No-op for everything else. `why`
  /// kernels do not reduce them where they lie; empty: it is quicker so.
  [[nodiscard]] Status enter(Call& call, const char* why);
  /// Copies the result back to the device.
  [[nodiscard]] Status leave(const Call& call);

 private:
  std::unique_ptr<std::byte[]> memory_;
  void* result_ = nullptr;  // the user's buffer
  device::Memory result_memory_;
  bool active_ = false;
};

}  // namespace weft::coll
