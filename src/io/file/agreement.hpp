// SPDX-License-Identifier: BSD-3-Clause
// Agreement of the processes of a file on outcomes. Collective. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <string>

#include "base/result.hpp"
#include "core/communicator.hpp"

namespace weft::io {

/// Broadcasts `bytes` bytes of rank 0.
[[nodiscard]] Status broadcast(core::Communicator& comm, void* data, size_t bytes);
/// The common outcome of all ranks, by agree() of their codes. `path`: of the file.
[[nodiscard]] Status agree(core::Communicator& comm, Status own, const std::string& path);

}  // namespace weft::io
