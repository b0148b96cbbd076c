// SPDX-License-Identifier: BSD-3-Clause
// The queue from kernels to the CPU (weft_device_queue.cuh) with many writers: no record is lost or torn, the
// order of a writer stays, replies reach the threads that wait for them, and threads leave a full ring.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "weft_device.cuh"

namespace {

namespace abi = weft::device::abi;
namespace detail = weft::device::detail;
using weft::device::Error;
using weft::device::Thread;

/// A table of one rank with a queue, and the reader's side.
struct Ring {
  explicit Ring(uint64_t timeout_ns)
      : records(abi::Queue::kRecords),
        payload(abi::Queue::kRecords * abi::Queue::kPayloadBytes),
        replies(abi::Queue::kReplies) {
    queue.records = reinterpret_cast<uint64_t>(records.data());
    queue.payload = reinterpret_cast<uint64_t>(payload.data());
    queue.replies = reinterpret_cast<uint64_t>(replies.data());
    queue.read = reinterpret_cast<uint64_t>(&read);
    table = {abi::kVersion,
             0,
             1,
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
  void take() { __atomic_store_n(&read, read + 1, __ATOMIC_RELEASE); }
  void answer(uint64_t number, uint64_t value) {
    abi::QueueReply& reply = replies[(number - 1) % abi::Queue::kReplies];
    __atomic_store_n(&reply.value, value, __ATOMIC_RELAXED);
    __atomic_store_n(&reply.state, number << 8, __ATOMIC_RELEASE);
  }
  std::vector<abi::QueueRecord> records;
  std::vector<char> payload;
  std::vector<abi::QueueReply> replies;
  uint64_t read = 0;
  abi::Queue queue{};
  abi::WindowStatus status{};
  abi::WindowTable table{};
};

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
