// SPDX-License-Identifier: BSD-3-Clause
// Which reductions of operands in GPU memory kernels compute. Threading: under the instance lock.
#pragma once
#include "coll/call.hpp"
#include "device/reduce.hpp"

namespace weft::coll {

/// What kernels compute for an operation on elements of a type; not defined() for those of the host:
/// functions of the application, `long double`.
[[nodiscard]] device::Reduction reduction_of(const core::Op& op, const datatype::Datatype& type);

/// Decides whether the steps of this call are done by kernels, and sets Call::on_gpu and Call::gpu. Each rank
/// decides for itself. Why not, in words, where kernels would be quicker; else empty.
[[nodiscard]] const char* choose_gpu(Call& call);

}  // namespace weft::coll
