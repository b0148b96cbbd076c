// SPDX-License-Identifier: BSD-3-Clause
// Requests: the requests in flight with peers, by id; the polling of their protocols; their end.
// Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/request_table.hpp"
#include "p2p/engine/peers.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

class Engine;

class Requests {
 public:
  /// `engine` is passed to the hooks of protocols; null: no request has a protocol with hooks.
  Requests(Peers& peers, Engine* engine) : peers_(peers.view()), engine_(engine) {}
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  /// Gives a request in flight with `t.peer` its id, until it ends. Idempotent.
  core::RequestId enlist(Transfer& t) {
    if (t.id == core::kNoRequest) t.id = table_.insert(t, t.peer, peers_[t.peer].requests);
    return t.id;
  }
  /// Returns the transfer that an id from `source` names if it is in `state`; else null, counted as a
  /// stale id or a malformed message.
  [[nodiscard]] Transfer* find(core::RequestId id, uint32_t source, Transfer::State state);
  /// Calls the progress hook of the request's protocol from now on.
  void start_polling(Transfer& t);
  void stop_polling(Transfer& t);
  /// Calls the progress hooks once. Returns false if nothing progressed.
  bool poll() { return !polled_.empty() && poll_all(); }
  /// Returns everything that the request holds in its protocol.
  void leave_protocol(Transfer& t);
  void complete(Transfer& t);
  void complete(Transfer& t, Error error);
  /// complete() for the path of small host messages.
  [[gnu::always_inline]] void complete_inline(Transfer& t) {
    if (t.kind == core::Request::Kind::receive && t.completion.bytes < t.bytes) [[unlikely]]
      return complete_shorter(t);
    end(t);
    t.finish();
  }

  /// Returns the number of requests in flight with peers; posted receives do not count.
  [[nodiscard]] size_t size() const { return table_.size(); }
  [[nodiscard]] bool any_polled() const { return !polled_.empty(); }
  [[nodiscard]] bool any_send_polled() const;
  /// Calls f(Transfer&) for all requests in flight. The function may end the request that it is called for,
  /// and no other.
  template <class F>
  void for_each(F&& f) {
    table_.for_each([&](core::Request& request, core::RequestId) { f(static_cast<Transfer&>(request)); });
  }
  /// The same for those in flight with one peer.
  template <class F>
  void for_each_with(const Peer& peer, F&& f) {
    table_.for_each(peer.requests,
                    [&](core::Request& request, core::RequestId) { f(static_cast<Transfer&>(request)); });
  }

 private:
  bool poll_all();
  void end(Transfer& t) {
    t.enter(Transfer::State::done);
    if (t.protocol != nullptr) [[unlikely]]
      end_protocol(t);
    if (t.id != core::kNoRequest) [[unlikely]]
      delist(t);
    if (t.classification_slot != nullptr) [[unlikely]]
      t.uncache_classification();
  }
  void complete_shorter(Transfer& t);
  void end_protocol(Transfer& t);
  void delist(Transfer& t);

  core::RequestTable table_;  // also listed in Peer::requests
  Peers::View peers_;
  Engine* engine_;
  std::vector<Transfer*> polled_;  // in the order of start_polling()
};

}  // namespace weft::p2p
