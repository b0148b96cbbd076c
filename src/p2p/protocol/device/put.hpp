// SPDX-License-Identifier: BSD-3-Clause
// PutProtocol: the receives that are advertised to their senders (RTR), and puts into those of peers.
// Correctness: docs/adr/0016. Threading: under the instance lock.
#pragma once
#include <array>
#include <cstdint>
#include <deque>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "p2p/engine/advertised_receives.hpp"
#include "p2p/engine/device_copies.hpp"
#include "p2p/match/queue.hpp"
#include "p2p/memory/bounce_pool.hpp"
#include "p2p/memory/limit.hpp"
#include "p2p/message/peer.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {

class Engine;

/// The bounce buffer of an advertised receive, for a sender that cannot map the receive buffer or has not
/// yet.
struct PutBounce {
  enum class Stage : uint8_t { open, unpacking, timed_out, copying, done };
  BouncePool::Arena* arena = nullptr;  ///< null: the sender writes into the receive buffer itself
  uint32_t number = 0, count = 0;      ///< first chunk and number of chunks
  uint64_t epoch = 0;
  Stage stage = Stage::open;
  device::Ticket unpacked{};
  Limit::Use waiting_kernel{};  ///< stage unpacking
  Status outcome{};
  /// Releases the chunks; neither put nor unpacking may be in flight.
  void release() {
    if (arena != nullptr) arena->release(number, count);
    arena = nullptr;
    waiting_kernel.release();
  }
};

/// Returns whether a peer can map the buffer of a contiguous transfer.
[[nodiscard]] inline bool mappable(const Transfer& t) {
  return t.memory.shareable() && t.memory.covers(t.address, t.bytes);
}

class PutProtocol final : public AdvertisedReceives {
 public:
  explicit PutProtocol(Engine& engine) : engine_(engine) {}

  void advertise(Transfer& t) override;
  [[nodiscard]] bool retract(Transfer& t) override;
  [[nodiscard]] bool retract_matched(Transfer& t) override;
  bool poll(Transfer& t) override;
  void abort_peer(uint32_t peer) override;
  void close() override;
  [[nodiscard]] bool put(Transfer& t) override;
  void submit_to_bounce(const DeviceCopy& put, device::StreamRole stream) override;
  void finish(const DeviceCopy& put, Status outcome) override;

 private:
  [[nodiscard]] uint32_t self() const;
  [[nodiscard]] ReadyToReceive& slot_at(uint32_t slot) const;
  [[nodiscard]] bool may_advertise(const Transfer& t) const;
  void clear_advertised(Transfer& t);
  void finish_advertised(Transfer& t, uint64_t state);

  [[nodiscard]] ReadyToReceive::Phase offer(Transfer& t, uint32_t source, PutBounce& bounce);

  // put_bounce.cpp
  [[nodiscard]] bool offers_bounce(const Transfer& t, uint32_t source) const;
  static void advertise_bounce(const PutBounce& bounce, ReadyToReceive::BounceTarget& target);
  void end_offer(Transfer& t, uint32_t source, const ReadyToReceive::BounceTarget& target);
  [[nodiscard]] bool reserve_bounce(const Transfer& t, PutBounce& bounce);
  [[nodiscard]] bool start_unpack(const Transfer& t, PutBounce& bounce, uint64_t bytes);
  [[nodiscard]] bool progress_bounce(Transfer& t, PutBounce& bounce, uint64_t state);

  Engine& engine_;
  std::deque<LastSent> last_sent_;  // of peers that got a put attempt
  // Indexed by RTR slot: receives advertised to their senders, and the bounce buffers of those receives.
  std::array<Transfer*, kRtrSlots> advertised_{};
  std::array<PutBounce, kRtrSlots> bounces_{};
};

}  // namespace weft::p2p
