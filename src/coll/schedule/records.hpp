// SPDX-License-Identifier: BSD-3-Clause
// Collectives of the library itself, on records in host memory. Threading: under the instance lock.
#pragma once
#include "coll/schedule/call.hpp"

namespace weft::coll {

/// A barrier, or a collective whose blocks (bcast: whose vector) are records of `bytes` bytes.
[[nodiscard]] Call record_call(Collective what, core::Communicator& comm, const void* out = nullptr,
                               void* in = nullptr, size_t bytes = 0);

}  // namespace weft::coll
