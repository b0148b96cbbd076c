// SPDX-License-Identifier: BSD-3-Clause
// Shared-memory transport: messages through MPSC queues and SPSC rings (layout.hpp), bulk data by
// process_vm_readv. poll() visits one queue and at most kRings rings, whatever the number of ranks. Processes
// of other jobs map this segment as guests to send to its ranks, and this process maps theirs.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "launch/launch.hpp"
#include "transport/shm/ring_writer.hpp"
#include "transport/shm/segment.hpp"
#include "transport/transport.hpp"

namespace weft::transport::shm {

/// Inode of this process's PID namespace; 0 if /proc does not show it.
[[nodiscard]] uint64_t pid_namespace();

class Shm final : public Transport {
 public:
  /// On the host's first rank: creates the segment and publishes its address. Exchange::share() must follow.
  [[nodiscard]] static Result<Server> publish(launch::Exchange& exchange);
  /// Collective over the ranks of the host: distributes the segment's descriptor and maps the segment.
  [[nodiscard]] static Result<std::unique_ptr<Shm>> create(launch::Exchange& exchange, Server server);
  /// A segment of this process alone, for a job with no other rank on this host that connects to another job.
  [[nodiscard]] static Result<std::unique_ptr<Shm>> create_alone(Peer self);
  ~Shm() override;

  // Processes of other jobs (guests.cpp).
  /// The descriptor of the own segment, for a JobListener.
  [[nodiscard]] int memory() const { return segment_.memory(); }
  [[nodiscard]] bool has_segment(const launch::JobId& job) const { return segment_of(job) != nullptr; }
  /// Adds the segment of another job, in which this process becomes the guest (`own`, `rank`).
  [[nodiscard]] Status add_segment(const launch::JobId& job, Segment segment, const launch::JobId& own,
                                   uint32_t rank);
  /// Adds a process of a job whose segment was added. Its messages go through the queue until allow_ring().
  /// An error names a setting that differs.
  [[nodiscard]] Status add(Peer peer, const launch::JobId& job, uint32_t local_rank);
  /// The peer has added this process, so a ring may be announced to it.
  void allow_ring(Peer peer) { out_[local(peer)].no_ring = false; }
  /// Forgets a process of another job; the segment of its job is unmapped with the last of its processes.
  /// Precondition: the process sends no message any more, and all of its messages have been delivered.
  void remove(Peer peer);

  [[nodiscard]] size_t max_message(Peer peer) override;
  [[nodiscard]] std::byte* reserve(Peer peer, size_t size) override;
  void commit(Peer peer, size_t size) override;
  size_t poll(Receiver& receiver, size_t limit) override;
  /// Returns the open ring to the peer, valid until remove(); null: none. Its user calls notify() after each
  /// commit.
  [[nodiscard]] RingWriter* ring_to(Peer peer) {
    RingWriter& ring = out_[local(peer)].ring;
    return ring.is_open() ? &ring : nullptr;
  }
  /// Skips queue cells whose producers were killed between taking the ticket and filling the cell: messages
  /// behind such a cell would never be read. `failed`: returns whether a rank of this host has died. Returns
  /// the number of skipped cells. Not for the fast path.
  template <class Failed>
  size_t skip_dead_tickets(Failed&& failed) {
    size_t skipped = 0;
    while (unfilled() && !claimed(failed) && unfilled()) skip_cell(), ++skipped;
    return skipped;
  }
  /// Returns an error with the reason if get() does not work for this peer; Errc::proc_aborted if the peer
  /// has ended. The first call tests the path by reading the peer's probe word.
  [[nodiscard]] Status can_get(Peer peer);
  /// Measures the latency of a get() of a few bytes, in nanoseconds; an error if get() does not work.
  [[nodiscard]] Result<uint64_t> get_cost(Peer peer);
  /// Copies the peer's memory `remote` into `local` (equal total lengths) before returning. Errc::buffer: the
  /// kernel cannot read that memory (device or protected); the caller falls back and reports a slow path.
  /// Errc::proc_aborted: the peer has ended.
  [[nodiscard]] Status get(Peer peer, std::span<const Iov> local, std::span<const Iov> remote);
  /// The same from `local` to `remote`.
  [[nodiscard]] Status put(Peer peer, std::span<const Iov> local, std::span<const Iov> remote);
  /// Returns the index of a slot of this rank for a copy that it shares with a peer, until
  /// release_shared_copy(); nullopt: all are in use.
  [[nodiscard]] std::optional<uint32_t> lease_shared_copy();
  void release_shared_copy(uint32_t index) { shared_copies_used_ &= ~(1U << index); }
  /// `index`: below kSharedCopies.
  [[nodiscard]] SharedCopy& shared_copy(Peer peer, uint32_t index) const {
    return area(peer).shared_copies[index].copy;
  }

