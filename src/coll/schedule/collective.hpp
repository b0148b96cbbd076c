// SPDX-License-Identifier: BSD-3-Clause
// The collectives as all layers above and inside coll/ call them. dispatch/ defines these functions.
// Threading: under the instance lock.
#pragma once
#include "base/result.hpp"
#include "base/slab.hpp"
#include "coll/schedule/call.hpp"
#include "core/request.hpp"

namespace weft::coll {

struct Algorithm;

/// Runs a blocking collective (MPI_Allreduce).
[[nodiscard]] Status run(const Call& call);
/// Starts a nonblocking collective (MPI_Iallreduce). Copies the call's arrays; retains its communicator,
/// types and operation.
[[nodiscard]] Result<core::Request*> start(const Call& call);
[[nodiscard]] Result<core::Request*> start(const Call& call, const Algorithm& algorithm);
/// Creates an inactive persistent request (MPI_Allreduce_init).
[[nodiscard]] Result<core::Request*> make_persistent(const Call& call);
/// Classifies a value that may be the address of a nonblocking or persistent collective's request.
[[nodiscard]] HandleState check_request(const void* handle);

}  // namespace weft::coll
