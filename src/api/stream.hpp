// SPDX-License-Identifier: BSD-3-Clause
// Stream: stream handles, and checks for requests of enqueued operations. Threading: under the instance lock.
#pragma once
#include <weft.h>

#include <span>

#include "base/result.hpp"
#include "core/request.hpp"
#include "stream/request.hpp"
#include "stream/stream.hpp"

namespace weft::api {

/// The stream of a live handle; null if the handle is invalid.
[[nodiscard]] stream::Stream* to_stream(MPIX_Stream handle);
[[nodiscard]] Error bad_stream(const char* name);

/// Before each poll of a wait for any request of a list: the poll completes requests of kernels, also
/// if other threads have started operations since the last one.
void expect_by_poll(std::span<const MPI_Request> handles);

[[nodiscard]] Error enqueued_request();
/// The program frees `request`: if it is of MPIX_*_enqueue, it ends like one of an ordinary call.
[[nodiscard]] Status adopt_enqueued(core::Request& request);
/// Error if `request` is of MPIX_*_enqueue, which the host cannot complete.
[[nodiscard]] inline Status reject_enqueued(core::Request& request) {
  if (request.kind != core::Request::Kind::enqueued) [[likely]]
    return {};
  if (stream::Request::ordinary(request) != nullptr) return {};
  return enqueued_request();
}

}  // namespace weft::api
