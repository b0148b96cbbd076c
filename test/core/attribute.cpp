// SPDX-License-Identifier: BSD-3-Clause
// Attributes: callbacks, their order and failures, and that they run without the instance lock.
#include "core/attribute.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "core/solo.hpp"

namespace weft::core {
namespace {

void* value(intptr_t number) { return reinterpret_cast<void*>(number); }

struct Call {
  void* object;
  int keyval;
  void* value;
  bool operator==(const Call&) const = default;
};

/// Arguments seen by the callbacks, and their return values.
struct Script {
  std::vector<Call> copies, deletions;
  int copy_code = 0, delete_code = 0, flag = 1;
  bool lock_was_free = true;
};

void note_lock(Script& script) {
  if (!solo().threaded) return;
  std::thread([&] {
    script.lock_was_free = solo().lock.try_lock();
    if (script.lock_was_free) solo().lock.unlock();
  }).join();
}

int copy(void* object, int keyval, void* extra, void* in, void* out, int* flag) {
  auto& script = *static_cast<Script*>(extra);
  note_lock(script);
  script.copies.push_back({object, keyval, in});
  *static_cast<void**>(out) = value(reinterpret_cast<intptr_t>(in) + 100);
  *flag = script.flag;
  return script.copy_code;
}

int remove(void* object, int keyval, void* in, void* extra) {
  auto& script = *static_cast<Script*>(extra);
  note_lock(script);
  script.deletions.push_back({object, keyval, in});
  return script.delete_code;
}

class Attribute : public testing::Test {
 protected:
  int key() { return create_keyval({Attributed::communicator, copy, remove, &script}); }
  /// Returns the value, or -1 if not set.
  static intptr_t get(const AttributeSet& set, int keyval) {
    bool found = false;
    void* const attribute = set.get(keyval, found);
    return found ? reinterpret_cast<intptr_t>(attribute) : -1;
  }
  Script script;
  AttributeSet set, other;
  int one = 1, two = 2;  // objects that stand for handles
};

TEST_F(Attribute, SetGetErase) {
  const int k = key();
  EXPECT_EQ(get(set, k), -1);
  ASSERT_TRUE(set.set(solo(), &one, k, value(5)).ok());
  EXPECT_EQ(get(set, k), 5);
  ASSERT_TRUE(set.erase(solo(), &one, k).ok());
  EXPECT_EQ(get(set, k), -1);
  EXPECT_EQ(script.deletions, (std::vector<Call>{{&one, k, value(5)}}));
  EXPECT_EQ(set.erase(solo(), &one, k).error().code(), Errc::keyval);
}

TEST_F(Attribute, ReplacingDeletesTheOldValueFirst) {
  const int k = key();
  ASSERT_TRUE(set.set(solo(), &one, k, value(1)).ok());
  ASSERT_TRUE(set.set(solo(), &one, k, value(2)).ok());
  EXPECT_EQ(script.deletions, (std::vector<Call>{{&one, k, value(1)}}));
  EXPECT_EQ(get(set, k), 2);
}

TEST_F(Attribute, ClearedInReverseOrder) {
  const int a = key(), b = key(), c = key();
  for (const int k : {a, b, c}) ASSERT_TRUE(set.set(solo(), &one, k, value(k)).ok());
  ASSERT_TRUE(set.clear(solo(), &one).ok());
  EXPECT_EQ(script.deletions,
            (std::vector<Call>{{&one, c, value(c)}, {&one, b, value(b)}, {&one, a, value(a)}}));
  EXPECT_TRUE(set.empty());
}

TEST_F(Attribute, CopyCallbackDecides) {
  const int k = key();
  ASSERT_TRUE(set.set(solo(), &one, k, value(1)).ok());
  ASSERT_TRUE(set.copy_to(solo(), &one, other).ok());
  EXPECT_EQ(get(other, k), 101);
  EXPECT_EQ(script.copies, (std::vector<Call>{{&one, k, value(1)}}));
  script.flag = 0;
  AttributeSet third;
  ASSERT_TRUE(set.copy_to(solo(), &one, third).ok());
  EXPECT_TRUE(third.empty());
}

TEST_F(Attribute, PredefinedCopyFunctions) {
  const int none = create_keyval({Attributed::communicator, nullptr, nullptr, nullptr});
  const int same = create_keyval({Attributed::communicator, kDuplicate, nullptr, nullptr});
  ASSERT_TRUE(set.set(solo(), &one, none, value(1)).ok());
  ASSERT_TRUE(set.set(solo(), &one, same, value(2)).ok());
  ASSERT_TRUE(set.copy_to(solo(), &one, other).ok());
  EXPECT_EQ(get(other, none), -1);
  EXPECT_EQ(get(other, same), 2);
}

TEST_F(Attribute, AFailedCallbackIsAnErrorAndTheAttributeStays) {
  const int k = key();
  ASSERT_TRUE(set.set(solo(), &one, k, value(1)).ok());
  script.delete_code = 17;
  EXPECT_EQ(set.erase(solo(), &one, k).error().code(), Errc::other);
  EXPECT_EQ(set.erase(solo(), &one, k).error().mpi_code(), 17);
  EXPECT_EQ(set.clear(solo(), &one).error().code(), Errc::other);
  EXPECT_EQ(set.set(solo(), &one, k, value(2)).error().code(), Errc::other);
  EXPECT_EQ(get(set, k), 1);
  script.copy_code = 17;
  EXPECT_EQ(set.copy_to(solo(), &one, other).error().code(), Errc::other);
  EXPECT_TRUE(other.empty());
}

TEST_F(Attribute, AFreedKeyLivesAsLongAsItsAttributes) {
  const int k = key();
  ASSERT_TRUE(set.set(solo(), &one, k, value(1)).ok());
  ASSERT_TRUE(free_keyval(k, Attributed::communicator).ok());
  ASSERT_NE(find_keyval(k, Attributed::communicator), nullptr);
  EXPECT_TRUE(find_keyval(k, Attributed::communicator)->freed);
  EXPECT_TRUE(free_keyval(k, Attributed::communicator).ok());  // again: no effect
  ASSERT_TRUE(set.copy_to(solo(), &one, other).ok());
  ASSERT_TRUE(set.clear(solo(), &one).ok());
  ASSERT_TRUE(other.clear(solo(), &two).ok());
  EXPECT_EQ(script.deletions, (std::vector<Call>{{&one, k, value(1)}, {&two, k, value(101)}}));
  EXPECT_EQ(find_keyval(k, Attributed::communicator), nullptr);
  EXPECT_EQ(free_keyval(k, Attributed::communicator).error().code(), Errc::keyval);
}

TEST_F(Attribute, KeysAreOfOneKindAndNeverUsedTwice) {
  const int k = key();
  EXPECT_EQ(find_keyval(k, Attributed::datatype), nullptr);
  EXPECT_EQ(free_keyval(k, Attributed::window).error().code(), Errc::keyval);
  ASSERT_NE(find_keyval(k, Attributed::communicator), nullptr);
  ASSERT_TRUE(free_keyval(k, Attributed::communicator).ok());
  EXPECT_NE(key(), k);
}

TEST_F(Attribute, ACallbackMayChangeTheSet) {
  static AttributeSet* changed;
  static int victim;
  changed = &set;
  victim = key();
  const int k = create_keyval(
      {Attributed::communicator, nullptr,
       [](void* object, int, void*, void*) { return changed->erase(solo(), object, victim).ok() ? 0 : 1; },
       nullptr});
  ASSERT_TRUE(set.set(solo(), &one, victim, value(1)).ok());
  ASSERT_TRUE(set.set(solo(), &one, k, value(2)).ok());
  EXPECT_TRUE(set.clear(solo(), &one).ok());
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(script.deletions.size(), 1u);
}

TEST_F(Attribute, CallbacksRunWithoutTheInstanceLock) {
  const Threaded hold;
  const int k = key();
  ASSERT_TRUE(set.set(solo(), &one, k, value(1)).ok());
  ASSERT_TRUE(set.copy_to(solo(), &one, other).ok());
  ASSERT_TRUE(set.clear(solo(), &one).ok());
  EXPECT_EQ(script.copies.size() + script.deletions.size(), 2u);
  EXPECT_TRUE(script.lock_was_free);
}

}  // namespace
}  // namespace weft::core
