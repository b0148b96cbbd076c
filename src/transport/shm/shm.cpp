// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/shm.hpp"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/config.hpp"
#include "base/counters.hpp"
#include "base/futex.hpp"
#include "base/scope.hpp"
#include "device/memory.hpp"
#include "transport/shm/access.hpp"
#include "transport/version.hpp"

namespace weft::transport::shm {
namespace {

config::Size connect_timeout{"shm.connect_timeout_s",
                             60,
                             1,
                             3600,
                             "Start-up timeout in seconds for the other ranks of this host to connect.",
                             "ranks of one host start far apart, for example from a slow file system"};
config::Size ring_after_messages{
    "shm.ring_after_messages", 32, 0, 1000000,
    "Messages sent to one peer through its MPSC queue before an SPSC ring is claimed, on hosts with more "
    "ranks than rings. Larger values leave the rings to busier pairs."};
counters::Counter dead_tickets("shm.dead_tickets", counters::Unit::events,
                               "Messages that processes of this host were writing when they were killed");

constexpr uint64_t kRingMask = kRingBytes - 1;
// Of ranks that wait at start-up for the others; where these outnumber cores, yields do not run them (ADR
// 0039).
constexpr uint32_t kAttachYields = 100;
constexpr long kAttachSleepNs = 1'000'000;
/// Freed bytes are returned in large steps: the producer reads `consumed` only when the ring looks full.
constexpr size_t kCreditBytes = kRingBytes / 4;
constexpr size_t kReadPrefetchBytes = 4 * kCacheLine;

std::string key_of(Peer leader) { return "shm." + std::to_string(leader); }

/// Returns the world ranks on this host.
std::vector<Peer> members_of(const launch::Job& job) {
  std::vector<Peer> members;
  for (int rank = 0; rank < job.size; ++rank)
    if (job.same_host(rank, job.rank)) members.push_back(static_cast<Peer>(rank));
  return members;
}

/// An error if a process of the job has ended that may be the one which is waited for.
Status check_processes(launch::Exchange& exchange) {
  const auto dead = exchange.dead_process();
  if (!dead) return {};
  return Error(Errc::proc_aborted, "process " + std::to_string(*dead) +
                                       " has ended before all processes of the job were connected: look for "
                                       "its own last messages");
}

std::atomic<uint32_t>& word_at(SpscRing& ring, uint64_t position) {
  return *reinterpret_cast<std::atomic<uint32_t>*>(ring.data + (position & kRingMask));
}

}  // namespace

/// Inode of this process's PID namespace; 0 if /proc does not show it.
uint64_t pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

Shm::Shm(Segment segment, uint32_t self, std::vector<Peer> members)
    : segment_(std::move(segment)),
      self_(self),
      members_(std::move(members)),
      contiguous_(members_.back() - members_.front() + 1 == members_.size()
                      ? static_cast<uint32_t>(members_.size())
                      : 0),
      area_(&segment_.area(self)),
      out_(members_.size()) {
  for (uint32_t rank = 0; rank < out_.size(); ++rank) {
    out_[rank].area = &segment_.area(rank);
    out_[rank].claim = &area_->claim;
    out_[rank].receiver = rank;
    out_[rank].source = self_;
  }
  probe_word_ = kMagic ^ (reinterpret_cast<uint64_t>(this) << 8) ^ static_cast<uint64_t>(::getpid());
  wait_table::describe(segment_.header().directory, static_cast<uint32_t>(members_.size()), sizeof(Header),
                       sizeof(Area), offsetof(Area, wait_table));
  area_->pid.store(::getpid(), std::memory_order_relaxed);
  area_->pid_namespace.store(pid_namespace(), std::memory_order_relaxed);
  area_->probe_address.store(reinterpret_cast<uint64_t>(&probe_word_), std::memory_order_relaxed);
  area_->probe_value.store(probe_word_, std::memory_order_relaxed);
  const std::string settings = config::common_values(config::Scope::host);
  settings.copy(area_->settings, kSettingsBytes);
  area_->settings_hash.store(std::hash<std::string>()(settings), std::memory_order_relaxed);
  area_->has_gpus.store(device::available() ? 1 : 0, std::memory_order_relaxed);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof cores, &cores);
  for (uint32_t core = 0; core < kMaxCores && core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &cores)) area_->cores[core / 64] |= uint64_t{1} << (core % 64);
  allow_access(true);
  in_.reserve(kRings);
}

