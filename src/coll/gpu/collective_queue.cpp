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

using host::CallDescriptor;
using host::SlotArea;

static_assert(sizeof(Vote) <= host::kCallDescriptorBytes);
static_assert(kPersistentSlots < 32);

}  // namespace

CollectiveQueue::CollectiveQueue(core::Communicator& comm, host::SlotChannel& channel, Domain& domain)
    : comm_(comm),
      channel_(channel),
      domain_(domain),
      order_(channel, comm.rank(), comm.size()),
      free_slots_((1u << kPersistentSlots) - 1) {}

CollectiveQueue::~CollectiveQueue() {
  if (registered_) comm_.instance.remove(*this);
}

void CollectiveQueue::start_polling() {
  if (registered_) return;
  registered_ = true;
  comm_.instance.add(*this);
}

void CollectiveQueue::enqueue(const Call& call, DeferredCall& client) {
  PendingCall entry{&call, &client, &client, {}, {}, 0};
  entry.vote = vote_of(call, domain_, entry.memory);
  entry.size = entry.vote.size(call);
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

bool CollectiveQueue::has_published(const DeferredCall& call) const {
  return std::none_of(pending_.begin() + static_cast<ptrdiff_t>(published_ - decided_), pending_.end(),
                      [&](const PendingCall& entry) { return entry.owner == &call; });
}

/// Publishes votes while the peers have read the descriptors to be reused.
bool CollectiveQueue::publish() {
  bool progressed = false;
  for (;;) {
    const size_t next = published_ - decided_;
    if (next >= pending_.size()) return progressed;
    const uint32_t number = published_ + 1;
    if (!at_or_after(order_.min_over_ranks(&SlotArea::seen), number - kNonblockingSlots)) return progressed;
    // A call that opens the domain must be decided before the next vote.
    if (next != 0 && domain_.state() == Domain::State::unknown) return progressed;
    PendingCall& entry = pending_[next];
    if (entry.vote.state != domain_.state()) refresh_vote(entry);
    CallDescriptor& descriptor = own().call_descriptors[number % kNonblockingSlots];
    WEFT_ASSERT(  // G1
        at_or_after(order_.min_over_ranks(&SlotArea::seen),
                    descriptor.number.load(std::memory_order_relaxed)));
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
  entry.size = entry.vote.size(*entry.call);
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
  for (int rank = 0; rank < comm_.size(); ++rank)  // G1
    WEFT_ASSERT(channel_.slot_area(rank).call_descriptors[number % kNonblockingSlots].number.load(
                    std::memory_order_acquire) == number);
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
  call.key = number & ~WaitingCall::kPersistentBit;
  call.client = entry.client;
  call.own = domain_.plan(*entry.call, agreement->largest, false, agreement->layouts);
  call.plan = &*call.own;
  if (comm_.rank() == 0) unassigned_.push_back(&call);
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
  const bool alone = idle();
  ++busy_;
  QueuedCall& call = queued_.emplace_back();
  call.key = WaitingCall::kPersistentBit | persistent.slot;
  call.client = &client;
  call.plan = &persistent.plan;
  order_.start(call, persistent.starts, alone);
  persistent.starts = call.starts;
  start_polling();
  poll();
}

/// Returns the call of the next order slot. Null: not yet, or it is a nonblocking call that is undecided
/// here.
CollectiveQueue::QueuedCall* CollectiveQueue::next_call() {
  const std::optional<uint32_t> key = order_.next(queued_.front());
  const auto found = std::find_if(queued_.begin(), queued_.end(),
                                  [&](const QueuedCall& call) { return key && call.key == *key; });
  return found == queued_.end() ? nullptr : &*found;
}

bool CollectiveQueue::run_next() {
  if (queued_.empty()) return false;
  if (running_ == nullptr) {
    if (domain_.busy()) return false;  // a blocking call of another thread
    running_ = next_call();
    if (running_ == nullptr) return false;
    order_.begin();
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
  order_.complete();
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
    if (comm_.rank() == 0 && !queued_.empty()) progressed |= order_.assign_slots(queued_, unassigned_);
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
  persistent->plan = domain_.plan(call, agreement.largest, false, agreement.layouts);
  persistent->starts = order_.starts_of({WaitingCall::kPersistentBit | persistent->slot});
  return persistent;
}

}  // namespace weft::coll::gpu
