// SPDX-License-Identifier: BSD-3-Clause
// Server of a singleton: the mpiexec that a process without a launcher starts when it needs one, for further
// processes or the name service. It outlives the singleton only while processes that it has started run.
#pragma once
#include <memory>

#include "launch/launch.hpp"

namespace weft::launch::singleton {

/// Starts mpiexec and connects to it. Errc::spawn: there is none beside the library.
[[nodiscard]] Result<std::unique_ptr<Exchange>> start_server();

}  // namespace weft::launch::singleton
