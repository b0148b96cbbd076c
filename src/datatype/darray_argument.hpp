// SPDX-License-Identifier: BSD-3-Clause
// A distribution argument of MPI_Type_create_darray that only libraries with other interfaces pass.
#pragma once
#include <climits>

namespace weft::datatype {

/// Blocks of 19 elements, as compat passes them: in the standard ABI 19 is MPI_DISTRIBUTE_DFLT_DARG.
constexpr int kDistributionArgument19 = INT_MIN + 19;

}  // namespace weft::datatype
