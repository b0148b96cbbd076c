// SPDX-License-Identifier: BSD-3-Clause
// Stream: what calls of the standard have to know of enqueued operations. Threading: under the instance lock.
#pragma once
#include <weft.h>

#include "base/result.hpp"
#include "core/request.hpp"
#include "stream/stream.hpp"

namespace weft::api {

/// The stream of a live handle; null: it is none.
[[nodiscard]] stream::Stream* to_stream(MPIX_Stream handle);
[[nodiscard]] Error bad_stream(const char* name);

/// An error for the request of an enqueued operation, where MPI would wait for it on the host.
[[nodiscard]] Status refuse_enqueued(const core::Request& request);

}  // namespace weft::api
