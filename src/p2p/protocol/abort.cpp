// SPDX-License-Identifier: BSD-3-Clause
// Abort: ends a request in flight with a peer that is lost, in any state.
#include <vector>

#include "p2p/engine.hpp"
#include "p2p/protocol/protocol.hpp"

namespace weft::p2p {

/// Ends the request with `error`, unless a submitted copy moves its whole payload: then the request ends with
/// that copy, whose batch may serve other peers. A receive into which its sender or the network writes ends
/// with `error` after that.
void Engine::abort(Transfer& t, Error error) {
  if (copying(t)) return;
  const bool writes = t.protocol != nullptr && t.protocol->stop != nullptr;
  if (writes && !t.protocol->stop(*this, t, error)) return;
  for (std::vector<DeviceCopy>* const pending : {&pending_gets_, &pending_puts_})
    std::erase_if(*pending, [&](const DeviceCopy& copy) {
      if (copy.request != &t) return false;
      importer().release(copy.mapping);
      return true;
    });
  if (Peer& peer = peers_[t.peer]; blocked(peer))
    std::erase_if(*peer.pending, [&](const PendingMessage& item) { return item.transfer == &t; });
  leave_protocol(t);
  complete(t, std::move(error));
}

}  // namespace weft::p2p
