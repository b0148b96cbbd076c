// SPDX-License-Identifier: BSD-3-Clause
// Sends in buffered mode; the functions for buffers are in p2p.hpp. Threading: under the instance lock.
#pragma once
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

class Engine;

/// Packs the message into the attached buffer, sends it from there, and completes `t`.
void buffered_send(Engine& engine, Transfer& t);

}  // namespace weft::p2p
