// SPDX-License-Identifier: BSD-3-Clause
// The agreement as a model: ranks, messages in flight, failures. For small numbers of ranks all orders of
// starts, deliveries, deaths (also between two messages of one step) and notices of deaths; for larger ones
// random orders.
#include "ft/agreement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace weft::ft {
namespace {

struct Message {
  Kind kind;
  Value value;
};

/// Messages of one step of a rank, which may die after any of them.
struct Step final : Agreement::Outbox {
  void send(int to, Kind kind, const Value& value) override { sent.push_back({to, {kind, value}}); }
  std::vector<std::pair<int, Message>> sent;
};

struct Model {
  explicit Model(int n, int bits_of_digit = Tree::kDigitBits)
      : size(n),
        digit_bits(bits_of_digit),
        ranks(static_cast<size_t>(n)),
        noticed(ranks.size()),
        queues(ranks.size() * ranks.size()) {}
  int size;
  int digit_bits;                               // of the tree
  std::vector<std::optional<Agreement>> ranks;  // empty: not started, or dead
  std::vector<uint32_t> noticed;                // by rank: bits of the ranks whose death it has noticed
  std::vector<std::deque<Message>> queues;      // from * size + to
  uint32_t dead = 0;

  [[nodiscard]] bool alive(int rank) const { return (dead >> rank & 1) == 0; }
  std::optional<Agreement>& at(int rank) { return ranks[static_cast<size_t>(rank)]; }
  std::deque<Message>& queue(int from, int to) { return queues[static_cast<size_t>(from * size + to)]; }

  /// The messages that leave before the rank dies; all if it does not.
  void emit(int rank, const Step& step, size_t count) {
    for (size_t i = 0; i < count; ++i)
      if (alive(step.sent[i].first)) queue(rank, step.sent[i].first).push_back(step.sent[i].second);
    if (count < step.sent.size()) kill(rank);
  }
  void kill(int rank) {
    dead |= 1u << rank;
    at(rank).reset();
    for (int from = 0; from < size; ++from) queue(from, rank).clear();
  }
  void start(int rank, Step& step) {
    Tree tree(rank, size, digit_bits);
    Value own;
    own.flags = ~(1 << rank);
    for (int other = 0; other < size; ++other)
      if ((noticed[static_cast<size_t>(rank)] >> other & 1) != 0) {
        tree.fail(other);
        own.add_failed(static_cast<uint32_t>(other));
      }
    at(rank).emplace(std::move(tree), own);
    at(rank)->start(step);
  }
  void deliver(int from, int to, Step& step) {
    const Message message = queue(from, to).front();
    queue(from, to).pop_front();
    at(to)->receive(from, message.kind, message.value, step);
  }
  void notice(int rank, int failed, Step& step) {
    noticed[static_cast<size_t>(rank)] |= 1u << failed;
    queue(failed, rank).clear();
    if (at(rank)) at(rank)->fail(failed, step);
  }

  struct Action {
    enum What { start, deliver, notice, kill } what;
    int rank, other;
  };
  [[nodiscard]] std::vector<Action> actions(int max_failures) {
    std::vector<Action> all;
    for (int rank = 0; rank < size; ++rank) {
      if (!alive(rank)) continue;
      if (!at(rank)) all.push_back({Action::start, rank, 0});
      for (int other = 0; other < size; ++other) {
        if (at(rank) && !queue(other, rank).empty()) all.push_back({Action::deliver, rank, other});
        if (!alive(other) && (noticed[static_cast<size_t>(rank)] >> other & 1) == 0)
          all.push_back({Action::notice, rank, other});
      }
      if (std::popcount(dead) < max_failures) all.push_back({Action::kill, rank, 0});
    }
    return all;
  }
  void act(const Action& action, Step& step) {
    switch (action.what) {
      case Action::start:
        return start(action.rank, step);
      case Action::deliver:
        return deliver(action.other, action.rank, step);
      case Action::notice:
        return notice(action.rank, action.other, step);
      case Action::kill:
        return kill(action.rank);
    }
  }

