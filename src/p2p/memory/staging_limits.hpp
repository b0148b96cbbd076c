// SPDX-License-Identifier: BSD-3-Clause
// StagingLimits: how many requests may hold scarce memory, or copy, at a time. Threading: under the instance
// lock.
#pragma once
#include <cstdint>

#include "p2p/memory/limit.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

/// Large single copies of this process, one part in a round of progress: of its receives in order, or where
/// none waits, of its sends.
struct CopyQueue {
  const ProtocolState* current = nullptr;  ///< of the receive whose chunks this process copies
  const ProtocolState* helping = nullptr;  ///< of the send of which this process has copied a part last
  uint32_t waiting = 0;                    ///< receives of which a chunk may be unclaimed
  uint32_t unoffered = 0;                  ///< of these, the sender does not know
  uint32_t unbegun = 0;                    ///< offered sends of which this process has claimed nothing
};

/// Pinned memory is scarce, so the number of requests that hold pieces of it is limited. Receives send their
/// CTS in order and senders stream in CTS order, so the oldest request always progresses.
struct StagingLimits {
  Limit sends{4};     ///< from device memory: two pinned chunks each, or fragments for another host
  Limit receives{4};  ///< into device memory: two pinned chunks each
  Limit gets{4};      ///< from another host, through staging buffers
  CopyQueue copies;
};

}  // namespace weft::p2p
