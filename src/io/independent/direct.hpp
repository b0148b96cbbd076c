// SPDX-License-Identifier: BSD-3-Clause
// Independent accesses of GPU memory by cuFile, for the aligned part of an access.
// Threading: under the instance lock.
#pragma once
#include "io/independent/staged.hpp"

namespace weft::io {

/// The part of an access that cuFile can transfer, as a range of the access's stream; empty: none. The rest
/// and everything in atomic mode goes through host memory.
[[nodiscard]] Range direct_part(const IndependentAccess& access);

/// Transfers bytes [part.first, part.end) of the access. `moved`: the bytes done, in order.
/// Errc::unsupported: cuFile has refused the rest, which must go through host memory.
[[nodiscard]] Task access_direct(Operation& operation, const IndependentAccess& access, const Range& part,
                                 int64_t& moved);

}  // namespace weft::io
