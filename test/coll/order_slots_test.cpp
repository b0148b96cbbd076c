// SPDX-License-Identifier: BSD-3-Clause
// Order slots: the real code of several ranks as coroutines, in random orders of their accesses. All ranks
// must run the same calls in the same order, each when all ranks have ended the call before, and every
// program must end.
#include "coll/gpu/order_slots.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <list>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "explore/ranks.hpp"

namespace weft::coll::gpu {
namespace {

using coll::host::kFirstCall;
using coll::host::SlotArea;

constexpr int kPersistent = 3;

struct Areas {
  explicit Areas(int ranks) {
    for (int i = 0; i < ranks; ++i) {
      SlotArea& area = *areas.emplace_back(std::make_unique<SlotArea>());
      area.finished = kFirstCall;
      for (auto& descriptor : area.call_descriptors) descriptor.number = kFirstCall;
      for (auto& word : area.order_slots) word = SlotArea::kUnassigned;
    }
  }
  SlotArea& slot_area(int rank) { return *areas[static_cast<size_t>(rank)]; }
  void wake_peers() {}
  std::vector<std::unique_ptr<SlotArea>> areas;
};

class Rank;
using RankList = std::vector<std::unique_ptr<Rank>>;

/// One rank: its program, and the part of CollectiveQueue that is not about votes.
class Rank {
 public:
  Rank(Areas& areas, RankList& all, int rank, int size)
      : all_(all), rank_(rank), order_(areas, rank, size), starts_(kPersistent, kFirstCall) {}
  /// Steps of the program: starts or calls of a round, then a wait until all of them have ended.
  enum Action : int { wait = -1 };  // 0 .. kPersistent - 1: a start; kPersistent: a nonblocking call
  std::deque<int> program;
  /// Polls once. Returns whether anything progressed.
  bool step() {
    bool progressed = advance();
    progressed |= decide();
    if (queue_.empty()) return progressed;
    if (rank_ == 0) progressed |= order_.assign_slots(queue_, unassigned_);
    return run() || progressed;
  }
  [[nodiscard]] bool finished() const { return program.empty() && idle(); }
  int entered = 0;            ///< nonblocking calls
  std::vector<uint32_t> ran;  ///< calls begun, by order slot
  size_t ended = 0;           ///< calls ended

 private:
  [[nodiscard]] bool idle() const { return queue_.empty() && decided_ == entered; }
  template <class Test>
  [[nodiscard]] bool all_of(Test&& test) const {
    return std::all_of(all_.begin(), all_.end(), [&](const auto& rank) { return test(*rank); });
  }
  bool advance();
  bool decide();
  bool run();