Shm::~Shm() = default;

/// With all ranks, so that a difference is an error of every rank and none waits for a rank that has given
/// up.
Status Shm::compare_settings() const {
  for (uint32_t rank = 0; rank < members_.size(); ++rank)
    WEFT_TRY(compare_settings(segment_.area(rank), members_[rank]));
  return {};
}

Status Shm::compare_settings(const Area& other, Peer peer) const {
  if (other.settings_hash.load() == area_->settings_hash.load()) return {};
  const auto text = [](const Area& area) {
    return std::string_view(area.settings, ::strnlen(area.settings, kSettingsBytes));
  };
  return config::difference(text(*area_), static_cast<int>(members_[self_]), text(other),
                            static_cast<int>(peer));
}

uint32_t Shm::search(Peer peer) const {
  if (const auto other = other_index_.find(peer); other != other_index_.end()) return other->second;
  return static_cast<uint32_t>(std::lower_bound(members_.begin(), members_.end(), peer) - members_.begin());
}

Result<Server> Shm::publish(launch::Exchange& exchange) {
  const auto& job = exchange.job();
  if (job.local_rank != 0) return Server();
  auto server = Server::create(static_cast<uint32_t>(job.local_size));
  if (!server) return server;
  WEFT_TRY(
      exchange.put(key_of(static_cast<Peer>(job.rank)), std::string(kBuildVersion) + "\n" + server->name()));
  return server;
}

Result<std::unique_ptr<Shm>> Shm::create(launch::Exchange& exchange, Server server) {
  const auto& job = exchange.job();
  const auto self = static_cast<uint32_t>(job.local_rank);
  const int timeout_ms = static_cast<int>(connect_timeout * 1000);
  std::vector<Peer> members = members_of(job);
  const auto ranks = static_cast<uint32_t>(members.size());
  Segment segment;
  if (self == 0) {
    WEFT_TRY(server.serve(timeout_ms, [&] { return check_processes(exchange); }));
    auto mapped = Segment::map(server.release_memory(), ranks);
    if (!mapped) return std::move(mapped).error();
    segment = std::move(*mapped);
  } else {
    auto name = exchange.get(key_of(members.front()), static_cast<int>(members.front()));
    if (!name) return std::move(name).error();
    const size_t split = name->find('\n');
    if (name->compare(0, split, kBuildVersion) != 0)
      return version_mismatch(static_cast<Peer>(job.rank), kBuildVersion, members.front(),
                              name->substr(0, split), "use one Weft");
    auto attached = Segment::attach(name->substr(split + 1), ranks, timeout_ms);
    if (!attached) return std::move(attached).error();
    segment = std::move(*attached);
  }
  std::unique_ptr<Shm> shm(new Shm(std::move(segment), self, std::move(members)));
  auto& attached = shm->segment_.header().attached;
  if (attached.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks) futex_wake(attached);
  time_t looked = ::time(nullptr);
  const time_t deadline = looked + static_cast<time_t>(connect_timeout);
  uint32_t there, rounds = 0;
  while ((there = attached.load(std::memory_order_acquire)) < ranks) {
    if (++rounds <= kAttachYields)
      ::sched_yield();
    else
      futex_wait(attached, there, kAttachSleepNs);
    const time_t now = ::time(nullptr);
    if (now > deadline)
      return Error(Errc::other, "shared memory: not all ranks of this host were connected within " +
                                    std::to_string(timeout_ms / 1000) +
                                    " s (WEFT_SHM_CONNECT_TIMEOUT_S): look for their last messages");
    if (std::exchange(looked, now) != now) WEFT_TRY(check_processes(exchange));
  }
  WEFT_TRY(shm->compare_settings());
  return shm;
}

Result<std::unique_ptr<Shm>> Shm::create_alone(Peer self) {
  auto server = Server::create(1);
  if (!server) return std::move(server).error();
  auto segment = Segment::map(server->release_memory(), 1);
  if (!segment) return std::move(segment).error();
  return std::unique_ptr<Shm>(new Shm(std::move(*segment), 0, {self}));
}

