// SPDX-License-Identifier: BSD-3-Clause
// Small copies in quick succession, by the resident kernel and by copy engines: sources that change between
// commands, instances that end at any time.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "../reference/counted.hpp"
#include "../reference/draw.hpp"
#include "base/clock.hpp"
#include "cuda_test_support.hpp"
#include "device/pinned.hpp"

namespace weft::test {
namespace {

using Kind = Buffer::Kind;

constexpr size_t kSlots = 200, kMost = 512;

/// On busy cores instances end before their commands, and for a while no instance is started any more: until
/// one has executed a command, rounds are repeated for this time.
constexpr uint64_t kExecutionLimitNs = 20'000'000'000;

class ResidentKernelTest : public CudaTest {
 protected:
  /// Whether the emulated driver counts commands, and the variant of the test wants some.
  static bool counts_commands() {
    return cuda().emulated() && std::getenv("WEFT_GPU_RESIDENT_KERNEL") != nullptr;
  }
};

/// Up to kSlots concurrent copies, each between its own parts of two buffers.
class Window {
 public:
  Window() : from_(Kind::device, kSlots * kMost), to_(Kind::device, kSlots * kMost) {}

  /// Writes new content, submits all copies in quick succession, and compares all bytes.
  void round(unsigned seed, randomized::Draw& draw) {
    const auto sent = pattern(kSlots * kMost, seed);
    from_.write(sent);
    auto expected = to_.read();
    const Memory dst = to_.memory(), src = from_.memory();
    std::vector<device::Ticket> tickets;
    for (size_t i = 0; i < kSlots; ++i) {
      const size_t n = 1 + draw.number() % kMost, at = i * kMost;
      auto ticket =
          device::copy_async(to_.data() + at, dst, from_.data() + at, src, n, device::StreamRole::in);
      ASSERT_OK(ticket);
      tickets.push_back(std::move(*ticket));
      std::copy_n(sent.begin() + static_cast<long>(at), n, expected.begin() + static_cast<long>(at));
    }
    for (device::Ticket& ticket : tickets) ASSERT_OK(device::wait(ticket));
    EXPECT_EQ(to_.read(), expected) << "round " << seed;
  }

 private:
  Buffer from_, to_;
};

TEST_F(ResidentKernelTest, CopiesInQuickSuccession) {
  const Counted commands("gpu.resident_kernel_commands"), instances("gpu.resident_kernel_instances");
  Window window;
  randomized::Draw draw(1);
  const bool counts = counts_commands();
  const auto executed = [&] { return !counts || cuda().resident_kernel_commands() > 0; };
  const uint64_t until = monotonic_ns() + kExecutionLimitNs;
  for (unsigned i = 0; i < 100 || (!executed() && monotonic_ns() < until); ++i) window.round(i, draw);
  RecordProperty("commands", std::to_string(commands.growth()));
  RecordProperty("instances", std::to_string(instances.growth()));
  EXPECT_TRUE(executed());
  if (counts) {
    EXPECT_GT(instances.growth(), 0u);
  }
}

/// Batches of copies of all sizes and alignments, submitted without waiting.
class Batches {
 public:
  Batches() : from_(Kind::device, kBytes), to_(Kind::device, kBytes) {}

