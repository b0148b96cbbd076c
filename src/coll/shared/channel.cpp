// SPDX-License-Identifier: BSD-3-Clause
// Channel: leasing lanes, and waiting.
#include "coll/shared/channel.hpp"

#include <algorithm>
#include <utility>

#include "coll/call.hpp"
#include "coll/schedule.hpp"
#include "coll/select/table.hpp"
#include "device/memory.hpp"

namespace weft::coll::shared {
namespace {

constexpr uint32_t kNone = UINT32_MAX;  // no lane
constexpr int kSpins = 200;             // looks at a word before anything else is progressed

bool reached(const std::atomic<uint32_t>& word, uint32_t value) {
  return static_cast<int32_t>(word.load(std::memory_order_acquire) - value) >= 0;
}

}  // namespace

Channel::Channel(core::Communicator& comm) : instance_(comm.instance), comm_(comm), shm_(instance_.shm) {}

Channel::~Channel() {
  if (exchange_ != nullptr) exchange_->detached = true;  // MPI is over
  if (instance_.shm != shm_) return;                     // the segment is gone
  for (transport::shm::Lane* lane : lanes_) lane->left.fetch_add(1, std::memory_order_acq_rel);
}

/// An all-gather on the records of all, by messages.
Status Channel::connect() {
  const auto size = static_cast<uint32_t>(comm_.size());
  offers_.resize(size);
  Offer& mine = offers_[static_cast<size_t>(comm_.rank())];
  mine = {shm_->lease_lane(size).value_or(kNone), 1, device::available() ? 1u : 0u};
  for (int rank = 0; rank < comm_.size(); ++rank)
    if (rank != comm_.rank() && !shm_->can_get(comm_.process(rank)).ok()) mine.readable = 0;
  if (mine.lane != kNone) own_ = &shm_->lane(instance_.self, mine.lane);
  Call call;
  call.what = Collective::allgather;
  call.comm = &comm_;
  call.rank = comm_.rank();
  call.size = comm_.size();
  call.in_place = true;
  call.bytes = sizeof(Offer);
  const p2p::Buffer all = packed(offers_.data(), sizeof(Offer));
  call.recv.address = all.address;
  call.recv.count = all.count;
  call.recv.blocks = call.size;
  call.recv.type = all.type;
  call.recv.classified = true;
  auto started = start(call, select::choose(call));
  if (!started) {
    outcome_ = std::move(started).error();
    meet_all();
    return std::move(outcome_);
  }
  exchange_ = *started;
  return {};
}

bool Channel::settled() {
  if (exchange_ == nullptr) return true;
  if (!exchange_->complete()) return false;
  outcome_ = std::move(exchange_->outcome);
  exchange_->destroy();
  exchange_ = nullptr;
  meet_all();
  return true;
}

Status Channel::settle() {
  core::wait_until(instance_, [&] { return settled(); });  // or the agenda, polled meanwhile, settles it
  return std::move(outcome_);
}

/// All have told: the lanes of all, or none.
void Channel::meet_all() {
  const auto size = static_cast<uint32_t>(comm_.size());
  const auto all = [&](auto&& good) { return std::all_of(offers_.begin(), offers_.end(), good); };
  if (!outcome_.ok() || !all([](const Offer& offer) { return offer.lane != kNone; })) {
    if (own_ != nullptr) own_->left.store(size, std::memory_order_release);
    offers_.clear();
    return;
  }
  direct_ = all([](const Offer& offer) { return offer.readable != 0; });
  mixed_ = !all([](const Offer& offer) { return offer.devices == 0; });
  for (uint32_t rank = 0; rank < size; ++rank)
    lanes_.push_back(&shm_->lane(comm_.process(static_cast<int>(rank)), offers_[rank].lane));
  offers_.clear();
}

Status Channel::get(int rank, void* to, uint64_t from, size_t n) {
  const transport::Piece local{reinterpret_cast<uint64_t>(to), n}, remote{from, n};
  return shm_->get(comm_.process(rank), {&local, 1}, {&remote, 1});
}

void Channel::reach(const std::atomic<uint32_t>& word, uint32_t value) {
  if (reached(word, value)) [[likely]]
    return;
  if (told_ != done_) done(done_);  // others may wait for that, and this rank for them
  for (int spins = instance_.oversubscribed ? 0 : kSpins; spins > 0; --spins)
    if (reached(word, value)) return;
  core::wait_until(
      instance_, [&] { return reached(word, value); }, core::Instance::Waiting::anything, nullptr, &comm_);
}

void Channel::ring() {
  for (int rank = 0; rank < comm_.size(); ++rank)
    if (rank != comm_.rank()) shm_->bell(comm_.process(rank)).ring();
}

void Channel::meet() {
  const uint32_t step = begin(1);
  claim(step, 0);
  show(step, 0);
  for (int rank = comm_.rank() + 1; rank < comm_.size(); ++rank) static_cast<void>(await(rank, step));
  for (int rank = 0; rank < comm_.rank(); ++rank) static_cast<void>(await(rank, step));
  met(step);
}

void Channel::await_done(uint32_t step, uint32_t further) {
  uint32_t beyond = INT32_MAX;  // what all have done beyond `step`
  for (const transport::shm::Lane* lane : lanes_) {
    if (lane == own_) continue;
    if (!reached(lane->done, step)) reach(lane->done, step + further);
    beyond = std::min(beyond, lane->done.load(std::memory_order_acquire) - step);
  }
  all_done_ = step + beyond;
}

}  // namespace weft::coll::shared
