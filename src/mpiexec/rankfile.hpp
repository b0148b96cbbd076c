// SPDX-License-Identifier: BSD-3-Clause
// Rank files (--rankfile): the cores of each rank, in lines "rank 0=HOST slot=CORES". CORES is PACKAGE:CORES,
// such as 0:1,3-4 or 1:*, or a list of core numbers; cores are counted from 0 in their package, or on the
// host.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/binding.hpp"

namespace weft::mpiexec {

/// Returns the binding of each rank. HOST is this host, or +n0. Errc::arg: the line with the reason.
[[nodiscard]] Result<std::vector<Binding>> bindings_of_rankfile(const std::string& path, int ranks,
                                                                const Topology& topology);

}  // namespace weft::mpiexec
