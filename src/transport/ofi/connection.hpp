// SPDX-License-Identifier: BSD-3-Clause
// Connection: state of a peer with which this process communicates, or which it watches.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/process_watch.hpp"
#include "transport/generations.hpp"
#include "transport/last_messages.hpp"
#include "transport/ofi/buffer_pool.hpp"
#include "transport/ofi/tcp_probe.hpp"
#include "transport/secret.hpp"

namespace weft::transport::ofi {

struct Connection;
struct Get;

/// An own adapter and the adapter of the peer that it reaches; the operation is its heartbeat.
struct AdapterPair : Operation {
  AdapterPair(Connection& owner, size_t own_adapter, size_t remote_adapter)
      : connection(owner), own(own_adapter), remote(remote_adapter) {
    kind = Kind::heartbeat;
  }
  Connection& connection;
  size_t own, remote;                                  ///< indices of the adapters
  abi::Address address = abi::kNoAddress;              ///< for the own adapter
  uint64_t heartbeat_address = 0, heartbeat_rkey = 0;  ///< of the word that heartbeats read
  std::string raw_address;                             ///< as returned by the peer's fi_getname
  std::unique_ptr<TcpProbe> tcp_probe;
  bool used = false;               ///< moves data: gets heartbeats
  bool heartbeat_pending = false;  ///< a heartbeat read is outstanding
};

/// A message that has arrived before its predecessors.
struct EarlyMessage {
  uint64_t tag;
  std::vector<std::byte> content;
};

struct Connection {
  explicit Connection(Peer process) : peer(process) {}
  enum class State : uint8_t {
    unknown,  ///< address not yet resolved
    open,
    disconnected,  ///< sent a disconnect notice and nothing since: its exit is no failure
    lost           ///< died or unreachable; messages to it are dropped
  };

  Peer peer;
  State state = State::unknown;
  bool in_backlog = false;       ///< in Ofi::backlog_
  bool disconnect_sent = false;  ///< a disconnect notice was sent, and nothing since
  bool left = false;             ///< its notice said that it leaves: what cannot be sent any more is no loss
  /// Empty until the address of the peer is resolved, then never changed. All messages use the first.
  std::vector<AdapterPair> pairs;
  Secret secret = 0;  ///< of the peer; valid with pairs
  /// Of a process of this machine. The provider shm reports no death of a peer, whose operations would never
  /// complete.
  std::optional<ProcessWatch> process_watch;
  AdapterPair* verifying = nullptr;  ///< a get has failed here: a heartbeat tells whether the peer died
  bool verification_sent = false;    ///< a heartbeat was sent after that failure
  int64_t suspect_since_ms = 0;      ///< time of the first failed heartbeat; 0: none
  std::string suspect_reason;
  uint64_t sent = 0, received = 0;  ///< sequence numbers of the next messages
  LastMessages last_messages;
  uint64_t answer_deadline = 0;            ///< ns; an answer to the peer's notice is given up after it
  Generations::Source source{};            ///< of another job, from its first message on
  bool notified = false;                   ///< its disconnect notice is the last message received
  std::map<uint64_t, EarlyMessage> early;  ///< by sequence number
  std::deque<MessageBuffer*> unsent;       ///< to retry after -EAGAIN, in order
  size_t outstanding = 0;                  ///< sends held by libfabric
  std::deque<Get*> waiting;                ///< gets with reads still to be issued
  size_t reads = 0;                        ///< outstanding reads that their limit counts
};

/// Address record that a process publishes.
struct PublishedAddress {
  Secret secret = 0;
  uint64_t net_namespace = 0;  ///< id of the network namespace: equal ids share a loopback interface
  uint64_t machine = 0;        ///< own_machine() of that process
  pid_t process = 0;
  struct Adapter {
    uint64_t heartbeat_address = 0, heartbeat_rkey = 0;
    bool loopback = false;  ///< the address belongs to a loopback interface
    std::string address;
  };
  std::string provider;
  std::vector<Adapter> adapters;  ///< nearest first; at least one
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static Result<PublishedAddress> parse(const std::string& text);
};
/// Returns a hash of the machine's boot id and one of this process's namespaces, given by its path in /proc.
[[nodiscard]] uint64_t boot_and_namespace_id(const char* name);
/// Returns an id of this machine and PID namespace: processes with equal ids can watch each other.
[[nodiscard]] uint64_t own_machine();
/// Returns PublishedAddress::net_namespace of this process.
[[nodiscard]] uint64_t own_net_namespace();

}  // namespace weft::transport::ofi
