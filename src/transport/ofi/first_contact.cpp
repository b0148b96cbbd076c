// SPDX-License-Identifier: BSD-3-Clause
// First contact with a peer: its published address, and which adapters reach each other.
#include "transport/ofi/ofi.hpp"

namespace weft::transport::ofi {

Connection& Ofi::connection(Peer peer) {
  if (peer >= by_peer_.size()) [[unlikely]]
    by_peer_.resize(peer + 1);
  auto& slot = by_peer_[peer];
  if (slot == nullptr) [[unlikely]] {
    slot = std::make_unique<Connection>(peer);
    connections_.push_back(slot.get());
    if (peer >= job_size_) slot->sent = generations_.next();
  }
  return *slot;
}

Status Ofi::resolve(Connection& connection) {
  auto text = directory_->address(connection.peer);
  if (!text) return std::move(text).error();
  auto published = PublishedAddress::parse(*text);
  if (!published) return std::move(published).error();
  if (published->provider != provider_)
    return Error(Errc::other,
                 "libfabric uses the provider " + provider_ + " here and " + published->provider +
                     " at process " + std::to_string(connection.peer) +
                     ": set FI_PROVIDER or WEFT_NET_OFI_PROVIDER to the same value on all processes");
  std::vector<std::string> own, remote;
  for (size_t i = 0; i < adapters_.size(); ++i) own.push_back(adapters_[i].address);
  for (const PublishedAddress::Adapter& adapter : published->adapters) {
    if (adapter.loopback && published->net_namespace != net_namespace_)
      return Error(Errc::other, "process " + std::to_string(connection.peer) +
                                    " is on another host, but libfabric has only a loopback address there: "
                                    "give that host a network, or set WEFT_NET_OFI_NIC");
    remote.push_back(adapter.address);
  }
  std::vector<AdapterPair> pairs;
  for (const auto& [i, j] : pair_adapters(endpoint_->info().addr_format, own, remote)) {
    AdapterPair& pair = pairs.emplace_back(connection, i, j);
    auto address = adapters_.endpoint(i).insert(remote[j]);
    if (!address) return std::move(address).error();
    pair.address = *address;
    pair.heartbeat_address = published->adapters[j].heartbeat_address;
    pair.heartbeat_rkey = published->adapters[j].heartbeat_rkey;
    pair.raw_address = std::move(remote[j]);
  }
  pairs[0].used = true;
  connection.pairs = std::move(pairs);
  connection.secret = published->secret;
  if (in_memory_ && published->machine == own_machine())
    if (auto watch = ProcessWatch::open(published->process)) connection.process_watch = std::move(*watch);
  return {};
}

/// Returns false if the peer is lost or its address cannot be resolved, which marks it lost.
bool Ofi::connect(Connection& connection) {
  if (!connection.pairs.empty()) [[likely]]
    return connection.state != Connection::State::lost;
  if (connection.state == Connection::State::lost) return false;
  if (Status found = resolve(connection); !found) {
    mark_lost(connection, std::move(found).error());
    return false;
  }
  if (connection.state == Connection::State::unknown) connection.state = Connection::State::open;
  return true;
}

}  // namespace weft::transport::ofi
