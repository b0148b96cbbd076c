// SPDX-License-Identifier: BSD-3-Clause
// Stream: stream handles, and checks for requests of enqueued operations. Threading: under the instance lock.
#pragma once
#include <weft.h>

#include "base/result.hpp"
#include "core/request.hpp"
#include "stream/stream.hpp"

namespace weft::api {

/// The stream of a live handle; null if the handle is invalid.
[[nodiscard]] stream::Stream* to_stream(MPIX_Stream handle);
[[nodiscard]] Error bad_stream(const char* name);

[[nodiscard]] Error enqueued_request();
/// Error if `request` is an enqueued operation, which the host cannot complete.
[[nodiscard]] inline Status reject_enqueued(const core::Request& request) {
  if (request.kind != core::Request::Kind::enqueued) [[likely]]
    return {};
  return enqueued_request();
}

}  // namespace weft::api
