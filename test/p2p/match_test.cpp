// SPDX-License-Identifier: BSD-3-Clause
// The matching queues against a linear list, in random interleavings.
#include <gtest/gtest.h>

#include <chrono>
#include <list>
#include <memory>
#include <random>

#include "p2p/match/queue.hpp"

namespace weft::p2p::match {
namespace {

struct Receive : Node {
  int id = 0;
};
struct Arrival : MatchEntry {
  int id = 0;
};

Key random_key(std::mt19937& random, bool wildcards) {
  const auto pick = [&](int n) { return static_cast<int32_t>(random() % static_cast<unsigned>(n)); };
  Key key{static_cast<uint64_t>(2 + 2 * pick(3)), pick(3), pick(4)};
  if (wildcards && pick(4) == 0) key.source = kAny;
  if (wildcards && pick(4) == 0) key.tag = kAny;
  return key;
}

TEST(Posted, TakesWhatANaiveListTakes) {
  std::mt19937 random(7);
  Posted posted;
  std::list<Receive*> naive;
  std::vector<std::unique_ptr<Receive>> all;
  size_t matched = 0;
  for (int step = 0; step < 200000; ++step) {
    const unsigned what = random() % 16;
    if (what < 8) {
      all.push_back(std::make_unique<Receive>());
      all.back()->key = random_key(random, true);
      all.back()->id = step;
      posted.add(*all.back());
      naive.push_back(all.back().get());
    } else if (what < 15) {
      const Key message = random_key(random, false);
      auto expected = naive.begin();
      while (expected != naive.end() && !(*expected)->key.accepts(message)) ++expected;
      Node* got = posted.extract(message);
      if (expected == naive.end()) {
        ASSERT_EQ(got, nullptr);
      } else {
        ASSERT_NE(got, nullptr);
        ASSERT_EQ(static_cast<Receive*>(got)->id, (*expected)->id);
        naive.erase(expected);
        ++matched;
      }
    } else if (!naive.empty()) {  // cancel
      auto at = naive.begin();
      std::advance(at, random() % naive.size());
      posted.remove(**at);
      naive.erase(at);
    }
    ASSERT_EQ(posted.size(), naive.size());
  }
  EXPECT_GT(matched, 10000u);
}

TEST(Unexpected, FindsWhatANaiveListFinds) {
  std::mt19937 random(11);
  Unexpected queue;
  std::list<Arrival*> naive;
  std::vector<std::unique_ptr<Arrival>> all;
  size_t found = 0;
  for (int step = 0; step < 100000; ++step) {
    if (random() % 2 == 0 && naive.size() < 400) {
      all.push_back(std::make_unique<Arrival>());
      all.back()->id = step;
      queue.add(*all.back(), random_key(random, false));
      naive.push_back(all.back().get());
      continue;
    }
    const Key wanted = random_key(random, true);
    auto expected = naive.begin();
    while (expected != naive.end() && !wanted.accepts((*expected)->key())) ++expected;
    MatchEntry* got = queue.find(wanted);
    if (expected == naive.end()) {
      ASSERT_EQ(got, nullptr);
      continue;
    }
    ASSERT_NE(got, nullptr);
    ASSERT_EQ(static_cast<Arrival*>(got)->id, (*expected)->id);
    queue.remove(*got);
    naive.erase(expected);
    ++found;
  }
  EXPECT_GT(found, 10000u);
}

TEST(Posted, ReverseOrderOfManyIsNotQuadratic) {
  constexpr int kEntries = 100000;
  std::vector<Receive> receives(kEntries);
  Posted posted;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kEntries; ++i) {
    receives[static_cast<size_t>(i)].key = {2, 0, i};
    posted.add(receives[static_cast<size_t>(i)]);
  }
  for (int i = kEntries - 1; i >= 0; --i)
    ASSERT_EQ(posted.extract({2, 0, i}), &receives[static_cast<size_t>(i)]);
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(std::chrono::duration<double>(took).count(), 2.0);  // linear: some 20 ms; quadratic: a minute
}

}  // namespace
}  // namespace weft::p2p::match
