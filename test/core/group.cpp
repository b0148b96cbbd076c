// SPDX-License-Identifier: BSD-3-Clause
// Group: set operations against a naive oracle, errors, number of live objects.
#include "core/group.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace weft::core {
namespace {

using Processes = std::vector<ProcessId>;

Ref<Group> make(Processes processes, ProcessId self = 0) {
  return Ref<Group>(Group::create(std::move(processes), self));
}

Ref<Group> first(int n, ProcessId self = 0) {
  Processes processes(static_cast<size_t>(n));
  std::iota(processes.begin(), processes.end(), ProcessId{0});
  return make(std::move(processes), self);
}

Ref<Group> take(Result<Group*> result) {
  EXPECT_TRUE(result.ok()) << result.error().message();
  return result.ok() ? Ref<Group>(*result) : Ref<Group>();
}

template <class T>
std::span<const T> list(const std::vector<T>& values) {
  return values;
}

bool holds(const Processes& processes, ProcessId process) {
  return std::find(processes.begin(), processes.end(), process) != processes.end();
}

TEST(Group, RanksAreThePositions) {
  const auto group = make({7, 3, 9}, 9);
  EXPECT_EQ(group->size(), 3);
  EXPECT_EQ(group->rank(), 2);
  EXPECT_EQ(group->process(1), 3u);
  EXPECT_EQ(group->rank_of(7), 0);
  EXPECT_EQ(group->rank_of(8), -1);
  EXPECT_EQ(make({7, 3}, 9)->rank(), -1);
}

TEST(Group, IdentityGroupsAnswerWithoutAHash) {
  const auto group = first(5, 2);
  EXPECT_EQ(group->rank(), 2);
  EXPECT_EQ(group->rank_of(4), 4);
  EXPECT_EQ(group->rank_of(5), -1);
  EXPECT_EQ(group->rank_of(kNoProcess), -1);
}

TEST(Group, Compare) {
  const auto group = make({4, 5, 6});
  EXPECT_EQ(group->compare(*make({4, 5, 6})), Comparison::identical);
  EXPECT_EQ(group->compare(*make({6, 5, 4})), Comparison::similar);
  EXPECT_EQ(group->compare(*make({4, 5, 7})), Comparison::unequal);
  EXPECT_EQ(group->compare(*make({4, 5})), Comparison::unequal);
  EXPECT_EQ(Group::empty()->compare(*Group::empty()), Comparison::identical);
}

TEST(Group, IncludeAndExclude) {
  const auto group = make({10, 11, 12, 13}, 13);
  const auto some = take(group->include(list<int>({3, 0})));
  EXPECT_EQ(some->processes(), (Processes{13, 10}));
  EXPECT_EQ(some->rank(), 0);
  EXPECT_EQ(take(group->exclude(list<int>({3, 0})))->processes(), (Processes{11, 12}));
  EXPECT_EQ(take(group->include(list<int>({}))).get(), Group::empty());
  EXPECT_EQ(take(group->exclude(list<int>({0, 1, 2, 3}))).get(), Group::empty());
  EXPECT_EQ(take(group->exclude(list<int>({})))->compare(*group), Comparison::identical);
}

TEST(Group, BadRanksAreErrors) {
  const auto group = first(4);
  for (const auto& ranks : {std::vector<int>{4}, {-1}, {1, 2, 1}}) {
    const auto included = group->include(list(ranks));
    ASSERT_FALSE(included.ok());
    EXPECT_EQ(included.error().code(), Errc::rank);
    EXPECT_EQ(group->exclude(list(ranks)).error().code(), Errc::rank);
  }
}

TEST(Group, Ranges) {
  const auto group = first(10);
  EXPECT_EQ(take(group->include(list<RankRange>({{1, 9, 3}, {6, 5, -2}})))->processes(),
            (Processes{1, 4, 7, 6}));
  EXPECT_EQ(take(group->include(list<RankRange>({{3, 3, 5}})))->processes(), (Processes{3}));
  EXPECT_EQ(take(group->include(list<RankRange>({{3, 1, 1}}))).get(), Group::empty());
  EXPECT_EQ(take(group->exclude(list<RankRange>({{9, 0, -2}})))->processes(), (Processes{0, 2, 4, 6, 8}));
  EXPECT_EQ(group->include(list<RankRange>({{0, 3, 0}})).error().code(), Errc::arg);
  EXPECT_EQ(group->include(list<RankRange>({{0, 10, 1}})).error().code(), Errc::rank);
  EXPECT_EQ(group->include(list<RankRange>({{0, 4, 2}, {4, 8, 2}})).error().code(), Errc::rank);
  EXPECT_EQ(take(group->include(list<RankRange>({{9, 9, INT32_MAX}, {0, 0, INT32_MIN}})))->size(), 2);
}

TEST(Group, SetOperationsAgainstTheOracle) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    Processes all(12);
    std::iota(all.begin(), all.end(), ProcessId{0});
    std::shuffle(all.begin(), all.end(), random);
    const Processes a(all.begin(), all.begin() + random() % 12);
    std::shuffle(all.begin(), all.end(), random);
    const Processes b(all.begin(), all.begin() + random() % 12);
    Processes both, either = a, only;
    for (const ProcessId process : a) (holds(b, process) ? both : only).push_back(process);
    for (const ProcessId process : b)
      if (!holds(a, process)) either.push_back(process);
    const auto left = make(a, 3), right = make(b, 3);
    const auto united = take(left->unite(*right));
    EXPECT_EQ(united->processes(), either);
    EXPECT_EQ(united->rank(), united->rank_of(3));
    EXPECT_EQ(take(left->intersect(*right))->processes(), both);
    EXPECT_EQ(take(left->subtract(*right))->processes(), only);
  }
}

TEST(Group, UnionWithTheEmptyGroupKnowsItself) {
  EXPECT_EQ(take(Group::empty()->unite(*first(3, 2)))->rank(), 2);
}

TEST(Group, SlabSeesLifeAndDeath) {
  const size_t before = Group::slab().live();
  auto group = first(3);
  const void* handle = group.get();
  EXPECT_EQ(Group::slab().live(), before + 1);
  EXPECT_EQ(Group::slab().check(handle), HandleState::live);
  group = {};
  EXPECT_EQ(Group::slab().check(handle), HandleState::freed);
  EXPECT_EQ(Group::slab().live(), before);
}

}  // namespace
}  // namespace weft::core
