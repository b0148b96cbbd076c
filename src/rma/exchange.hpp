// SPDX-License-Identifier: BSD-3-Clause
// Collectives on host memory by which windows are created and freed.
#pragma once
#include <cstddef>

#include "coll/schedule/collective.hpp"
#include "core/communicator.hpp"

namespace weft::rma {

/// Allgather or alltoall of records of `bytes` bytes in host memory.
[[nodiscard]] Status exchange(coll::Collective what, core::Communicator& comm, const void* out, void* in,
                              size_t bytes);
[[nodiscard]] Status barrier(core::Communicator& comm);

}  // namespace weft::rma
