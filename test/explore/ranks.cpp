// SPDX-License-Identifier: BSD-3-Clause
#include "explore/ranks.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/explore.hpp"

namespace explore {
namespace {

constexpr size_t kStackBytes = 256 << 10;
Ranks* g_ranks = nullptr;  // that run

int after(int rank, const std::vector<bool>& ready) {
  const auto size = static_cast<int>(ready.size());
  for (int i = 1; i <= size; ++i)
    if (ready[static_cast<size_t>((rank + i) % size)]) return (rank + i) % size;
  return rank;
}

}  // namespace

int DelayedOrder::at_point(int rank, const std::vector<bool>& ready) {
  if (next_ == delays_.size() || point_++ != delays_[next_]) return rank;
  ++next_;
  return after(rank, ready);
}

int DelayedOrder::at_wait(int rank, const std::vector<bool>& ready) { return after(rank, ready); }

RandomOrder::RandomOrder(uint64_t seed, int ranks, uint64_t expected_points) : random_(seed) {
  constexpr uint32_t kOneIn[] = {2, 8, 32, 256};
  if (seed % 2 == 0) {
    one_in_ = kOneIn[seed / 2 % 4];
    return;
  }
  for (int rank = 0; rank < ranks; ++rank) priority_.push_back(rank);
  std::shuffle(priority_.begin(), priority_.end(), random_);
  for (uint64_t i = 0; i < 1 + seed / 2 % 5; ++i)
    changes_.push_back(random_() % std::max<uint64_t>(1, expected_points));
  std::sort(changes_.begin(), changes_.end(), std::greater<>());
}

int RandomOrder::first(const std::vector<bool>& ready) const {
  for (const int rank : priority_)
    if (ready[static_cast<size_t>(rank)]) return rank;
  return -1;
}

int RandomOrder::any(const std::vector<bool>& ready) {
  return after(static_cast<int>(random_() % ready.size()), ready);
}

int RandomOrder::at_point(int rank, const std::vector<bool>& ready) {
  if (priority_.empty()) return random_() % one_in_ == 0 ? any(ready) : rank;
  if (!changes_.empty() && point_++ == changes_.back()) {
    changes_.pop_back();
    const auto at = std::find(priority_.begin(), priority_.end(), rank);
    std::rotate(at, at + 1, priority_.end());
  }
  return first(ready);
}

int RandomOrder::at_wait(int, const std::vector<bool>& ready) {
  return priority_.empty() ? any(ready) : first(ready);
}

Ranks::Ranks(int ranks) : fibers_(static_cast<size_t>(ranks)) {
  for (Fiber& fiber : fibers_) fiber.stack.reset(new char[kStackBytes]);
}

Ranks::~Ranks() = default;

bool Ranks::run(const std::function<void(int)>& body, Order& order) {
  body_ = &body;
  order_ = &order;
  ready_.assign(fibers_.size(), true);
  for (Fiber& fiber : fibers_) {
    fiber.returned = false;
    ::getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    ::makecontext(&fiber.context, &Ranks::enter, 0);
  }
  g_ranks = this;
#ifdef WEFT_ASSERTS
  weft::explore::switch_rank = &Ranks::at_point;
#endif
  running_ = order.at_wait(0, ready_);
  ::swapcontext(&main_, &fibers_[static_cast<size_t>(running_)].context);
#ifdef WEFT_ASSERTS
  weft::explore::switch_rank = nullptr;
#endif
  g_ranks = nullptr;
  ending_ = -1;
  return std::all_of(fibers_.begin(), fibers_.end(), [](const Fiber& fiber) { return fiber.returned; });
}

void Ranks::enter() {
  Ranks& ranks = *g_ranks;
  const int rank = ranks.running_;
  (*ranks.body_)(rank);
  ranks.stop();
}

void Ranks::at_point() { g_ranks->point(); }

void Ranks::point() {
  ++points_;
  for (size_t rank = 0; rank < fibers_.size(); ++rank) ready_[rank] = !fibers_[rank].returned;
  if (running_ == ending_ && points_left_-- == 0) {
    ended_();
    stop();
  }
  switch_to(order_->at_point(running_, ready_));
}

void Ranks::end_rank(int rank, uint64_t points, std::function<void()> ended) {
  ending_ = rank;
  points_left_ = points;
  ended_ = std::move(ended);
}

void Ranks::wait() {
  ready_[static_cast<size_t>(running_)] = false;
  leave();
}

void Ranks::stop() {
  fibers_[static_cast<size_t>(running_)].returned = true;
  ready_[static_cast<size_t>(running_)] = false;
  leave();
  std::abort();  // never resumed
}

/// Runs a rank that is ready, or ends the run.
void Ranks::leave() {
  if (std::find(ready_.begin(), ready_.end(), true) == ready_.end()) {
    ::setcontext(&main_);
    std::abort();
  }
  switch_to(order_->at_wait(running_, ready_));
}

void Ranks::switch_to(int rank) {
  if (rank == running_) return;
  Fiber& from = fibers_[static_cast<size_t>(running_)];
  running_ = rank;
  ::swapcontext(&from.context, &fibers_[static_cast<size_t>(rank)].context);
}

}  // namespace explore
