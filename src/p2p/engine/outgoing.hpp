// SPDX-License-Identifier: BSD-3-Clause
// Outgoing: messages to other processes: transport capacity and the backlog, the credit of senders, eager
// messages and RTS. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/config.hpp"
#include "core/instance.hpp"
#include "p2p/engine/peers.hpp"
#include "p2p/engine/requests.hpp"
#include "p2p/message/header.hpp"
#include "transport/am/handlers.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {

struct RtsPart;

extern config::Size credit;                         ///< bytes of eager messages, in flight to one peer
inline constexpr uint64_t kEntryChargeBytes = 128;  ///< credit per eager message in addition to its payload

/// The part of the protocols in a send: Rendezvous.
class SendProtocols {
 public:
  /// Sends a message from device memory without RTS. Returns false if no protocol can: an RTS is sent.
  [[nodiscard]] virtual bool send_from_device(Transfer& t) = 0;
  /// Appends to an RTS how the receiver reaches the payload. Sets `t.outcome` on failure.
  [[nodiscard]] virtual RtsPart append_rts(Transfer& t, ReadyToSend& rts, std::byte* out) = 0;
  /// The RTS has been posted.
  virtual void rts_posted(Transfer& t) = 0;
  /// Cancels a send whose message the peer may never receive, unless the peer has matched it.
  virtual void cancel(Transfer& t) = 0;

 protected:
  ~SendProtocols() = default;
};

/// State of a send from device memory whose payload was copied to the host.
struct PackedPayload final : ProtocolState {
  std::unique_ptr<std::byte[]> bytes;
};

class Outgoing final : public transport::am::Sender {
 public:
  Outgoing(core::Instance& instance, Peers& peers, Requests& requests, SendProtocols& protocols)
      : instance_(instance), requests_(requests), protocols_(protocols), peers_(peers.view()) {}

  /// Sends a message to another process.
  void send(Transfer& t);
  /// See p2p::send_now(). False also for messages to this process.
  [[nodiscard]] bool send_now(const void* from, uint64_t bytes, uint32_t to, int tag,
                              core::Communicator& comm, core::Channel channel);
  /// Sends a message that fits the eager limit and the credit, now or when there is capacity.
  void send_eager(Transfer& t, Peer& peer) {
    charge(peer, t.bytes);
    if (peer.blocked() || !try_eager(t)) enqueue(t);
  }
  /// Sends the payload, which was copied to host memory `from`, eagerly and at once. Returns false if the
  /// transport has no capacity: nothing was done. Precondition: has_credit(), and the peer is not blocked().
  [[nodiscard]] bool send_copied(const void* from, const Transfer& t, Peer& peer);
  /// `registration`: id of the registered buffer whose rkey the message carries; 0: none.
  void post_control(uint32_t to, const void* message, size_t size, uint64_t registration = 0);
  /// Confirms that an eager_sync message was matched.
  void acknowledge(uint32_t to, core::RequestId sender);
  /// Notifies the network that the buffer of an RTS will not be read.
  void decline(uint32_t source, const ReadyToSend& rts);
  /// Returns the header of a message of a transfer.
  [[nodiscard]] Header header(const Transfer& t, Type type, uint64_t length) const;
  void count_sent(Peer& peer, const match::Key& key, uint64_t bytes) {
    ++peer.sent;
    peer.sent_bytes += bytes;
    if (peer.last_sent) [[unlikely]]
      (*peer.last_sent)[rtr_slot_of(key)] = peer.sent;
  }
  /// Returns whether a payload of `bytes` fits the eager limit and the peer's remaining credit.
  [[nodiscard]] static bool has_credit(uint32_t to, uint64_t bytes, Peer& peer) {
    if (bytes > peer.eager_max && bytes > eager_limit(to, peer)) [[unlikely]]
      return false;
    return peer.eager_sent + bytes + kEntryChargeBytes - peer.eager_credited <= credit;
  }
  void on_credit(uint32_t source, const Credit& message);
  /// From now on messages of the program carry the signatures of their datatypes, which receives compare.
  void check_types() { check_types_ = true; }

