// SPDX-License-Identifier: BSD-3-Clause
// Peers: the state of each process with which this one communicates. Threading: under the instance lock.
#pragma once
#include <cstdint>

#include "core/instance.hpp"
#include "p2p/message/peer.hpp"
#include "p2p/message/sparse.hpp"
#include "p2p/message/traffic.hpp"

namespace weft::p2p {

/// The traffic with one process. A message counts as received when it arrives, also before its receive is
/// posted.
[[nodiscard]] Traffic traffic_with(const Peer& peer);

class Peers {
 public:
  using View = Sparse<Peer>::View;
  explicit Peers(core::Instance& instance);

  [[nodiscard]] Peer& operator[](uint32_t id) { return table_[id]; }
  [[nodiscard]] View view() { return View(table_); }
  /// Gives the index to another process.
  void renew(uint32_t id);
  /// Calls f(id, const Peer&) for all peers in use.
  template <class F>
  void for_each(F&& f) const {
    table_.for_each(f);
  }
  [[nodiscard]] Distance distance_of(uint32_t id, const Peer& peer) const {
    if (id == instance_.self) return Distance::self;
    return peer.remote ? Distance::network : Distance::host;
  }
  /// The traffic with all processes of that distance so far, also with those whose index others have now.
  [[nodiscard]] Traffic traffic(Distance distance) const;

 private:
  static void initialise(void* peers, uint32_t id, Peer& peer);

  core::Instance& instance_;
  Sparse<Peer> table_;  // by index in the process table
  Traffic forgotten_[kDistances];
};

}  // namespace weft::p2p
