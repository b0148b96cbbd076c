// SPDX-License-Identifier: BSD-3-Clause
// Ordered: which communicators are in stream order. Threading: under the instance lock, but for
// end_threads().
#pragma once
#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "stream/order/order.hpp"
#include "stream/stream.hpp"

namespace weft::stream {

/// The engine of the process; made at the first use.
[[nodiscard]] order::Engine& engine_of(core::Instance& instance);
/// Later calls on the communicator run in the stream, or, with a null stream or one without GPU, on the host.
/// Local. Errc::unsupported: the stream cannot await words in memory.
[[nodiscard]] Status set_stream(core::Communicator& comm, Stream* stream,
                                order::Order::Functions functions = order::Order::Functions::all);
/// Ends the creation of a communicator, which has been a part of its parent, whose revocation ends it.
/// `attached`: the outcome. After an error the communicator is released. If a revocation has ended the
/// creation here, it is revoked, since other ranks may have completed it; a failure ends it on all ranks.
[[nodiscard]] Status end_creation(core::Communicator& child, Status attached);
/// Waits until the calls that are enqueued in streams have run; captured ones have not been launched by the
/// library and do not count.
void wait_for_enqueued(core::Instance& instance);
/// Before MPI ends, without the instance lock: ends the threads that execute calls in stream order.
void end_threads(core::Instance& instance);

}  // namespace weft::stream