  /// The ranks of this host, this one included, in ascending order.
  [[nodiscard]] std::span<const Peer> members() const { return members_; }
  /// Pid of a rank; an error if it counts in another PID namespace than this process's.
  [[nodiscard]] Result<int> pid_of(Peer peer) const;
  /// Not 0 once the rank has left MPI regularly.
  [[nodiscard]] const std::atomic<uint32_t>& departed(Peer peer) const { return area(peer).departed; }
  /// Publishes whether this rank has left MPI regularly, or with which of the values of the failure detector.
  void set_departed(uint32_t departed) { area_->departed.store(departed, std::memory_order_release); }

  /// Counts the deaths that ranks of this host have noticed.
  [[nodiscard]] std::atomic<uint32_t>& deaths() { return segment_.header().deaths; }

  /// Number of cores that at least one rank of the host may run on.
  [[nodiscard]] uint32_t usable_cores() const;
  /// Returns the index of a region of this rank, leased until `ranks` ranks have incremented
  /// LeasedRegion::left; nullopt: all are in use. The first lease of a region finds zeros, another one what
  /// the last has left.
  [[nodiscard]] std::optional<uint32_t> lease_region(uint32_t ranks);
  /// A region that its owner has leased for a T.
  template <class T>
  [[nodiscard]] T& region(Peer peer, uint32_t index) const {
    static_assert(std::is_base_of_v<LeasedRegion, T> && sizeof(T) <= kRegionBytes);
    return reinterpret_cast<T&>(area(peer).regions[index]);
  }
  /// The region that one upper layer uses as a T on all ranks, all the time. Zeroed at first.
  template <class T>
  [[nodiscard]] T& permanent_region(Peer peer) const {
    static_assert(sizeof(T) <= kPermanentRegionBytes && alignof(T) <= kCacheLine);
    return reinterpret_cast<T&>(area(peer).permanent_region);
  }
  /// Wakes the peer if it sleeps; call after a store to shared memory that the peer may wait for.
  void notify(Peer peer) {
    if (wakeups_enabled_) [[unlikely]]
      notify_sleeper(peer);
  }
  /// Whether ranks sleep in waits, so that notify() may have something to do.
  [[nodiscard]] bool wakeups_enabled() const { return wakeups_enabled_; }
  void notify_sleeper(Peer peer);
  /// notify() of this rank, by another thread.
  void notify_self() { area_->wakeup.notify(segment_.header().sleepers); }
  /// Returns whether the peer had a CUDA driver at start-up.
  [[nodiscard]] bool has_gpus(Peer peer) const { return area(peer).has_gpus.load() != 0; }
  /// Lets ranks sleep in sleep(); all ranks call it before the first message.
  void enable_wakeups() {
    wakeups_enabled_ = true;
    cores_ = usable_cores();
    segment_.header().wakeups.store(1, std::memory_order_relaxed);
  }
  [[nodiscard]] Wakeup& wakeup(Peer peer) const { return area(peer).wakeup; }
  [[nodiscard]] wait_table::Table& wait_table(Peer peer) const { return area(peer).wait_table; }
  /// Wakeup::arm() of this rank.
  void arm() const { area_->wakeup.arm(segment_.header().sleepers); }
  /// Wakeup::sleep() of this rank; its wakeup must be armed.
  [[nodiscard]] bool sleep(long nanoseconds) const {
    return area_->wakeup.sleep(nanoseconds, segment_.header().sleepers);
  }
  /// Returns whether more ranks of this segment are awake than cores are usable. Needs enable_wakeups(). A
  /// rank that is killed stays counted as it was.
  [[nodiscard]] bool crowded() const {
    return members_.size() > cores_ + segment_.header().sleepers.load(std::memory_order_relaxed);
  }

