// SPDX-License-Identifier: BSD-3-Clause
// weft_device.cuh, compiled for the host: each rank of a window is a thread, its window memory host memory.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device_kernels.cuh"

namespace {

using weft::device::Error;
using weft::device::Thread;
using weft::device::Window;
namespace abi = weft::device::abi;

struct Ranks {
  explicit Ranks(int size, uint64_t timeout_ns = 0) {
    const auto n = static_cast<size_t>(size);
    memory.assign(n, std::vector<int64_t>(2 * programs::kHalf));
    counters.assign(n, std::vector<uint64_t>(n + 2));
    status.resize(n);
    for (int rank = 0; rank < size; ++rank) {
      std::vector<uint64_t> table((sizeof(abi::WindowTable) + n * sizeof(abi::WindowPeer)) /
                                  sizeof(uint64_t));
      auto* const head = reinterpret_cast<abi::WindowTable*>(table.data());
      *head = {abi::kVersion,
               rank,
               size,
               0,
               timeout_ns,
               reinterpret_cast<uint64_t>(&status[static_cast<size_t>(rank)]),
               0,
               0};
      auto* const peers = reinterpret_cast<abi::WindowPeer*>(head + 1);
      for (size_t i = 0; i < n; ++i)
        peers[i] = {reinterpret_cast<uint64_t>(memory[i].data()),
                    memory[i].size() * sizeof(int64_t),
                    sizeof(int64_t),
                    memory[i].size(),
                    reinterpret_cast<uint64_t>(counters[i].data()),
                    2,
                    0};
      tables.push_back(std::move(table));
    }
  }
  [[nodiscard]] Window window(int rank) const { return Window(tables[static_cast<size_t>(rank)].data()); }
  template <class Body>
  void run(Body&& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < static_cast<int>(tables.size()); ++rank)
      threads.emplace_back([&, rank] { body(window(rank)); });
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<std::vector<int64_t>> memory;
  std::vector<std::vector<uint64_t>> counters;
  std::vector<abi::WindowStatus> status;
  std::vector<std::vector<uint64_t>> tables;
};

TEST(DeviceHeader, RingOfNotifiedPuts) {
  for (const int size : {1, 2, 3}) {
    Ranks ranks(size);
    ranks.run([](Window window) { EXPECT_EQ(programs::ring(window, Thread(), 100, 50), 0); });
    for (const auto& counters : ranks.counters)
      EXPECT_EQ(counters, std::vector<uint64_t>(counters.size())) << "all notifications are taken";
  }
}

TEST(DeviceHeader, AtomicOperations) {
  Ranks ranks(3);
  ranks.run([](Window window) { EXPECT_TRUE(programs::atomics(window, 300)); });
  const std::vector<int64_t>& words = ranks.memory[0];
  double sum = 0;
  std::memcpy(&sum, &words[2], sizeof sum);
  EXPECT_EQ(words[0], 900);
  EXPECT_EQ(words[1], 1800);
  EXPECT_EQ(sum, 450);
  EXPECT_EQ(words[4], 900);
}

TEST(DeviceHeader, GetAndPointers) {
  Ranks ranks(2);
  ranks.memory[1][5] = 42;
  const Window window = ranks.window(0);
  int64_t value = 0;
  EXPECT_EQ(window.get(Thread(), 1, 5, &value, sizeof value), Error::none);
  EXPECT_EQ(value, 42);
  EXPECT_EQ(window.peer_pointer(1, 5), &ranks.memory[1][5]);
  EXPECT_EQ(window.peer_pointer(2), nullptr);
  EXPECT_EQ(window.peer_pointer(-1), nullptr);
}

TEST(DeviceHeader, RefusesAccessesOutsideOfTheWindow) {
  Ranks ranks(2);
  const Window window = ranks.window(0);
  int64_t words[2] = {1, 2};
  const uint64_t last = 2 * programs::kHalf - 1;
  EXPECT_EQ(window.put(Thread(), 1, last, words, 8), Error::none);
  EXPECT_EQ(ranks.status[0].error, 0u);
  EXPECT_EQ(window.put(Thread(), 1, last, words, 16), Error::range);
  EXPECT_EQ(ranks.status[0].error, static_cast<uint32_t>(Error::range));
  EXPECT_EQ(ranks.status[0].rank, 1);
  EXPECT_EQ(window.put(Thread(), 1, uint64_t{1} << 61, words, 8), Error::range);
  EXPECT_EQ(window.get(Thread(), 2, 0, words, 8), Error::range);
  EXPECT_EQ(window.notify(Thread(), 1, 2), Error::range);
  EXPECT_EQ(window.wait_notify(Thread(), 2), Error::range);
  EXPECT_EQ(ranks.status[0].rank, 1) << "the first error stays";
}

TEST(DeviceHeader, WaitsEnd) {
  Ranks ranks(2, 50'000'000);
  EXPECT_EQ(ranks.window(0).wait_notify(Thread(), 1), Error::timeout);
  EXPECT_EQ(ranks.status[0].counter, 1u);
  EXPECT_EQ(ranks.window(0).wait_notify(Thread(), 0), Error::failed) << "after an error";
  Ranks others(2);
  others.status[1].cancelled = 1;
  EXPECT_EQ(others.window(1).barrier(Thread()), Error::failed);
  EXPECT_EQ(others.status[1].rank, 0);
}

TEST(DeviceHeader, PartitionsOfARequest) {
  struct {
    abi::PartitionTable table;
    uint64_t words[3];
  } request = {{abi::kVersion, 3, 50'000'000, 0, 0, 0}, {}};
  using weft::device::PartitionedRequest;
  EXPECT_EQ(PartitionedRequest(&request).pready(Thread(), 0), Error::range) << "before MPI_Start";
  request.table.starts = 7;
  const PartitionedRequest started(&request);
  EXPECT_EQ(started.pready(Thread(), 2), Error::none);
  EXPECT_EQ(started.pready(Thread(), 3), Error::range);
  EXPECT_EQ(request.words[2], 7u);
  EXPECT_TRUE(started.parrived(2));
  EXPECT_FALSE(started.parrived(1));
  EXPECT_EQ(started.wait_arrived(Thread(), 2), Error::none);
  EXPECT_EQ(started.wait_arrived(Thread(), 1), Error::timeout);
  request.table.cancelled = 1;
  EXPECT_EQ(started.wait_arrived(Thread(), 1), Error::failed);
}

TEST(DeviceHeader, WaitSubtracts) {
  Ranks ranks(1);
  const Window window = ranks.window(0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(window.notify(Thread(), 0, 1), Error::none);
  EXPECT_EQ(window.notifications(1), 5u);
  EXPECT_EQ(window.wait_notify(Thread(), 1, 3), Error::none);
  EXPECT_EQ(window.notifications(1), 2u);
}

}  // namespace
