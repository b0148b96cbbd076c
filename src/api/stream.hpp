// SPDX-License-Identifier: BSD-3-Clause
// Stream: what calls of the standard have to know of enqueued operations. Threading: under the instance lock.
#pragma once
#include "base/result.hpp"
#include "core/request.hpp"

namespace weft::api {

/// An error for the request of an enqueued operation, where MPI would wait for it on the host.
[[nodiscard]] Status refuse_enqueued(const core::Request& request);

}  // namespace weft::api
