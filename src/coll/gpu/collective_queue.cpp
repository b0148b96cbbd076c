// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/collective_queue.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/assert.hpp"

namespace weft::coll::gpu {
namespace {

using transport::shm::CallDescriptor;
using transport::shm::SlotArea;

// The first descriptors are a ring for nonblocking calls; each of the others belongs to one persistent call.
constexpr uint32_t kNonblockingSlots = transport::shm::kCallDescriptors / 2;
constexpr uint32_t kPersistentSlots = transport::shm::kCallDescriptors - kNonblockingSlots;
constexpr uint32_t kOrderSlots = transport::shm::kCallDescriptors / 4;
constexpr uint32_t kPersistentBit = 1u << 31;
static_assert(sizeof(Vote) <= transport::shm::kCallDescriptorBytes);
static_assert(kPersistentSlots < 32);

bool at_or_after(uint32_t word, uint32_t number) { return static_cast<int32_t>(word - number) >= 0; }

/// Offset of QueuedCall::uncontended_slot in the descriptor of a persistent call. Two alternate, since a rank
/// may be one start ahead of its peers.
constexpr size_t uncontended_offset(uint32_t starts) { return starts % 2 * sizeof(uint32_t); }
static_assert(transport::shm::kCallDescriptorBytes >= 2 * sizeof(uint32_t));

}  // namespace

CollectiveQueue::CollectiveQueue(core::Communicator& comm, host::SlotChannel& channel, Domain& domain)
    : comm_(comm), channel_(channel), domain_(domain), free_slots_((1u << kPersistentSlots) - 1) {}

CollectiveQueue::~CollectiveQueue() {
  if (registered_) comm_.instance.remove(*this);
}

void CollectiveQueue::start_polling() {
  if (registered_) return;
  registered_ = true;
  comm_.instance.add(*this);
}

uint32_t CollectiveQueue::min_over_ranks(std::atomic<uint32_t> SlotArea::*word) const {
  uint32_t lowest = (channel_.slot_area(0).*word).load(std::memory_order_acquire);
  for (int rank = 1; rank < comm_.size(); ++rank) {
    const uint32_t word_value = (channel_.slot_area(rank).*word).load(std::memory_order_acquire);
    if (!at_or_after(word_value, lowest)) lowest = word_value;
  }
  return lowest;
}

void CollectiveQueue::enqueue(const Call& call, DeferredCall& client) {
  PendingCall entry{&call, &client, {}, {}, Vote::size(call)};
  entry.vote = vote_of(call, domain_, entry.memory);
  const Location location = entry.vote.location;
  const bool messages = location == Location::host || location == Location::other;
  if (messages)
    entry.client = nullptr;
  else
    ++busy_;
  pending_.push_back(std::move(entry));
  start_polling();
  if (messages) client.run_by_messages();
  poll();
}

/// Publishes votes while the peers have read the descriptors to be reused.
bool CollectiveQueue::publish() {
  bool progressed = false;
  for (;;) {
    const size_t next = published_ - decided_;
    if (next >= pending_.size()) return progressed;
    const uint32_t number = published_ + 1;
    if (!at_or_after(min_over_ranks(&SlotArea::seen), number - kNonblockingSlots)) return progressed;
    // A call that opens the domain must be decided before the next vote.
    if (next != 0 && domain_.state() == Domain::State::unknown) return progressed;
    PendingCall& entry = pending_[next];
    if (entry.vote.state != domain_.state()) refresh_vote(entry);
    CallDescriptor& descriptor = own().call_descriptors[number % kNonblockingSlots];
    std::memcpy(descriptor.data, &entry.vote, entry.size);
    descriptor.number.store(number, std::memory_order_release);
    channel_.wake_peers();
    published_ = number;
    progressed = true;
  }
}

/// Renews a vote from before the domain was opened or refused.
void CollectiveQueue::refresh_vote(PendingCall& entry) {
  if (entry.client == nullptr) return;  // its call may be gone
  entry.vote = vote_of(*entry.call, domain_, entry.memory);
  const Location location = entry.vote.location;
  if (location != Location::host && location != Location::other) return;
  --busy_;
  std::exchange(entry.client, nullptr)->run_by_messages();
}

/// Reduces the votes of all ranks; nullopt: not all have arrived. One rank that uses messages decides for
/// all.
std::optional<Agreement> CollectiveQueue::collect(const PendingCall& entry, uint32_t number) const {
  VoteReduction votes(*entry.call, true);
  bool all = true;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const CallDescriptor& descriptor = channel_.slot_area(rank).call_descriptors[number % kNonblockingSlots];
    if (descriptor.number.load(std::memory_order_acquire) != number) {
      all = false;
      continue;
    }
    Location location;
    std::memcpy(&location, descriptor.data + offsetof(Vote, location), sizeof location);
    if (location == Location::host || location == Location::other) return Agreement{};
    votes.add(rank, descriptor.data);
  }
  if (!all) return std::nullopt;
  Agreement agreement = votes.result();
  agreement.memory = entry.memory;
  return agreement;
}