  /// Every live rank that is done has the same decision, which every live rank has contributed to and which
  /// names no live rank.
  [[nodiscard]] bool consistent() {
    const Value* decision = nullptr;
    for (auto& rank : ranks) {
      if (!rank || !rank->decided()) continue;
      if (decision == nullptr) decision = &rank->decision();
      if (!(*decision == rank->decision())) return false;
    }
    if (decision == nullptr) return true;
    for (uint32_t i = 0; i < decision->failed_count; ++i)
      if (alive(static_cast<int>(decision->failed[i]))) return false;
    for (int rank = 0; rank < size; ++rank)
      if (alive(rank) && (decision->flags >> rank & 1) != 0) return false;
    return true;
  }
  [[nodiscard]] bool finished() {
    for (int rank = 0; rank < size; ++rank)
      if (alive(rank) && (!at(rank) || !at(rank)->decided())) return false;
    return true;
  }
  [[nodiscard]] std::string key() const {
    std::string text(reinterpret_cast<const char*>(&dead), sizeof dead);
    const auto put = [&](const Value& value) {
      text.append(reinterpret_cast<const char*>(&value.flags), sizeof value.flags);
      for (uint32_t i = 0; i < value.failed_count; ++i) text += static_cast<char>('a' + value.failed[i]);
      text += '.';
    };
    for (size_t i = 0; i < ranks.size(); ++i) {
      text.append(reinterpret_cast<const char*>(&noticed[i]), sizeof noticed[i]);
      if (!ranks[i]) continue;
      text += ranks[i]->summary();
      put(ranks[i]->decision());
    }
    for (const auto& queue : queues) {
      for (const Message& message : queue) {
        text += static_cast<char>('0' + static_cast<int>(message.kind));
        put(message.value);
      }
      text += '|';
    }
    return text;
  }
};

/// Visits every state that is reachable with at most `max_failures` deaths.
size_t explore(int size, int max_failures, int digit_bits) {
  std::unordered_set<std::string> seen;
  std::vector<Model> todo;
  const auto visit = [&](Model&& next) {
    if (seen.insert(next.key()).second) todo.push_back(std::move(next));
  };
  visit(Model(size, digit_bits));
  while (!todo.empty()) {
    Model model = std::move(todo.back());
    todo.pop_back();
    if (!model.consistent()) {
      ADD_FAILURE() << "different decisions";
      return seen.size();
    }
    const auto actions = model.actions(max_failures);
    const bool idle = std::all_of(actions.begin(), actions.end(), [](const Model::Action& action) {
      return action.what == Model::Action::kill;
    });
    if (idle && !model.finished()) {
      ADD_FAILURE() << "a rank waits for ever";
      return seen.size();
    }
    for (const Model::Action& action : actions) {
      Model next = model;
      Step step;
      next.act(action, step);
      const bool may_die = std::popcount(next.dead) < max_failures && next.alive(action.rank);
      for (size_t count = may_die ? 0 : step.sent.size(); count < step.sent.size(); ++count) {
        Model dying = next;
        dying.emit(action.rank, step, count);
        visit(std::move(dying));
      }
      next.emit(action.rank, step, step.sent.size());
      visit(std::move(next));
    }
  }
  return seen.size();
}

TEST(Agreement, EveryOrderOfTwoRanks) { EXPECT_GT(explore(2, 2, 1), 20u); }
TEST(Agreement, EveryOrderOfThreeRanks) { EXPECT_GT(explore(3, 3, 1), 500u); }
TEST(Agreement, EveryOrderOfFourRanks) { EXPECT_GT(explore(4, 4, 1), 5000u); }
TEST(Agreement, EveryOrderOfFourRanksInAFlatTree) { EXPECT_GT(explore(4, 4, Tree::kDigitBits), 5000u); }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which take minutes for it
TEST(Agreement, EveryOrderOfFiveRanksWithTwoFailures) { EXPECT_GT(explore(5, 2, 1), 20000u); }
#endif

void run_random(std::mt19937& random, int size, int max_failures, int digit_bits) {
  Model model(size, digit_bits);
  for (;;) {
    auto actions = model.actions(max_failures);
    // Deaths are rare, so that they occur in all phases.
    if (random() % 64 != 0)
      std::erase_if(actions, [](const Model::Action& action) { return action.what == Model::Action::kill; });
    if (actions.empty()) {
      ASSERT_TRUE(model.finished() || !model.actions(max_failures).empty());
      if (model.finished()) return;
      continue;
    }
    const Model::Action action = actions[random() % actions.size()];
    Step step;
    model.act(action, step);
    const bool dies =
        model.alive(action.rank) && std::popcount(model.dead) < max_failures && random() % 32 == 0;
    model.emit(action.rank, step,
               dies && !step.sent.empty() ? random() % step.sent.size() : step.sent.size());
    ASSERT_TRUE(model.consistent());
  }
}

TEST(Agreement, RandomOrdersOfManyRanks) {
  std::mt19937 random(1);
  for (int run = 0; run < 400 && !testing::Test::HasFailure(); ++run) {
    const int size = 2 + static_cast<int>(random() % 24);
    const int max_failures = static_cast<int>(random() % static_cast<unsigned>(size));
    run_random(random, size, max_failures, 1 + run % Tree::kDigitBits);
  }
}

TEST(Agreement, AMessagePerRankAndDirection) {
  Model model(20);
  size_t messages = 0;
  for (auto actions = model.actions(0); !actions.empty(); actions = model.actions(0)) {
    Step step;
    model.act(actions.front(), step);
    messages += step.sent.size();
    model.emit(actions.front().rank, step, step.sent.size());
  }
  EXPECT_TRUE(model.finished());
  EXPECT_EQ(messages, 2u * 19);
}

TEST(Value, KeepsTheLowestFailedRanks) {
  Value value;
  for (uint32_t rank = 200; rank-- > 100;) value.add_failed(rank);
  EXPECT_EQ(value.failed_count, Value::kMaxFailed);
  EXPECT_EQ(value.more_failed, 1u);
  for (uint32_t i = 0; i < Value::kMaxFailed; ++i) EXPECT_EQ(value.failed[i], 100 + i);
  Value other;
  other.add_failed(7);
  other.combine(value);
  EXPECT_EQ(other.failed[0], 7u);
  EXPECT_EQ(other.failed[1], 100u);
  EXPECT_EQ(other.failed_count, Value::kMaxFailed);
}

}  // namespace
}  // namespace weft::ft