Result<int> Shm::pid_of(Peer peer) const {
  const Area& other = area(peer);
  const uint64_t space = other.pid_namespace.load(std::memory_order_relaxed);
  if (space == 0 || space != area_->pid_namespace.load(std::memory_order_relaxed))
    return Error(Errc::unsupported, "process " + std::to_string(peer) +
                                        " has a pid of another PID namespace: run the ranks of a host in one "
                                        "container");
  return other.pid.load(std::memory_order_relaxed);
}

uint32_t Shm::usable_cores() const {
  uint32_t count = 0;
  for (uint32_t word = 0; word < kMaxCores / 64; ++word) {
    uint64_t mask = 0;
    for (uint32_t rank = 0; rank < members_.size(); ++rank) mask |= segment_.area(rank).cores[word].load();
    count += static_cast<uint32_t>(std::popcount(mask));
  }
  return count;
}

size_t Shm::max_message(Peer peer) {
  Outgoing& out = out_[local(peer)];
  if (!out.ring.is_open()) maybe_open_ring(out);
  return out.ring.is_open() ? kMaxRingMessage : kMaxQueueMessage;
}

// With one ring for every peer, rings are claimed at once.
uint32_t Shm::ring_threshold() const {
  if (members_.size() <= kRings + 1 && ring_after_messages.origin == config::Origin::default_value) return 0;
  return static_cast<uint32_t>(static_cast<size_t>(ring_after_messages));
}

void Shm::maybe_open_ring(Outgoing& out) {
  if (!out.no_ring && out.messages >= ring_threshold()) open_ring(out);
}

void Shm::open_ring(Outgoing& out) {
  Area& area = *out.area;
  uint32_t index = 0;
  if (out.claimed == nullptr) {
    for (; index < kRings; ++index) {
      uint32_t free = 0;
      if (area.rings[index].owner.compare_exchange_strong(free, out.source + 1)) break;
    }
    if (index == kRings) {
      out.no_ring = true;
      return;
    }
    out.claimed = &area.rings[index];
  } else {
    index = static_cast<uint32_t>(out.claimed - area.rings);
  }
  std::byte* payload = reserve_cell(out);
  if (payload == nullptr) return;  // the queue is full: a later call announces the ring
  *reinterpret_cast<uint32_t*>(payload) = index;
  fill_cell(out, kOpenRing);
  out.ring = RingWriter(*std::exchange(out.claimed, nullptr));
}

// Compares sequence + index with the ticket, so that zeroed memory is a valid empty queue.
std::byte* Shm::reserve_cell(Outgoing& out) {
  Area& area = *out.area;
  WEFT_ASSERT(out.claim->load(std::memory_order_relaxed) == 0);  // S4: one cell at a time
  uint64_t ticket = area.tail.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t index = ticket & (kQueueCells - 1);
    QueueCell& cell = area.cells[index];
    const auto lag = static_cast<int64_t>(cell.sequence.load(std::memory_order_acquire) + index - ticket);
    if (lag < 0) {
      out.claim->store(0, std::memory_order_release);
      return nullptr;
    }
    if (lag > 0) {
      ticket = area.tail.load(std::memory_order_relaxed);
      continue;
    }
    // The release of the tail makes the claim visible to a receiver that sees the ticket as taken.
    out.claim->store(claim_of(out.receiver, ticket), std::memory_order_release);
    if (area.tail.compare_exchange_weak(ticket, ticket + 1, std::memory_order_release,
                                        std::memory_order_relaxed)) {
      out.ticket = ticket;
      return cell.payload;
    }
  }
}

void Shm::fill_cell(Outgoing& out, uint32_t size) {
  WEFT_ASSERT(!out.ring.is_open());  // S1
  const uint64_t index = out.ticket & (kQueueCells - 1);
  QueueCell& cell = out.area->cells[index];
  WEFT_ASSERT(cell.sequence.load(std::memory_order_relaxed) + index == out.ticket);  // T2
  cell.source = out.source;
  cell.size = size;
  cell.sequence.store(out.ticket + 1 - index, std::memory_order_release);
  out.claim->store(0, std::memory_order_release);  // after the cell: a receiver that sees 0 sees it filled
}

// A producer that has taken the ticket has stored its claim before, and clears it after it has filled the
// cell: the tail is read before the claims, and the cell once more after them.
bool Shm::unfilled() const {
  const uint64_t index = head_ & (kQueueCells - 1);
  return area_->tail.load(std::memory_order_acquire) != head_ &&
         area_->cells[index].sequence.load(std::memory_order_acquire) + index != head_ + 1;
}