/// Decides a call, in MPI order, so that all ranks decide with the same knowledge. False: not yet.
bool CollectiveQueue::decide_next(PendingCall& entry) {
  if (entry.client == nullptr) return true;
  const uint32_t number = decided_ + 1;
  const auto agreement = collect(entry, number);
  if (!agreement) return false;
  if (agreement->path == AgreedPath::mismatch) {
    --busy_;
    entry.client->end(agreement->mismatch(*entry.call));
    return true;
  }
  const bool kernels = agreement->path == AgreedPath::kernels;
  if (kernels && !domain_.connect(entry.memory, channel_)) return false;
  if (!kernels || domain_.state() != Domain::State::open) {
    --busy_;
    entry.client->run_by_messages();
    return true;
  }
  if (agreement->largest == 0) {
    --busy_;
    entry.client->end({});
    return true;
  }
  QueuedCall& call = queued_.emplace_back();
  call.key = number & ~kPersistentBit;
  call.client = entry.client;
  call.own = domain_.plan(*entry.call, agreement->largest, false);
  call.plan = &*call.own;
  if (comm_.rank() == 0) unassigned_.push_back(call.key);
  return true;
}

bool CollectiveQueue::decide() {
  bool progressed = false;
  while (published_ != decided_ && decide_next(pending_.front())) {
    pending_.pop_front();
    own().seen.store(++decided_, std::memory_order_release);
    channel_.wake_peers();
    progressed = true;
  }
  return progressed;
}

void CollectiveQueue::start(PersistentCall& persistent, DeferredCall& client) {
  if (persistent.trivial) return client.end({});
  const uint32_t uncontended_slot = idle() ? completed_ + 1 : 0;
  ++busy_;
  QueuedCall& call = queued_.emplace_back();
  call.key = kPersistentBit | persistent.slot;
  call.client = &client;
  call.plan = &persistent.plan;
  call.starts = ++persistent.starts;
  call.uncontended_slot = uncontended_slot;
  CallDescriptor& descriptor = own().call_descriptors[kNonblockingSlots + persistent.slot];
  std::memcpy(descriptor.data + uncontended_offset(call.starts), &uncontended_slot, sizeof uncontended_slot);
  descriptor.number.store(call.starts, std::memory_order_release);
  channel_.wake_peers();
  start_polling();
  poll();
}

bool CollectiveQueue::assign_slot(uint32_t key) {
  const uint32_t next = assigned_ + 1;
  if (!at_or_after(min_over_ranks(&SlotArea::finished), next - kOrderSlots)) return false;
  own().order_slots[next % kOrderSlots].store(uint64_t{next} << 32 | key, std::memory_order_release);
  channel_.wake_peers();
  assigned_ = next;
  return true;
}

/// Returns whether every rank started the persistent call with an empty queue, after the same order slot.
/// Then the call takes the next slot without an assignment: every other start comes later.
bool CollectiveQueue::uncontended_on_all_ranks(const QueuedCall& call) const {
  const uint32_t slot = kNonblockingSlots + (call.key & ~kPersistentBit);
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const CallDescriptor& descriptor = channel_.slot_area(rank).call_descriptors[slot];
    if (!at_or_after(descriptor.number.load(std::memory_order_acquire), call.starts)) return false;
    uint32_t peer_slot;
    std::memcpy(&peer_slot, descriptor.data + uncontended_offset(call.starts), sizeof peer_slot);
    if (peer_slot != call.uncontended_slot) return false;
  }
  return true;
}

/// Rank 0, before it assigns a slot: skips the slot of such a call.
bool CollectiveQueue::pass_uncontended() {
  if (queued_.empty()) return false;
  QueuedCall& first = queued_.front();
  if (first.starts == 0 || first.uncontended_slot == 0 || first.uncontended_slot != assigned_ + 1 ||
      !uncontended_on_all_ranks(first))
    return false;
  assigned_ = first.uncontended_slot;
  first.starts = 0;
  return true;
}

/// Rank 0: assigns order slots to calls that all ranks have reached.
bool CollectiveQueue::assign_slots() {
  if (comm_.rank() != 0) return false;
  bool progressed = pass_uncontended();
  size_t assigned = 0;
  while (assigned < unassigned_.size() && assign_slot(unassigned_[assigned])) ++assigned;
  unassigned_.erase(unassigned_.begin(), unassigned_.begin() + static_cast<ptrdiff_t>(assigned));
  progressed |= assigned != 0;
  for (QueuedCall& call : queued_) {
    if (call.starts == 0) continue;
    const auto arrived = [&](int rank) {
      const CallDescriptor& descriptor =
          channel_.slot_area(rank).call_descriptors[kNonblockingSlots + (call.key & ~kPersistentBit)];
      return at_or_after(descriptor.number.load(std::memory_order_acquire), call.starts);
    };
    bool all = true;
    for (int rank = 1; all && rank < comm_.size(); ++rank) all = arrived(rank);
    if (!all) continue;
    progressed |= pass_uncontended();  // all earlier starts are visible now
    if (call.starts == 0 || !assign_slot(call.key)) continue;
    call.starts = call.uncontended_slot = 0;
    progressed = true;
  }
  return progressed;
}

