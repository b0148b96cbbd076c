// SPDX-License-Identifier: BSD-3-Clause
// Atomic operations on host memory against their definition, and segments that other processes map.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "transport/rma/atomic.hpp"
#include "transport/rma/segment.hpp"

namespace weft::transport::rma {
namespace {

template <class T>
uint64_t bits(T value) {
  uint64_t out = 0;
  std::memcpy(&out, &value, sizeof value);
  return out;
}

template <class T>
T run(AtomicOp op, AtomicType type, T current, T operand, T compare = T{}) {
  alignas(8) T memory[2] = {current, current};
  const Atomic atomic{op, type, bits(operand), bits(compare)};
  EXPECT_TRUE(valid(atomic));
  EXPECT_EQ(execute(atomic, memory), bits(current));
  EXPECT_EQ(bits(memory[0]), apply(atomic, bits(current)));
  EXPECT_EQ(bits(memory[1]), bits(current)) << "the neighbour has changed";
  return memory[0];
}

TEST(Atomic, Integers) {
  using enum AtomicType;
  EXPECT_EQ(run<int32_t>(AtomicOp::sum, int32, INT32_MAX, 1), INT32_MIN);
  EXPECT_EQ(run<int32_t>(AtomicOp::product, int32, -3, 5), -15);
  EXPECT_EQ(run<int32_t>(AtomicOp::min, int32, -3, 5), -3);
  EXPECT_EQ(run<uint32_t>(AtomicOp::min, uint32, 0xfffffffd, 5), 5u);
  EXPECT_EQ(run<int64_t>(AtomicOp::max, int64, -3, -5), -3);
  EXPECT_EQ(run<uint64_t>(AtomicOp::bit_and, uint64, 0xff00ff, 0x0ff0), 0x0f0u);
  EXPECT_EQ(run<uint64_t>(AtomicOp::bit_or, uint64, 0xf0, 0x0f), 0xffu);
  EXPECT_EQ(run<uint32_t>(AtomicOp::bit_xor, uint32, 0xff, 0x0f), 0xf0u);
  EXPECT_EQ(run<uint64_t>(AtomicOp::no_op, uint64, 7, 9), 7u);
  EXPECT_EQ(run<uint64_t>(AtomicOp::replace, uint64, 7, 9), 9u);
  EXPECT_EQ(run<int32_t>(AtomicOp::compare_swap, int32, 7, 9, 7), 9);
  EXPECT_EQ(run<int32_t>(AtomicOp::compare_swap, int32, 7, 9, 8), 7);
}

TEST(Atomic, FloatingPoint) {
  EXPECT_EQ(run(AtomicOp::sum, AtomicType::float32, 1.5f, 2.25f), 3.75f);
  EXPECT_EQ(run(AtomicOp::product, AtomicType::float64, 1.5, -2.0), -3.0);
  EXPECT_EQ(run(AtomicOp::max, AtomicType::float64, -1.0, -2.0), -1.0);
  EXPECT_EQ(run(AtomicOp::compare_swap, AtomicType::float32, 0.0f, 1.0f, -0.0f), 0.0f);  // bits differ
}

TEST(Atomic, InvalidOperations) {
  EXPECT_FALSE(valid({AtomicOp::bit_or, AtomicType::float32, 0, 0}));
  EXPECT_FALSE(valid({AtomicOp::bit_and, AtomicType::float64, 0, 0}));
  EXPECT_FALSE(valid({static_cast<AtomicOp>(10), AtomicType::int32, 0, 0}));
  EXPECT_FALSE(valid({AtomicOp::sum, static_cast<AtomicType>(6), 0, 0}));
}

TEST(Atomic, ThreadsLoseNoUpdate) {
  alignas(8) double memory = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i)
        static_cast<void>(execute({AtomicOp::sum, AtomicType::float64, bits(1.0), 0}, &memory));
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory, 20000.0);
}

TEST(Segment, IsSharedByItsMappings) {
  auto own = Segment::create(100'000);
  ASSERT_TRUE(own.ok());
  (*own)->data()[99'999] = std::byte{7};
  auto other = Segment::attach(::getpid(), (*own)->name());
  ASSERT_TRUE(other.ok()) << other.error().message();
  EXPECT_NE((*other)->data(), (*own)->data());
  EXPECT_EQ((*other)->data()[99'999], std::byte{7});
  (*other)->data()[0] = std::byte{9};
  EXPECT_EQ((*own)->data()[0], std::byte{9});
  EXPECT_EQ((*own)->data()[1], std::byte{0});
  EXPECT_TRUE((*own)->covers((*own)->data() + 100'000, 0));
  EXPECT_FALSE((*own)->covers((*own)->data() + 99'999, 2));
  EXPECT_FALSE((*own)->covers((*own)->data() - 1, 2));
}

TEST(Segment, IsNotMistakenForAnotherFile) {
  auto first = Segment::create(1000);
  ASSERT_TRUE(first.ok());
  const SegmentName name = (*first)->name();
  first = Segment::create(1);           // freed, after another one was created
  auto second = Segment::create(1000);  // may have the descriptor of the first one
  auto attached = Segment::attach(::getpid(), name);
  ASSERT_FALSE(attached.ok());
  EXPECT_EQ(attached.error().code(), Errc::unsupported);
  SegmentName wrong = (*second)->name();
  wrong.bytes += 4096;
  EXPECT_FALSE(Segment::attach(::getpid(), wrong).ok());
}

TEST(SegmentPool, PiecesShareOneSegment) {
  constexpr size_t kUnit = SegmentPool::kPieceUnit;
  SegmentPool pool;
  EXPECT_EQ(pool.segment_of(nullptr, 1), nullptr);
  EXPECT_EQ(pool.allocate(SegmentPool::kMaxPiece + 1), nullptr);
  std::byte* const first = pool.allocate(1);
  std::byte* const second = pool.allocate(kUnit + 1);
  std::byte* const third = pool.allocate(kUnit);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(second, first + kUnit);
  EXPECT_EQ(third, first + 3 * kUnit);
  EXPECT_EQ(pool.segment_of(third, kUnit), pool.segment_of(first, 1));
  EXPECT_EQ(pool.segment_of(first - 1, 1), nullptr);
  pool.free(second);
  EXPECT_EQ(pool.allocate(2 * kUnit + 1), first + 4 * kUnit);  // does not fit into the gap
  EXPECT_EQ(pool.allocate(2 * kUnit), second);
  size_t more = 0;
  while (pool.allocate(kUnit) != nullptr) ++more;
  EXPECT_EQ(more, SegmentPool::kUnits - 7);
  pool.free(first);
  EXPECT_EQ(pool.allocate(kUnit), first);
}

}  // namespace
}  // namespace weft::transport::rma