  RankList& all_;
  const int rank_;
  OrderSlots<Areas> order_;
  std::vector<uint32_t> starts_;
  std::list<WaitingCall> queue_;
  std::vector<WaitingCall*> unassigned_;
  WaitingCall* running_ = nullptr;
  int decided_ = 0;
};

bool Rank::advance() {
  if (program.empty()) return false;
  const int action = program.front();
  if (action == wait && !idle()) return false;
  program.pop_front();
  if (action == kPersistent) ++entered;
  explore::point();
  if (action == wait || action == kPersistent) return true;
  const bool alone = idle();
  WaitingCall& call = queue_.emplace_back();
  call.key = WaitingCall::kPersistentBit | static_cast<uint32_t>(action);
  uint32_t& starts = starts_[static_cast<size_t>(action)];
  order_.start(call, starts, alone);
  starts = call.starts;
  return true;
}

/// A nonblocking call is decided when all ranks have entered it.
bool Rank::decide() {
  if (decided_ == entered || !all_of([&](const Rank& rank) { return rank.entered > decided_; })) return false;
  WaitingCall& call = queue_.emplace_back();
  call.key = static_cast<uint32_t>(++decided_);
  if (rank_ == 0) unassigned_.push_back(&call);
  return true;
}

/// Half of the calls end on a rank before other ranks have begun them, as a broadcast does at its root.
bool Rank::run() {
  if (running_ == nullptr) {
    const auto key = order_.next(queue_.front());
    const auto found = std::find_if(queue_.begin(), queue_.end(),
                                    [&](const WaitingCall& call) { return key && call.key == *key; });
    if (found == queue_.end()) return false;
    running_ = &*found;
    order_.begin();
    EXPECT_TRUE(all_of([&](const Rank& rank) { return rank.ended >= ended; }));
    ran.push_back(*key);
    explore::point();
  }
  if (ran.size() % 2 != 0 && !all_of([&](const Rank& rank) { return rank.ran.size() >= ran.size(); }))
    return false;
  queue_.remove_if([&](const WaitingCall& call) { return &call == running_; });
  running_ = nullptr;
  ++ended;
  order_.complete();
  return true;
}

/// Starts and nonblocking calls in an order of each rank's own; often a single start.
void add_round(std::mt19937& random, RankList& ranks) {
  std::vector<int> actions;
  if (random() % 2 == 0) {
    actions.push_back(static_cast<int>(random() % kPersistent));
  } else {
    for (int i = 0; i < kPersistent; ++i)
      if (random() % 2 == 0) actions.push_back(i);
  }
  if (random() % 3 == 0) actions.insert(actions.end(), random() % 14, kPersistent);
  for (auto& rank : ranks) {
    std::shuffle(actions.begin(), actions.end(), random);
    rank->program.insert(rank->program.end(), actions.begin(), actions.end());
    rank->program.push_back(Rank::wait);
  }
}

/// Polls until the program has ended. `changes` counts the polls of all ranks that progressed: after a poll
/// that did not, a rank waits for another change.
void run_program(Rank& rank, ::explore::Ranks& host, uint64_t& changes) {
  while (!rank.finished()) {
    const uint64_t seen = changes;
    if (rank.step()) {
      ++changes;
      explore::point();
    } else {
      while (changes == seen) host.wait();
    }
  }
}

TEST(OrderSlots, AllRanksRunTheSameCallsInTheSameOrder) {
#ifndef WEFT_ASSERTS
  GTEST_SKIP() << "needs a build with assertions (WEFT_ASSERTS=ON), which has the points to switch at";
#endif
  constexpr int kRounds = 80;  // starts and order slots wrap
  const char* const wanted = std::getenv("EXPLORE_POINTS");
  const uint64_t limit = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 4'000'000;
  std::vector<std::unique_ptr<::explore::Ranks>> hosts;
  for (int size = 2; size <= 5; ++size) hosts.push_back(std::make_unique<::explore::Ranks>(size));
  const auto passed = [&] {
    return std::accumulate(hosts.begin(), hosts.end(), uint64_t{0},
                           [](uint64_t sum, const auto& host) { return sum + host->points(); });
  };
  uint32_t seed = 0;
  for (; passed() < limit && !HasFailure(); ++seed) {
    std::mt19937 random(seed);
    const int size = 2 + static_cast<int>(seed % hosts.size());
    ::explore::Ranks& host = *hosts[seed % hosts.size()];
    Areas areas(size);
    RankList ranks;
    for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<Rank>(areas, ranks, rank, size));
    for (int round = 0; round < kRounds; ++round) add_round(random, ranks);
    uint64_t changes = 0;
    const auto body = [&](int rank) { run_program(*ranks[static_cast<size_t>(rank)], host, changes); };
    ::explore::RandomOrder order(random(), size, 10'000);
    ASSERT_TRUE(host.run(body, order)) << "no end, seed " << seed << ", " << size << " ranks";
    for (const auto& rank : ranks) ASSERT_EQ(rank->ran, ranks[0]->ran) << "seed " << seed;
  }
  std::printf("%u programs, %lu points\n", seed, static_cast<unsigned long>(passed()));
}

}  // namespace
}  // namespace weft::coll::gpu
