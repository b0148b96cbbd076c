// SPDX-License-Identifier: BSD-3-Clause
// Selects the reductions of GPU memory that kernels compute. Threading: under the instance lock.
#pragma once
#include "coll/schedule/call.hpp"
#include "device/reduce.hpp"

namespace weft::coll {

/// The kernel reduction for an operation on a type; not defined() if only the host can compute it:
/// user-defined operations, `long double`.
[[nodiscard]] device::Reduction reduction_of(const core::Op& op, const datatype::Datatype& type);

/// Decides whether kernels compute the reductions of this call, and sets Call::on_gpu and Call::gpu. Each
/// rank decides for itself. Returns why not, if kernels would be faster; else an empty string.
[[nodiscard]] const char* choose_gpu(Call& call);

}  // namespace weft::coll
