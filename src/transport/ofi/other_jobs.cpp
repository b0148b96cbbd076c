// SPDX-License-Identifier: BSD-3-Clause
// Peers of other jobs: the sender of a message, removal.
#include <algorithm>
#include <cstring>

#include "transport/ofi/ofi.hpp"

namespace weft::transport::ofi {

/// Returns the sender of a message; null: it is not of a present connection. Passes on the request of a
/// process that connects.
Connection* Ofi::source_of(const Prefix& prefix, const abi::CqEntry& entry, Receiver& receiver) {
  const auto& message = static_cast<MessageBuffer&>(*static_cast<Operation*>(entry.op_context));
  const auto rank = static_cast<uint32_t>(entry.tag);
  if (prefix.job == job_tag_) [[likely]]
    return rank < job_size_ ? &connection(rank) : nullptr;
  const Generations::Source source{static_cast<uint32_t>(prefix.job), rank};
  const Peer peer = receiver.find(source.first, rank);
  Connection* const from = peer != kNoPeer ? &connection(peer) : nullptr;
  const bool notice = (entry.tag & kDisconnect) != 0;
  switch (generations_.check(source, prefix.number, notice, from != nullptr ? &from->received : nullptr)) {
    case Generations::Action::take:
      from->source = source;
      return from;
    case Generations::Action::unknown:
      if (!receiver.unknown_source(peer, message.data + kPrefix, entry.len - kPrefix)) return nullptr;
      from->early.clear();
      generations_.renew(source, prefix.number, from->notified, from->received);
      from->source = source;
      return from;
    case Generations::Action::drop:
      return nullptr;
  }
  return nullptr;
}

bool Ofi::remove(Peer peer) {
  if (peer >= by_peer_.size() || by_peer_[peer] == nullptr) return true;
  Connection& connection = *by_peer_[peer];
  if (endpoint_ != nullptr && connection.state == Connection::State::open && !connection.disconnect_sent) {
    send_disconnect(connection);
    if (!connection.disconnect_sent) return false;
  }
  // An open peer gets no more heartbeats once it is disconnected.
  if (connection.state == Connection::State::open) connection.state = Connection::State::disconnected;
  const auto busy = [&](const Get* get) { return get->peer == peer; };
  const auto pending = [](const AdapterPair& pair) { return pair.heartbeat_pending; };
  if (connection.outstanding != 0 || !connection.unsent.empty() ||
      std::any_of(connection.pairs.begin(), connection.pairs.end(), pending) ||
      std::any_of(gets_.begin(), gets_.end(), busy))
    return false;
  std::erase(connections_, &connection);
  std::erase(suspects_, &connection);
  std::erase_if(losing_, [&](const Losing& of) { return of.connection == &connection; });
  std::erase(unanswered_, &connection);
  std::erase(backlog_, &connection);
  std::erase_if(losses_, [&](const auto& loss) { return loss.first == peer; });
  generations_.removed(connection.source, connection.received, connection.notified);
  by_peer_[peer].reset();
  return true;
}

}  // namespace weft::transport::ofi