  void round(unsigned seed, randomized::Draw& draw) {
    const auto sent = pattern(kBytes, seed);
    from_.write(sent);
    auto expected = to_.read();
    const Memory dst = to_.memory(), src = from_.memory();
    std::vector<device::Ticket> tickets;
    for (size_t list = 0, at = 0; list < 4; ++list) {
      const size_t most = draw.of({size_t{64}, size_t{2000}, size_t{16384}, size_t{70'000}});
      std::vector<device::CopyOp> copies;
      for (size_t i = 2 + draw.number() % 62; i != 0 && at + most + 64 < kBytes; --i) {
        const size_t n = 1 + draw.number() % most, shift = draw.one_in(3) ? draw.number() % 17 : 0;
        copies.push_back({to_.data() + at, from_.data() + at + shift, n});
        std::copy_n(sent.begin() + static_cast<long>(at + shift), n,
                    expected.begin() + static_cast<long>(at));
        at += (n + 31) / 16 * 16;
      }
      auto ticket = device::copy_batch_async(copies.data(), copies.size(), dst, src, device::StreamRole::in);
      ASSERT_OK(ticket);
      tickets.push_back(std::move(*ticket));
    }
    for (device::Ticket& ticket : tickets) ASSERT_OK(device::wait(ticket));
    EXPECT_EQ(to_.read(), expected) << "round " << seed;
  }

 private:
  static constexpr size_t kBytes = 8 << 20;
  Buffer from_, to_;
};

TEST_F(ResidentKernelTest, BatchesInQuickSuccession) {
  const Counted commands("gpu.resident_kernel_commands");
  Batches batches;
  randomized::Draw draw(2);
  for (unsigned i = 0; i < 40; ++i) batches.round(i, draw);
  RecordProperty("commands", std::to_string(commands.growth()));
}

/// Copies from staging memory, small enough for inline data and larger.
TEST_F(ResidentKernelTest, InlineBytesFromStagingMemory) {
  constexpr size_t kPart = 32, kParts = 16, kRounds = 100;
  const Counted commands("gpu.resident_kernel_commands"), not_started("gpu.resident_kernel_not_started");
  const Buffer to(Kind::device, kParts * kPart);
  const Memory dst = to.memory();
  auto pinned = device::lease_pinned(dst);
  ASSERT_OK(pinned);
  const bool counts = counts_commands();
  const uint64_t until = monotonic_ns() + kExecutionLimitNs;
  const auto executed = [&] { return !counts || commands.growth() > not_started.growth(); };
  randomized::Draw draw(3);
  for (unsigned i = 0; i < kRounds || (!executed() && monotonic_ns() < until); ++i) {
    auto expected = to.read();
    const auto sent = pattern(kParts * kPart, i);
    std::memcpy(pinned->data(), sent.data(), sent.size());
    std::vector<device::Ticket> tickets;
    for (size_t part = 0; part < kParts; ++part) {
      const size_t n = 1 + draw.number() % 12, at = part * kPart + draw.number() % (kPart - n);
      std::copy_n(sent.begin() + static_cast<long>(at), n, expected.begin() + static_cast<long>(at));
      auto ticket = device::copy_async(to.data() + at, dst, pinned->data() + at, pinned->memory(), n,
                                       device::StreamRole::in);
      ASSERT_OK(ticket);
      tickets.push_back(std::move(*ticket));
    }
    for (device::Ticket& ticket : tickets) ASSERT_OK(device::wait(ticket));
    ASSERT_EQ(to.read(), expected) << "round " << i;
  }
  if (counts) {
    EXPECT_GT(commands.growth(), not_started.growth());
  }
}

/// A wait longer than the idle timeout sends no-op commands.
TEST_F(ResidentKernelTest, KeepsRunningDuringWaits) {
  if (!cuda().emulated() || std::getenv("TEST_RESIDENT_KERNEL_KEEPS_RUNNING") == nullptr)
    GTEST_SKIP() << "needs the command counter of the emulated driver, and long instances";
  constexpr uint64_t kTimeoutNs =
      30'000'000'000;  // instances may end, and the process may be preempted, at any time
  const Buffer from(Kind::device, 64), to(Kind::device, 64);
  const Memory dst = to.memory(), src = from.memory();
  unsigned long empty = 0;
  for (const uint64_t end = monotonic_ns() + kTimeoutNs; monotonic_ns() < end && empty == 0;) {
    for (int k = 0; k < 8; ++k) ASSERT_OK(device::copy(to.data(), dst, from.data(), src, 64));
    const unsigned long before = cuda().resident_kernel_commands();
    for (const uint64_t until = monotonic_ns() + 400'000; monotonic_ns() < until;) device::keep_running(dst);
    empty = cuda().resident_kernel_commands() - before;
  }
  EXPECT_GT(empty, 0u);
}

}  // namespace
}  // namespace weft::test
