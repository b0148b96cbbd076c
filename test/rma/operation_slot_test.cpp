// SPDX-License-Identifier: BSD-3-Clause
// Claims on operation slots: of posted operations and of the chunks of shared transfers, by racing threads.
#include "rma/operation_slot.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace weft::rma {
namespace {

TEST(OperationSlot, OneSideExecutes) {
  constexpr int kRounds = 20000;
  OperationSlot slot{};
  std::atomic<int> executed{0};
  std::atomic<bool> end{false};
  std::thread owner([&] {
    while (!end.load()) {
      if (!slot.is_posted() || !slot.begin()) continue;
      executed.fetch_add(1);
      slot.state.store(OperationSlot::done, std::memory_order_release);
    }
  });
  int retracted = 0;
  for (int i = 0; i < kRounds; ++i) {
    slot.state.store(OperationSlot::posted, std::memory_order_release);
    for (int spins = i % 300; spins > 0 && !slot.executed(); --spins) {
    }
    if (slot.retract())
      ++retracted;
    else
      while (!slot.executed()) std::this_thread::yield();
  }
  end.store(true);
  owner.join();
  EXPECT_EQ(executed.load() + retracted, kRounds);
}

TEST(SharedTransfer, ChunksCoverTheTransfer) {
  for (const uint64_t bytes : {SharedTransfer::kMinBytes, SharedTransfer::kMinBytes + 1, uint64_t{1} << 20,
                               (uint64_t{1} << 20) + 5, uint64_t{UINT32_MAX}}) {
    const uint64_t chunk = SharedTransfer::chunk_of(bytes), chunks = (bytes + chunk - 1) / chunk;
    EXPECT_GE(chunks, 2U);
    EXPECT_LE(chunks, uint64_t{UINT16_MAX});
    EXPECT_LT((chunks - 1) * chunk, bytes);
  }
}

/// An owner that looks at the claims at any time gets chunks of the current transfer only, each once.
TEST(SharedTransfer, EachChunkIsClaimedOnce) {
  constexpr uint32_t kTransfers = 3000, kChunks = 9;
  SharedTransfer transfer{};
  std::vector<std::atomic<int>> claimed(kTransfers * kChunks);
  std::atomic<bool> end{false};
  const auto take = [&](uint64_t& seen, bool last) {
    if (!transfer.claim(seen, last)) return false;
    const uint64_t chunk = last ? SharedTransfer::end(seen) - 1 : SharedTransfer::first(seen);
    claimed[(seen >> 32) * kChunks + chunk].fetch_add(1);
    return true;
  };
  std::thread owner([&] {
    while (!end.load()) {
      uint64_t seen = transfer.claims.load(std::memory_order_acquire);
      if (take(seen, false)) transfer.owner_chunks.fetch_add(1, std::memory_order_release);
    }
  });
  for (uint32_t number = 0; number < kTransfers; ++number) {
    transfer.owner_chunks.store(0, std::memory_order_relaxed);
    uint64_t claims = SharedTransfer::all_of(number, kChunks);
    transfer.claims.store(claims, std::memory_order_release);
    uint32_t own = 0;
    while (SharedTransfer::first(claims) < SharedTransfer::end(claims)) {
      if (!take(claims, true)) continue;
      ++own;
      claims = transfer.claims.load(std::memory_order_relaxed);
    }
    while (transfer.owner_chunks.load(std::memory_order_acquire) != kChunks - own) std::this_thread::yield();
  }
  end.store(true);
  owner.join();
  for (const auto& times : claimed) ASSERT_EQ(times.load(), 1);
}

}  // namespace
}  // namespace weft::rma