  /// Sends the backlog as far as there is capacity, and completes first sends. Returns false if nothing was
  /// done.
  bool poll() {
    const bool left = !leaving_.empty() && complete_left();
    return (!backlog_.empty() && flush_all()) || left;
  }
  /// The peers with messages that wait for capacity.
  [[nodiscard]] std::span<const uint32_t> backlog() const { return backlog_; }
  /// Drops the messages to a peer that wait for capacity. Its sends among them stay in flight.
  void drop_backlog(Peer& peer) { peer.pending.reset(); }
  /// Removes a send from the messages that wait for capacity.
  void withdraw(const Transfer& t);
  /// Nothing is sent to the peer any more; sends use RTS, which fails.
  void lose(Peer& peer);
  /// The peer's index is given up.
  void forget(uint32_t peer);

  // am::Sender, for all users of active messages.
  void post(uint32_t to, const void* message, size_t size) override { post_control(to, message, size); }
  [[nodiscard]] std::byte* reserve(uint32_t to, size_t size) override;
  void commit(uint32_t to, size_t size) override { commit_message(to, peers_[to], size); }
  [[nodiscard]] size_t max_message(uint32_t to) override { return peers_[to].transport->max_message(to); }

 private:
  /// Returns the address for a message of `size` bytes to a peer; null: no capacity now. Messages to a peer
  /// of this host go through its ring once it is open, without the virtual calls of the transport.
  [[nodiscard]] static std::byte* reserve_message(uint32_t to, const Peer& peer, size_t size) {
    return peer.ring != nullptr ? peer.ring->reserve(size) : peer.transport->reserve(to, size);
  }
  /// Sends the reserved message.
  void commit_message(uint32_t to, Peer& peer, size_t size) {
    if (peer.ring != nullptr) [[likely]] {
      peer.ring->commit(size);
      return instance_.shm->notify(to);
    }
    peer.transport->commit(to, size);
    if (!peer.remote) peer.ring = instance_.shm->ring_to(to);
  }
  static void charge(Peer& peer, uint64_t bytes) {
    peer.eager_sent += bytes + kEntryChargeBytes;
    WEFT_ASSERT(peer.eager_sent - peer.eager_credited <= credit);  // C1
  }
  void send_device(Transfer& t);
  void send_rts(Transfer& t);
  PendingMessage& append_pending(uint32_t to, PendingMessage item);
  [[nodiscard]] bool try_control(uint32_t to, Peer& peer, const void* message, size_t size,
                                 uint64_t registration);
  void enqueue(Transfer& t);
  bool flush_all();
  bool flush(uint32_t to);

  // outgoing_eager.cpp
  static uint64_t eager_limit(uint32_t to, Peer& peer);
  template <class Write>
  [[nodiscard]] bool write_message(uint32_t to, Peer& peer, size_t head, uint64_t bytes, Write&& write);
  void copy_payload(std::byte* slot, const void* from, uint64_t bytes, uint32_t to, Peer& peer);
  [[gnu::cold]] void time_copy(std::byte* slot, const void* from, uint64_t bytes, uint32_t to, Peer& peer);
  void choose_eager_limit(uint32_t to, Peer& peer);
  [[nodiscard]] bool try_eager(Transfer& t);
  void await_leaving(Transfer& t);
  bool complete_left();

  core::Instance& instance_;
  Requests& requests_;
  SendProtocols& protocols_;
  Peers::View peers_;
  struct Leaving {  // an eager send to an unreached peer
    uint32_t to;
    core::RequestId send;
    uint64_t since;  // ns
  };
  std::vector<uint32_t> backlog_;  // peers with pending messages
  std::vector<Leaving> leaving_;
  uint64_t contact_ns_ = 100'000'000;  // longest wait for a first message to leave
  bool check_types_ = false;
};

}  // namespace weft::p2p
