// SPDX-License-Identifier: BSD-3-Clause
// Errors of messages that more than one part reports.
#pragma once
#include "core/instance.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

/// The error of a receive whose buffer is too small for its message.
[[nodiscard, gnu::cold]] Error truncation_error(const Transfer& t);
/// The error of an operation with a process that has failed.
[[nodiscard, gnu::cold]] Error loss_error(const core::Instance& instance, uint32_t peer);
/// The error of a receive whose message ends inside a basic element of its datatype.
[[nodiscard, gnu::cold]] Error end_inside_error(const Transfer& t);

}  // namespace weft::p2p
