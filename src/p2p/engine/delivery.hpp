// SPDX-License-Identifier: BSD-3-Clause
// Delivery: matching of messages with receives, unexpected messages, and the credit that this process
// returns. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <unordered_set>

#include "core/instance.hpp"
#include "p2p/engine/outgoing.hpp"
#include "p2p/engine/peers.hpp"
#include "p2p/engine/requests.hpp"
#include "p2p/match/queue.hpp"
#include "p2p/message/header.hpp"
#include "p2p/message/transfer.hpp"
#include "p2p/message/unexpected_message.hpp"

namespace weft::p2p {

/// The other parts, as Delivery sees them: Engine. It calls none of this for a small host message.
class ReceivePaths {
 public:
  /// Moves the payload of a matched RTS.
  virtual void start_rendezvous(Transfer& t, uint32_t source, const ReadyToSend& rts) = 0;
  /// Copies an eager payload, valid during the call only, to device memory.
  virtual void upload_eager(Transfer& t, const std::byte* payload, size_t size) = 0;
  /// A receive into device memory was posted.
  virtual void posted_on_device(Transfer& t) = 0;
  /// A receive into device memory takes an unexpected message: receive_message().
  virtual void receive_on_device(Transfer& t, UnexpectedMessage& message) = 0;
  /// Takes back what was published of a posted receive: `advertised` is 0 afterwards. Returns false if its
  /// sender is writing into the buffer already: it completes by that.
  [[nodiscard]] virtual bool retract(Transfer& t) = 0;
  /// The same for a receive that has left the posted queue for another message.
  [[nodiscard]] virtual bool retract_matched(Transfer& t) = 0;
  /// Returns false, and has ended or kept the receive, if no process can send to it any more.
  [[nodiscard]] virtual bool usable(Transfer& t) = 0;
  [[nodiscard]] virtual bool source_alive(Transfer& t) = 0;
  /// Stores the GPU allocation that an RTS names.
  virtual void store_region(uint32_t source, const ReadyToSend& rts) = 0;
  /// The payload of an RTS will not be read: ends the send.
  virtual void refuse(uint32_t source, const ReadyToSend& rts) = 0;

 protected:
  ~ReceivePaths() = default;
};

class Delivery {
 public:
  Delivery(core::Instance& instance, Peers& peers, Requests& requests, Outgoing& outgoing,
           ReceivePaths& paths)
      : instance_(instance), requests_(requests), outgoing_(outgoing), paths_(paths), peers_(peers.view()) {}
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  // Receives.
  /// Matches a receive with an unexpected message, or posts it.
  void receive(Transfer& t) {
    if (check_sources_ && !paths_.usable(t)) [[unlikely]]
      return;
    if (match::MatchEntry* entry = unexpected_.find(t.key)) return receive_stored(t, *entry);
    if (check_sources_ && !paths_.source_alive(t)) [[unlikely]]
      return;
    post(t);
    if (device_side(t)) [[unlikely]]
      paths_.posted_on_device(t);
  }
  /// Adds a receive to the posted queue.
  void post(Transfer& t) {
    t.enter(Transfer::State::posted);
    posted_.add(t);
  }
  /// Removes a receive from the posted queue. Returns false if its sender is writing into its buffer.
  [[nodiscard]] bool withdraw(Transfer& t);
  /// Receives a message that is in the queue no more.
  void receive_message(Transfer& t, UnexpectedMessage& message);
  /// Marks a receive as matched with a message.
  void matched(Transfer& t, uint32_t source, int rank, int tag, uint64_t bytes);
  /// Cancels an unmatched receive; no-op for a matched one.
  void cancel(Transfer& t);
  /// Removes and returns the receive that a message matches; null: none.
  [[nodiscard]] Transfer* match_posted(const match::Key& key) {
    for (;;) {
      auto* t = static_cast<Transfer*>(posted_.extract(key));
      WEFT_ASSERT(t == nullptr || t->state == Transfer::State::posted);  // M1
      if (t == nullptr || t->advertised == 0 || paths_.retract_matched(*t)) [[likely]]
        return t;
    }
  }
  /// From now on receives check their source: there is a network, a process has failed, or a communicator is
  /// revoked.
  void check_sources() { check_sources_ = true; }
  [[nodiscard]] bool checks_sources() const { return check_sources_; }

  // Messages.
  /// Matches an eager message, or stores it as unexpected, and reports its match if a tool waits for it.
  /// `sender`: of eager_sync.
  void on_observed_eager(uint32_t source, const Header& header, const std::byte* payload,
                         core::RequestId sender);
  /// `size`: of the RTS and all that follows it, in bytes.
  void on_rts(uint32_t source, const ReadyToSend& rts, size_t size);
  /// Registers the handler of eager messages; anew when a tool begins or ends to wait for matches.
  void register_eager_handler();
  /// Stores a message as unexpected.
  UnexpectedMessage& store(uint32_t source, const Header& header, const std::byte* data, size_t size);
  /// Returns a matching message without removing it; null: none.
  [[nodiscard]] UnexpectedMessage* find(const match::Key& wanted) const {
    return static_cast<UnexpectedMessage*>(unexpected_.find(wanted));
  }
  void extract(UnexpectedMessage& message) { unexpected_.remove(message); }
  /// Discards an extracted message whose receive cannot start.
  void discard(UnexpectedMessage& message);
  /// Removes the message that its sender cancels. Returns false if it was matched before, or is unknown.
  [[nodiscard]] bool remove_cancelled(uint32_t source, const Reply& request);
  /// Forgets the messages of a process whose index is given up.
  void forget(uint32_t peer);
  /// Discards the eager messages of a revoked communicator, now and when they arrive later. Its announced
  /// ones are cancelled by their senders.
  void revoke(const core::Communicator& comm);

  [[nodiscard]] match::Posted& posted() { return posted_; }
  [[nodiscard]] const match::Posted& posted() const { return posted_; }
  [[nodiscard]] const match::Unexpected& unexpected() const { return unexpected_; }

 private:
  void receive_stored(Transfer& t, match::MatchEntry& entry) {
    auto& message = static_cast<UnexpectedMessage&>(entry);
    unexpected_.remove(message);
    if (device_side(t)) [[unlikely]]
      return paths_.receive_on_device(t, message);
    receive_message(t, message);
  }
  void receive_eager(Transfer& t, const std::byte* payload, size_t size) {
    if (!t.contiguous || size > t.bytes || device_side(t)) [[unlikely]]
      return receive_eager_slow(t, payload, size);
    copy_small(t.data(), payload, size);
    requests_.complete_inline(t);
  }
  void deliver_eager(uint32_t source, const Header& header, const std::byte* payload, core::RequestId sender);
  void receive_eager_slow(Transfer& t, const std::byte* payload, size_t size);
  void consumed(uint32_t from, uint64_t bytes);
  void return_credit(uint32_t to, Peer& peer);
  static void dispose(UnexpectedMessage& message);

  core::Instance& instance_;
  Requests& requests_;
  Outgoing& outgoing_;
  ReceivePaths& paths_;
  Peers::View peers_;
  match::Posted posted_;
  match::Unexpected unexpected_;
  std::unordered_set<core::ContextId> revoked_;  // ids of revoked communicators, which are not used again
  bool check_sources_ = false;
};

}  // namespace weft::p2p
