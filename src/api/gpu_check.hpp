// SPDX-License-Identifier: BSD-3-Clause
// Comparison of buffers with themselves after queued GPU work has ended (setting `check` = gpu, on):
// collectives, one-sided operations, files. Messages compare theirs in p2p (CheckedTransfers).
// Threading: under the instance lock, which waits release. Preconditions: checking_gpu().
#pragma once
#include "base/result.hpp"
#include "coll/schedule/call.hpp"
#include "coll/schedule/call_check.hpp"
#include "p2p/p2p.hpp"

namespace weft::api {

/// Waits until the GPU work that is queued now has ended. Returns an error if it has changed the elements of
/// a buffer that the current call on `comm` reads. The call is made nevertheless, since other ranks wait for
/// it, and returns this error.
[[nodiscard]] Status check_input(const p2p::Buffer& buffer, core::Communicator& comm);
/// The same for the inputs and the results of a collective that is about to start: queued work must change
/// neither.
[[nodiscard]] Status check_buffers(const coll::Call& call);
/// The same for the results of a collective that has ended.
[[nodiscard]] Status check_outputs(const coll::Call& call);
/// The check of nonblocking and persistent collectives.
[[nodiscard]] const coll::CallCheck& call_check();

}  // namespace weft::api