/// Returns the call of the next order slot. The regions are free when all ranks have completed the slot
/// before. Null: not yet.
CollectiveQueue::QueuedCall* CollectiveQueue::next_call() {
  const uint32_t next = completed_ + 1;
  QueuedCall& first = queued_.front();
  // Rank 0 has skipped this slot, so the next assignment comes later.
  if (first.uncontended_slot != 0 && first.uncontended_slot == next &&
      (comm_.rank() == 0 ? first.starts == 0 : uncontended_on_all_ranks(first)))
    return &first;
  const uint64_t assignment =
      channel_.slot_area(0).order_slots[next % kOrderSlots].load(std::memory_order_acquire);
  if (assignment >> 32 != next || !at_or_after(min_over_ranks(&SlotArea::finished), completed_))
    return nullptr;
  const auto found = std::find_if(queued_.begin(), queued_.end(), [&](const QueuedCall& t) {
    return t.key == static_cast<uint32_t>(assignment);
  });
  return found == queued_.end() ? nullptr : &*found;  // null: a nonblocking call that is undecided here
}

bool CollectiveQueue::run_next() {
  if (queued_.empty()) return false;
  if (running_ == nullptr) {
    if (domain_.busy()) return false;  // a blocking call of another thread
    running_ = next_call();
    if (running_ == nullptr) return false;
    domain_.begin(*running_->plan);
  }
  auto done = domain_.poll();
  if (done.ok() && !*done) return false;
  if (done.ok())
    complete_running({});
  else
    complete_running(std::move(done).error());
  return true;
}

void CollectiveQueue::complete_running(Status outcome) {
  DeferredCall* client = running_->client;
  queued_.erase(
      std::find_if(queued_.begin(), queued_.end(), [&](const QueuedCall& t) { return &t == running_; }));
  running_ = nullptr;
  --busy_;
  own().finished.store(++completed_, std::memory_order_release);
  channel_.wake_peers();
  client->end(std::move(outcome));
}

/// The channel is closed: votes cannot be published, so all ranks use messages.
void CollectiveQueue::fall_back() {
  std::deque<PendingCall> pending = std::move(pending_);
  pending_.clear();
  busy_ = 0;
  for (PendingCall& entry : pending)
    if (entry.client != nullptr) entry.client->run_by_messages();
}

/// A rank has failed: every call ends with an error. No kernel of this rank runs.
bool CollectiveQueue::fail_all() {
  WEFT_ASSERT(running_ == nullptr);
  const bool any = !idle();
  const std::deque<PendingCall> pending = std::exchange(pending_, {});
  const std::list<QueuedCall> queued = std::exchange(queued_, {});
  decided_ = published_;
  unassigned_.clear();
  busy_ = 0;
  for (const PendingCall& entry : pending)
    if (entry.client != nullptr) entry.client->end(channel_.failure());
  for (const QueuedCall& call : queued) call.client->end(channel_.failure());
  return any;
}

bool CollectiveQueue::poll() {
  const auto reference =
      core::Ref<core::Communicator>::share(&comm_);     // a completed call may hold the last reference
  if (polling_ || !channel_.connected()) return false;  // recursion: progress of a call by messages
  polling_ = true;
  bool progressed = false;
  if (!channel_.open()) {
    fall_back();
  } else if (!domain_.busy() && channel_.check_ranks()) {
    progressed = fail_all();
  } else {
    while (publish() | decide()) progressed = true;
    progressed |= assign_slots();
    progressed |= run_next();
  }
  polling_ = false;
  if (idle() && registered_) {
    registered_ = false;
    comm_.instance.remove(*this);
  }
  return progressed;
}

void CollectiveQueue::decide_all() {
  core::wait_until(comm_.instance, [&] { return pending_.empty(); });
}

Result<std::optional<PersistentCall>> CollectiveQueue::prepare_persistent(const Call& call) {
  decide_all();  // after it all ranks publish the same state of the domain
  const Agreement agreement = reduce_votes(call, channel_, domain_, {busy_, free_slots_, true});
  if (channel_.broken()) return channel_.failure();
  if (agreement.path == AgreedPath::mismatch) return agreement.mismatch(call);
  if (agreement.path != AgreedPath::kernels || agreement.free_slots == 0)
    return std::optional<PersistentCall>();
  if (agreement.idle) WEFT_TRY(domain_.connect_now(agreement.memory, channel_));
  if (domain_.state() != Domain::State::open) return std::optional<PersistentCall>();
  std::optional<PersistentCall> persistent(std::in_place);
  persistent->slot = static_cast<uint32_t>(std::countr_zero(agreement.free_slots));
  free_slots_ &= ~(1u << persistent->slot);
  persistent->trivial = agreement.largest == 0;
  persistent->plan = domain_.plan(call, agreement.largest, false);
  persistent->starts =
      own().call_descriptors[kNonblockingSlots + persistent->slot].number.load(std::memory_order_relaxed);
  return persistent;
}

}  // namespace weft::coll::gpu