void Shm::skip_cell() {
  dead_tickets.add();
  const uint64_t index = head_ & (kQueueCells - 1);
  WEFT_ASSERT(area_->cells[index].sequence.load(std::memory_order_relaxed) + index == head_);  // T2
  area_->cells[index].sequence.store(head_ + kQueueCells - index, std::memory_order_release);
  ++head_;
}

std::byte* Shm::reserve(Peer peer, size_t size) {
  Outgoing& out = out_[local(peer)];
  if (!out.ring.is_open()) [[unlikely]] {
    maybe_open_ring(out);
    if (!out.ring.is_open()) return reserve_cell(out);
  }
  return out.ring.reserve(size);
}

void Shm::commit(Peer peer, size_t size) {
  Outgoing& out = out_[local(peer)];
  if (out.ring.is_open()) {
    out.ring.commit(size);
    return notify(peer);
  }
  fill_cell(out, static_cast<uint32_t>(size));
  ++out.messages;
  notify(peer);
}

void Shm::notify_sleeper(Peer peer) {
  const Outgoing& out = out_[local(peer)];
  const Segment& segment = out.other != nullptr ? out.other->segment : segment_;
  out.area->wakeup.notify(segment.header().sleepers);
}

std::optional<uint32_t> Shm::lease_region(uint32_t ranks) {
  for (uint32_t index = 0; index < kRegions; ++index) {
    std::atomic<uint32_t>& left = reinterpret_cast<LeasedRegion&>(area_->regions[index]).left;
    const uint32_t ended = left.load(std::memory_order_acquire);
    WEFT_ASSERT(ended <= region_users_[index]);  // T3
    if (ended != region_users_[index]) continue;
    left.store(0, std::memory_order_relaxed);
    region_users_[index] = ranks;
    return index;
  }
  return std::nullopt;
}

size_t Shm::poll(Receiver& receiver, size_t limit) {
  size_t delivered = 0;
  for (size_t i = 0; i < in_.size(); ++i) delivered += poll_ring(in_[i], receiver, limit);
  return delivered + poll_queue(receiver, limit);
}

size_t Shm::poll_ring(Incoming& in, Receiver& receiver, size_t limit) {
  SpscRing& ring = *in.ring;
  size_t delivered = 0;
  while (delivered < limit) {
    const uint32_t size = size_in(word_at(ring, in.position).load(std::memory_order_acquire), in.position);
    if (size == 0) break;
    if (size >= kNextLine) [[unlikely]] {
      const size_t block = size == kWrap ? kRingBytes : kCacheLine;
      in.position += block - in.position % block;
      continue;
    }
    WEFT_ASSERT(size <= kMaxRingMessage &&
                (in.position & kRingMask) + record_bytes(size) <= kRingBytes);  // T1
    // From the second message of a burst on, prefetch the following lines. Never after a single message: its
    // producer has fetched the next line for writing.
    if (delivered != 0) __builtin_prefetch(ring.data + ((in.position + kReadPrefetchBytes) & kRingMask));
    receiver.deliver(in.source, ring.data + (in.position & kRingMask) + kRecordHeader, size);
    in.position += record_bytes(size);
    if (in.position - in.published >= kCreditBytes) [[unlikely]] {
      in.published = in.position;
      ring.consumed.store(in.position, std::memory_order_release);
      notify(in.source);
    }
    ++delivered;
  }
  return delivered;
}

size_t Shm::poll_queue(Receiver& receiver, size_t limit) {
  size_t delivered = 0;
  for (; delivered < limit; ++delivered) {
    const uint64_t index = head_ & (kQueueCells - 1);
    QueueCell& cell = area_->cells[index];
    if (cell.sequence.load(std::memory_order_acquire) + index != head_ + 1) break;
    const Peer sender = sender_of(cell, receiver);
    if (sender != kNoPeer) [[likely]] {
      if (cell.size == kOpenRing)
        in_.push_back({&area_->rings[*reinterpret_cast<const uint32_t*>(cell.payload)], sender});
      else
        receiver.deliver(sender, cell.payload, cell.size);
    }
    cell.sequence.store(head_ + kQueueCells - index, std::memory_order_release);
    ++head_;
  }
  return delivered;
}

}  // namespace weft::transport::shm
