// SPDX-License-Identifier: BSD-3-Clause
// The request table: ids are found while they are live and by their peer only; stale and forged ids are
// counted.
#include "core/request_table.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include "base/counters.hpp"
#include "core/request.hpp"

namespace weft::core {
namespace {

struct TestRequest : Request {
  TestRequest() : Request(Kind::send) {}
};

uint64_t stale() { return counters::find("p2p.stale_ids")->value(); }

TEST(RequestTable, FindsALiveIdOfItsPeerOnly) {
  RequestTable table;
  RequestTable::PeerList list;
  TestRequest request;
  const RequestId id = table.insert(request, 7, list);
  EXPECT_NE(id, kNoRequest);
  EXPECT_EQ(table.find(id, 7), &request);
  const uint64_t before = stale();
  EXPECT_EQ(table.find(id, 8), nullptr);
  EXPECT_EQ(table.find(kNoRequest, 7), nullptr);
  EXPECT_EQ(stale(), before + 2);
}

TEST(RequestTable, AnErasedIdIsStaleForEver) {
  RequestTable table;
  RequestTable::PeerList list;
  TestRequest first, second;
  const RequestId id = table.insert(first, 1, list);
  table.erase(id, list);
  EXPECT_EQ(table.find(id, 1), nullptr);
  const RequestId next = table.insert(second, 1, list);
  EXPECT_EQ(static_cast<uint32_t>(next),
            static_cast<uint32_t>(id));  // the index is reused, the generation is not
  EXPECT_NE(next, id);
  EXPECT_EQ(table.find(id, 1), nullptr);
  EXPECT_EQ(table.find(next, 1), &second);
}

TEST(RequestTable, ForEachMayEraseItsRequest) {
  RequestTable table;
  RequestTable::PeerList list, other;
  std::deque<TestRequest> requests(5);
  for (auto& request : requests) (void)table.insert(request, 3, list);
  (void)table.insert(requests[0], 4, other);
  size_t seen = 0;
  table.for_each(list, [&](Request&, RequestId id) {
    ++seen;
    table.erase(id, list);
  });
  EXPECT_EQ(seen, 5u);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(table.size(), 1u);
}

TEST(RequestTable, ForEachVisitsThePeersOfAllLists) {
  RequestTable table;
  RequestTable::PeerList first, second;
  std::deque<TestRequest> requests(4);
  const RequestId erased = table.insert(requests[0], 3, first);
  for (size_t i = 1; i < requests.size(); ++i) (void)table.insert(requests[i], 4, second);
  table.erase(erased, first);
  size_t seen = 0;
  table.for_each([&](Request& request, RequestId id) {
    EXPECT_EQ(table.find(id, 4), &request);
    ++seen;
    table.erase(id, second);
  });
  EXPECT_EQ(seen, 3u);
  EXPECT_EQ(table.size(), 0u);
}

// 200,000 random and replayed ids beside live ones: only live ids are found. Seeds are printed on failure.
TEST(RequestTable, ForgedAndReplayedIdsFindNothing) {
  std::mt19937_64 random(1);
  RequestTable table;
  std::map<ProcessId, RequestTable::PeerList> lists;
  std::deque<TestRequest> requests(64);
  std::map<RequestId, std::pair<Request*, ProcessId>> live;
  std::vector<RequestId> dead;
  for (int step = 0; step < 200000; ++step) {
    const unsigned choice = random() % 4;
    const auto peer = static_cast<ProcessId>(random() % 5);
    if (choice == 0 && live.size() < requests.size()) {
      TestRequest& request = requests[random() % requests.size()];
      live[table.insert(request, peer, lists[peer])] = {&request, peer};
    } else if (choice == 1 && !live.empty()) {
      const auto at = std::next(live.begin(), static_cast<long>(random() % live.size()));
      table.erase(at->first, lists[at->second.second]);
      dead.push_back(at->first);
      live.erase(at);
    } else {
      const RequestId id = choice == 2 || dead.empty() ? random() : dead[random() % dead.size()];
      ASSERT_EQ(table.find(id, peer), nullptr) << step;
    }
    if (!live.empty()) {
      const auto& [id, known] = *live.begin();
      ASSERT_EQ(table.find(id, known.second), known.first) << step;
    }
  }
}

}  // namespace
}  // namespace weft::core
