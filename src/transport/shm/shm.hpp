// SPDX-License-Identifier: BSD-3-Clause
// Shared memory transport: messages through inboxes and boxes (layout.hpp), bulk data by process_vm_readv.
// Polling cost does not depend on the number of ranks: one inbox and at most kBoxes boxes.
// Peers are processes of the job; the areas of the segment go by local rank: local() and in_ are where the
// two meet.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/launch.hpp"
#include "transport/shm/segment.hpp"
#include "transport/transport.hpp"

namespace weft::transport::shm {

class Shm final : public Transport {
 public:
  /// On the host's first rank: makes the segment and publishes where it is. Exchange::share() has to follow.
  [[nodiscard]] static Result<Server> publish(launch::Exchange& exchange);
  /// Collective over the ranks of the host: passes round and maps the segment.
  [[nodiscard]] static Result<std::unique_ptr<Shm>> create(launch::Exchange& exchange, Server server);
  ~Shm() override;

  [[nodiscard]] size_t max_message(Peer peer) override;
  [[nodiscard]] std::byte* reserve(Peer peer, size_t size) override;
  void commit(Peer peer, size_t size) override;
  size_t poll(Receiver& receiver, size_t limit) override;
  /// Whether get() works for this peer. Proved by moving bytes at the first call; the reason when it does
  /// not.
  [[nodiscard]] Status can_get(Peer peer);
  /// What a get() of a few bytes takes, in nanoseconds, measured now; the reason when get() does not work.
  [[nodiscard]] Result<uint64_t> get_cost(Peer peer);
  /// Copies the peer's memory `remote` into `local` (equal total lengths), at once. Errc::buffer: some of
  /// that memory cannot be read this way (device or protected memory); the caller falls back by name.
  [[nodiscard]] Status get(Peer peer, std::span<const Piece> local, std::span<const Piece> remote);

  /// Cores that at least one rank of the host may run on.
  [[nodiscard]] uint32_t usable_cores() const;
  /// A lane of this rank's, empty, until `ranks` ranks have counted themselves in Lane::left; nullopt: all
  /// are in use.
  [[nodiscard]] std::optional<uint32_t> lease_lane(uint32_t ranks);
  [[nodiscard]] Lane& lane(Peer peer, uint32_t index) const { return area(peer).lanes[index]; }
  /// Where a rank shows receives.
  [[nodiscard]] ReadyToReceive& ready(Peer peer, uint32_t index) const { return area(peer).readies[index]; }
  /// To be called after a store to shared memory that the peer may sleep for.
  void ring(Peer peer) {
    if (bells_) [[unlikely]]
      bell(peer).ring();
  }
  /// The peer had a CUDA driver when it came up.
  [[nodiscard]] bool has_gpus(Peer peer) const { return area(peer).has_gpus.load() != 0; }
  /// From now on ranks may sleep on their bells: to be called by all, before the first message.
  void ring_bells() { bells_ = true; }
  [[nodiscard]] Bell& bell(Peer peer) const { return area(peer).bell; }
  /// What this rank lets others see of its waits.
  [[nodiscard]] Awaited& awaited() const { return area_->awaited; }
  /// Sleeps on this rank's bell, which is armed: Bell::sleep().
  [[nodiscard]] bool sleep(long nanoseconds) const;
  [[nodiscard]] bool anyone_sleeps() const {
    return segment_.header().sleepers.load(std::memory_order_relaxed) != 0;
  }

 private:
  struct Outgoing {             // to one peer
    Box* box = nullptr;         // in use, after its opening was announced
    Box* claimed = nullptr;     // owned, not announced yet
    uint64_t position = 0;      // bytes written to the box
    uint64_t consumed = 0;      // last seen value of box->consumed
    uint64_t ticket = 0;        // of the reserved inbox cell
    uint32_t messages = 0;      // sent through the inbox
    bool no_box = false;        // all boxes of the peer are taken
    signed char readable = -1;  // -1 unknown, 0 no, 1 yes
  };
  struct Incoming {  // one box of ours that a peer writes
    Box* box;
    Peer source;
    uint64_t position = 0, published = 0;
  };

  Shm(Segment segment, uint32_t self, std::vector<Peer> members);
  [[nodiscard]] uint32_t local(Peer peer) const {
    return contiguous_ ? peer - members_.front() : search(peer);
  }
  [[nodiscard]] uint32_t search(Peer peer) const;
  [[nodiscard]] Status compare_settings() const;
  [[nodiscard]] Area& area(Peer peer) const { return segment_.area(local(peer)); }
  [[nodiscard]] uint32_t patience() const;
  void want_box(Peer peer, Outgoing& out);
  void open_box(Peer peer, Outgoing& out);
  std::byte* reserve_cell(Peer peer, Outgoing& out);
  static void publish(Outgoing& out, uint32_t size, uint64_t next);
  static std::byte* reserve_record(Outgoing& out, size_t size);
  size_t poll_box(Incoming& in, Receiver& receiver, size_t limit);
  size_t poll_inbox(Receiver& receiver, size_t limit);
  Status probe(Peer peer);

  Segment segment_;
  uint32_t self_;              // local rank
  std::vector<Peer> members_;  // by local rank, ascending
  bool contiguous_;
  bool bells_ = false;
  Area* area_;                 // ours
  uint64_t head_ = 0;          // next inbox ticket to read
  uint64_t probe_word_;        // peers read it to prove process_vm_readv
  std::vector<Outgoing> out_;  // by local rank
  std::vector<Incoming> in_;
  uint32_t lane_users_[kLanes] = {};  // ranks that our lanes were leased for; 0: never
};

}  // namespace weft::transport::shm