 private:
  struct OtherSegment {  // of another job on this host
    launch::JobId job;
    Segment segment;
    uint32_t guest;      // index of this process's entry
    uint32_t source;     // QueueCell::source of this process
    uint32_t peers = 0;  // added processes of the job
  };
  struct Outgoing {                          // to one peer
    Area* area = nullptr;                    // of the peer
    OtherSegment* other = nullptr;           // of a process of another job: its segment
    std::atomic<uint64_t>* claim = nullptr;  // of this process in that segment
    uint32_t receiver = 0;                   // local rank of the peer in that segment
    uint32_t source = 0;                     // QueueCell::source of this process in that segment
    RingWriter ring;                         // open: announced to the peer
    SpscRing* claimed = nullptr;             // owned, not yet announced
    uint64_t ticket = 0;                     // of the reserved queue cell
    uint32_t messages = 0;                   // sent through the queue
    bool no_ring = false;                    // all rings of the peer are claimed
    signed char readable = -1;               // -1 unknown, 0 no, 1 yes
  };
  struct Incoming {  // a ring of this rank with its producer
    SpscRing* ring;
    Peer source;
    uint64_t position = 0, published = 0;
  };

  Shm(Segment segment, uint32_t self, std::vector<Peer> members);
  /// Index into out_: the local rank, and above them processes of other jobs.
  [[nodiscard]] uint32_t local(Peer peer) const {
    const uint32_t index = peer - members_.front();
    return index < contiguous_ ? index : search(peer);
  }
  [[nodiscard]] uint32_t search(Peer peer) const;
  [[nodiscard]] OtherSegment* segment_of(const launch::JobId& job) const;
  /// Returns the peer that has sent a message; kNoPeer: a process of another job that is not known, whose
  /// message went to Receiver::unknown_source().
  [[nodiscard]] Peer sender_of(const QueueCell& cell, Receiver& receiver) {
    return cell.source < members_.size() ? members_[cell.source] : guest_of(cell, receiver);
  }
  [[nodiscard]] Peer guest_of(const QueueCell& cell, Receiver& receiver);
  void release_rings(Peer peer);
  void drop_segment(OtherSegment& other);
  [[nodiscard]] Status compare_settings() const;
  [[nodiscard]] Status compare_settings(const Area& other, Peer peer) const;
  [[nodiscard]] Area& area(Peer peer) const { return *out_[local(peer)].area; }
  [[nodiscard]] uint32_t ring_threshold() const;
  void maybe_open_ring(Outgoing& out);
  void open_ring(Outgoing& out);
  std::byte* reserve_cell(Outgoing& out);
  size_t poll_ring(Incoming& in, Receiver& receiver, size_t limit);
  size_t poll_queue(Receiver& receiver, size_t limit);
  static void fill_cell(Outgoing& out, uint32_t size);
  /// Returns whether a producer has taken the ticket of the next cell and not filled the cell.
  [[nodiscard]] bool unfilled() const;
  template <class Failed>
  [[nodiscard]] bool claimed(Failed&& failed) const {
    for (uint32_t rank = 0; rank < members_.size(); ++rank)
      if (segment_.area(rank).claim.load(std::memory_order_acquire) == claim_of(self_, head_) &&
          !failed(members_[rank]))
        return true;
    return claimed_by_guest();
  }
  [[nodiscard]] bool claimed_by_guest() const;
  void skip_cell();
  Status probe(Peer peer);

  Segment segment_;
  uint32_t self_;              // local rank
  std::vector<Peer> members_;  // by local rank, ascending
  uint32_t contiguous_;        // number of members if their ranks are consecutive, else 0
  bool wakeups_enabled_ = false;
  uint32_t cores_ = 0;        // usable_cores(), with wakeups
  Area* area_;                // of this rank
  uint64_t head_ = 0;         // next queue ticket to read
  uint64_t probe_word_;       // read by peers to test process_vm_readv
  std::deque<Outgoing> out_;  // by local(); addresses are stable
  std::vector<std::unique_ptr<OtherSegment>> other_segments_;
  std::unordered_map<Peer, uint32_t> other_index_;  // processes of other jobs: local()
  std::unordered_map<uint32_t, Peer> guests_;       // known senders, by QueueCell::source
  std::vector<Incoming> in_;
  uint32_t shared_copies_used_ = 0;       // bits
  uint32_t region_users_[kRegions] = {};  // ranks of the current lease; 0: never leased
};

}  // namespace weft::transport::shm
