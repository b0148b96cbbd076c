// SPDX-License-Identifier: BSD-3-Clause
// The queue from kernels to the CPU (weft_device_queue.cuh) with many writers: no record is lost or torn, the
// order of a writer stays, replies reach the threads that wait for them, threads leave a full ring, and large
// puts use stages that are free.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "weft_device.cuh"

namespace {

namespace abi = weft::device::abi;
namespace detail = weft::device::detail;
using weft::device::Error;
using weft::device::Thread;

/// A table with a queue, and the reader's side.
struct Ring {
  static constexpr int kRanks = 8;
  explicit Ring(uint64_t timeout_ns)
      : records(abi::Queue::kRecords),
        payload(abi::Queue::kRecords * abi::Queue::kPayloadBytes),
        replies(abi::Queue::kReplies),
        stages(abi::Queue::kStages * abi::Queue::kStageBytes) {
    queue.records = reinterpret_cast<uint64_t>(records.data());
    queue.payload = reinterpret_cast<uint64_t>(payload.data());
    queue.replies = reinterpret_cast<uint64_t>(replies.data());
    queue.read = reinterpret_cast<uint64_t>(&read);
    queue.stages = reinterpret_cast<uint64_t>(stages.data());
    table = {abi::kVersion,
             0,
             kRanks,
             0,
             timeout_ns,
             reinterpret_cast<uint64_t>(&status),
             0,
             reinterpret_cast<uint64_t>(&queue)};
  }
  /// The next record; null: none.
  [[nodiscard]] const abi::QueueRecord* next() {
    const abi::QueueRecord& record = records[read % abi::Queue::kRecords];
    return __atomic_load_n(&record.number, __ATOMIC_ACQUIRE) == static_cast<uint32_t>(read + 1) ? &record
                                                                                                : nullptr;
  }
  [[nodiscard]] const char* payload_of_next() const {
    return payload.data() + read % abi::Queue::kRecords * abi::Queue::kPayloadBytes;
  }
  [[nodiscard]] const char* stage_of_next() const {
    return stages.data() + read % abi::Queue::kStages * abi::Queue::kStageBytes;
  }
  void take() { __atomic_store_n(&read, read + 1, __ATOMIC_RELEASE); }
  void answer(uint64_t number, uint64_t value) {
    abi::QueueReply& reply = replies[(number - 1) % abi::Queue::kReplies];
    __atomic_store_n(&reply.value, value, __ATOMIC_RELAXED);
    __atomic_store_n(&reply.state, number << 8, __ATOMIC_RELEASE);
  }
  std::vector<abi::QueueRecord> records;
  std::vector<char> payload;
  std::vector<abi::QueueReply> replies;
  std::vector<char> stages;
  uint64_t read = 0;
  abi::Queue queue{};
  abi::WindowStatus status{};
  abi::WindowTable table{};
  abi::WindowPeer peers[kRanks] = {};  // behind the table
};
static_assert(offsetof(Ring, peers) == offsetof(Ring, table) + sizeof(abi::WindowTable));

TEST(KernelQueue, ManyWriters) {
  constexpr uint64_t kWriters = 8, kEach = 4000;  // eight writers go around the ring 60 times
  Ring ring(0);
  std::vector<std::thread> writers;
  for (uint64_t writer = 0; writer < kWriters; ++writer)
    writers.emplace_back([&ring, writer] {
      std::vector<uint64_t> data(200);
      for (uint64_t i = 0; i < kEach; ++i) {
        const uint64_t words = 1 + i % data.size();
        for (uint64_t k = 0; k < words; ++k) data[k] = writer << 48 | i << 16 | k;
        EXPECT_EQ(detail::put_remote(Thread(), &ring.table, static_cast<int>(writer), i, data.data(),
                                     words * sizeof(uint64_t), static_cast<uint32_t>(i + 1)),
                  Error::none);
      }
    });
  std::vector<uint64_t> seen(kWriters);
  for (uint64_t total = 0; total < kWriters * kEach;) {
    const abi::QueueRecord* const record = ring.next();
    if (record == nullptr) {
      std::this_thread::yield();
      continue;
    }
    const auto writer = static_cast<uint64_t>(record->rank);
    ASSERT_LT(writer, kWriters);
    const uint64_t i = seen[writer]++;
    ASSERT_EQ(record->offset, i) << "the order of a writer";
    ASSERT_EQ(record->signal, i + 1);
    ASSERT_EQ(record->bytes, (1 + i % 200) * sizeof(uint64_t));
    std::vector<uint64_t> data(record->bytes / sizeof(uint64_t));
    std::memcpy(data.data(), ring.payload_of_next(), record->bytes);
    for (uint64_t k = 0; k < data.size(); ++k)
      ASSERT_EQ(data[k], writer << 48 | i << 16 | k) << "a torn record";
    ring.take();
    ++total;
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(ring.next(), nullptr);
  EXPECT_EQ(ring.queue.written, kWriters * kEach);
}

/// The words of a put arrive once each, in order, by payload, stage or buffer; a stage keeps its data until
/// its record is read, however late that is.
TEST(KernelQueue, LargePutsInStages) {
  constexpr uint64_t kWriters = 6, kEach = 60, kMostWords = 40000;  // five stages
  Ring ring(0);
  for (abi::WindowPeer& peer : ring.peers) peer.remote = abi::WindowPeer::by_stages;
  std::vector<std::thread> writers;
  for (uint64_t writer = 0; writer < kWriters; ++writer)
    writers.emplace_back([&ring, writer] {
      std::vector<uint64_t> data;
      for (uint64_t i = 0; i < kEach; ++i) {
        data.assign(1 + i * 7919 * (writer + 1) % kMostWords, 0);
        for (uint64_t k = 0; k < data.size(); ++k) data[k] = writer << 48 | i << 32 | k;
        EXPECT_EQ(detail::put_remote(Thread(), &ring.table, static_cast<int>(writer), 0, data.data(),
                                     data.size() * sizeof(uint64_t), static_cast<uint32_t>(i + 1)),
                  Error::none);
      }
    });
  std::vector<uint64_t> seen(kWriters), done(kWriters);  // bytes of the put, puts
  uint64_t staged = 0, named = 0;
  for (uint64_t total = 0, records = 0; total < kWriters * kEach;) {
    const abi::QueueRecord* const record = ring.next();
    if (record == nullptr) {
      std::this_thread::yield();
      continue;
    }
    if (++records % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // stages run out
    const auto writer = static_cast<uint64_t>(record->rank);
    ASSERT_LT(writer, kWriters);
    ASSERT_EQ(record->offset, seen[writer]);
    const char* from = reinterpret_cast<const char*>(record->address);
    if (from == nullptr) {
      const bool in_stage = record->bytes > abi::Queue::kPayloadBytes;
      ASSERT_LE(record->bytes, abi::Queue::kStageBytes);
      from = in_stage ? ring.stage_of_next() : ring.payload_of_next();
      staged += in_stage ? 1 : 0;
    } else {
      ++named;
    }
    std::vector<uint64_t> data(record->bytes / sizeof(uint64_t));
    std::memcpy(data.data(), from, record->bytes);
    for (uint64_t k = 0; k < data.size(); ++k)
      ASSERT_EQ(data[k], writer << 48 | done[writer] << 32 | (seen[writer] / sizeof(uint64_t) + k));
    seen[writer] += record->bytes;
    if (record->signal != 0) {
      ASSERT_EQ(record->signal, ++done[writer]);
      seen[writer] = 0;
      ++total;
    }
    const uint64_t reply = record->reply;
    ring.take();
    if (reply != 0) ring.answer(reply, 0);
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(ring.next(), nullptr);
  EXPECT_GT(staged, 0u);
  EXPECT_GT(named, 0u) << "a put that finds no stage names its buffer";
}

/// With 64 unread records every stage may be in use; puts do not wait for one.
TEST(KernelQueue, NoStageIsFree) {
  Ring ring(20'000'000);
  for (abi::WindowPeer& peer : ring.peers) peer.remote = abi::WindowPeer::by_stages;
  const std::vector<char> data(abi::Queue::kStageBytes);
  const auto put = [&] {
    return detail::put_remote(Thread(), &ring.table, 3, 0, data.data(), data.size(), 0);
  };
  for (uint64_t i = 0; i < abi::Queue::kStages; ++i) ASSERT_EQ(put(), Error::none);
  EXPECT_EQ(put(), Error::timeout) << "nobody answers a put by its buffer";
  EXPECT_NE(ring.records[abi::Queue::kStages].address, 0u);
  ring.status.error = 0;
  ring.take();
  ring.take();  // the record of the named put is 64 before the next one
  EXPECT_EQ(put(), Error::none);
  EXPECT_EQ(ring.records[abi::Queue::kStages + 1].address, 0u);
  ring.take();
  ring.status.cancelled = 1;
  EXPECT_EQ(put(), Error::failed) << "a put that nobody answers ends with a failed process";
}

TEST(KernelQueue, RepliesReachTheirThreads) {
  constexpr uint64_t kWriters = 8, kEach = 200;  // more than there are slots of replies
  Ring ring(0);
  std::atomic<bool> done{false};
  std::thread reader([&] {
    std::vector<std::pair<uint64_t, uint64_t>> late;  // answered in another order
    while (!done.load()) {
      if (const abi::QueueRecord* const record = ring.next()) {
        late.emplace_back(record->reply, record->operand * 3);
        ring.take();
      }
      if (late.size() < 5 && ring.next() != nullptr) continue;
      for (; !late.empty(); late.pop_back()) ring.answer(late.back().first, late.back().second);
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> writers;
  for (uint64_t writer = 0; writer < kWriters; ++writer)
    writers.emplace_back([&ring, writer] {
      for (uint64_t i = 0; i < kEach; ++i) {
        const uint64_t operand = writer << 32 | i;
        EXPECT_EQ(detail::atomic_remote(&ring.table, 0, 0, abi::QueueRecord::add, abi::QueueRecord::uint64,
                                        operand, 0),
                  operand * 3);
      }
    });
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
}

TEST(KernelQueue, ThreadsLeaveAFullRing) {
  Ring ring(20'000'000);
  const uint64_t value = 1;
  const auto put = [&] { return detail::put_remote(Thread(), &ring.table, 3, 0, &value, sizeof value, 0); };
  for (uint64_t i = 0; i < abi::Queue::kRecords; ++i) ASSERT_EQ(put(), Error::none);
  EXPECT_EQ(put(), Error::timeout);
  EXPECT_EQ(ring.status.rank, 3) << "the time limit names the rank";
  EXPECT_EQ(ring.queue.written, abi::Queue::kRecords) << "no gap";
  ring.status.error = 0;
  ASSERT_NE(ring.next(), nullptr);
  ring.take();
  EXPECT_EQ(put(), Error::none);
  ring.status.cancelled = 1;
  EXPECT_EQ(put(), Error::failed);
}

TEST(KernelQueue, LateReplies) {
  Ring ring(20'000'000);
  EXPECT_EQ(detail::flush_remote(Thread(), &ring.table, 0), Error::timeout);
  const uint64_t late = ring.records[0].reply;
  EXPECT_EQ(ring.queue.released[(late - 1) % abi::Queue::kReplies], late) << "the slot is free again";
}

}  // namespace
