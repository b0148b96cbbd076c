// SPDX-License-Identifier: BSD-3-Clause
// Plans of collectives on GPU buffers: the plans of all ranks agree, though each rank has its own operands
// only.
#include "coll/gpu/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "coll/gpu/direct_buffers.hpp"
#include "coll/gpu/pair_blocks.hpp"
#include "coll/gpu/rank_gpus.hpp"
#include "core/op.hpp"
#include "datatype/predefined.hpp"

namespace weft::coll::gpu {
namespace {

using enum Collective;

constexpr uintptr_t kInt = 0x209, kSum = 0x21;  // handles in the ABI
constexpr uint64_t kSimpleBytes = 11 << 20;     // bytes of the Simple part of a region

bool reduces(Collective what) {
  return what == allreduce || what == Collective::reduce || what == reduce_scatter_block || what == scan ||
         what == exscan;
}
bool has_root(Collective what) {
  return what == bcast || what == Collective::reduce || what == gather || what == scatter;
}

/// A call of one rank, `count` ints a block or vector.
Call call_of(Collective what, int rank, int size, int root, bool in_place, int64_t count) {
  Call call;
  call.what = what;
  call.rank = rank;
  call.size = size;
  call.root = has_root(what) ? root : 0;
  call.in_place = in_place && what != bcast &&
                  (what == Collective::reduce || what == gather || what == scatter ? rank == root : true);
  call.op = reduces(what) ? core::Op::predefined(kSum) : nullptr;
  for (Operand* operand : {&call.send, &call.recv}) {
    operand->type = datatype::predefined(kInt);
    operand->count = count;
    operand->blocks = size;
    operand->address = reinterpret_cast<void*>(uint64_t{operand == &call.send ? 1u : 2u} << 40);
  }
  if (what == reduce_scatter_block) call.send.count = count * size;
  if (call.in_place && reduces(what)) call.send = call.recv;
  call.bytes = static_cast<uint64_t>((what == reduce_scatter_block ? count * size : count) * 4);
  return call;
}

/// The parts of a plan that must be equal on all ranks. LL and LL128 divide data in the same way with any
/// number of blocks.
std::string shape(const Plan& plan) {
  std::string text = "protocol " + std::to_string(static_cast<int>(plan.protocol)) + ", form " +
                     std::to_string(static_cast<int>(plan.collective.form));
  if (plan.protocol == device::Protocol::simple)
    text += ", " + std::to_string(plan.blocks) + " blocks, " + std::to_string(plan.collective.rounds) +
            " rounds of " + std::to_string(plan.collective.chunk_bytes) + " bytes";
  return text;
}

class PlanTest : public ::testing::TestWithParam<std::tuple<Collective, int>> {
 protected:
  void expect_equal(int root, bool in_place, int64_t count, const RegionCapacity& capacity) const {
    const auto [what, size] = GetParam();
    std::string first;
    for (int rank = 0; rank < size; ++rank) {
      const Call call = call_of(what, rank, size, root, in_place, count);
      const std::string own = shape(make_plan(call, static_cast<uint64_t>(4 * count), capacity));
      if (rank == 0) first = own;
      EXPECT_EQ(own, first) << name(what) << " of " << count << " ints, rank " << rank << " of " << size
                            << ", root " << root << (in_place ? ", in place" : "")
                            << (capacity.resident_running ? ", resident kernels run" : "");
    }
  }
};

TEST_P(PlanTest, AllRanksUseTheSameProtocol) {
  const int size = std::get<1>(GetParam());
  for (const bool running : {false, true})
    for (const bool nvlink : {false, true}) {
      RegionCapacity capacity = RegionCapacity::of_region(static_cast<uint32_t>(size), nvlink, kSimpleBytes);
      capacity.resident_running = running;
      for (const int root : {0, size - 1})
        for (const bool in_place : {false, true})
          for (int64_t count = 1; count <= int64_t{1} << 24; count *= 2)
            expect_equal(root, in_place, count, capacity);
    }
}

// Kernels that wait for each other on a GPU that ranks share under MPS.
TEST_P(PlanTest, BlocksLeaveRoomForTheOtherRanks) {
  const auto [what, size] = GetParam();
  RegionCapacity capacity = RegionCapacity::of_region(static_cast<uint32_t>(size), true, kSimpleBytes);
  for (const uint32_t most : {1u, 2u, 5u, 16u, 66u}) {
    capacity.max_blocks = most;
    uint32_t reached = 0;
    for (int64_t count = 1; count <= int64_t{1} << 24; count *= 2) {
      const Call call = call_of(what, 0, size, 0, false, count);
      const auto largest = static_cast<uint64_t>(4 * count);
      const Plan plan = make_plan(call, largest, capacity),
                 direct = direct_buffers_plan(call, largest, kSimpleBytes, most);
      EXPECT_LE(plan.blocks, most) << name(what) << " of " << count;
      EXPECT_LE(direct.blocks, most) << name(what) << " of " << count;
      EXPECT_GE(std::min(plan.blocks, direct.blocks), 1u);
      reached = std::max(reached, plan.blocks);
    }
    EXPECT_GE(reached, std::min(most, 64u)) << name(what) << ": fewer blocks than allowed";
  }
}

using device::kernel::PairBlocks;

/// The parameters of all ranks for contiguous messages of bytes[from][to].
std::vector<std::unique_ptr<PairBlocks>> plan_pairs(const std::vector<std::vector<uint64_t>>& bytes,
                                                    const RegionCapacity& capacity) {
  std::vector<std::unique_ptr<PairBlocks>> all;
  for (uint32_t rank = 0; rank < bytes.size(); ++rank) {
    BlockShapes shapes;
    const auto add = [](std::vector<BlockShapes::Entry>& list, uint32_t peer, uint64_t n) {
      if (n == 0) return;
      const device::Shape shape = device::contiguous_shape(reinterpret_cast<void*>(uint64_t{1} << 40));
      list.push_back({peer, device::word_of(shape, n), n, 0, shape, 0, 0});
    };
    for (uint32_t peer = 0; peer < bytes.size(); ++peer) {
      add(shapes.sent, peer, bytes[rank][peer]);
      add(shapes.received, peer, bytes[peer][rank]);
    }
    Call call;
    call.rank = static_cast<int>(rank);
    call.size = static_cast<int>(bytes.size());
    auto planned = pair_blocks(call, shapes, capacity);
    EXPECT_TRUE(planned.ok());
    all.push_back(std::move(*planned));
  }
  return all;
}

/// The thread blocks of a pair move every byte of a message once, in chunks that fit a region.
void expect_whole(const PairBlocks& planned, uint32_t peer, uint64_t bytes, uint64_t simple) {
  const auto split = planned.split(peer);
  uint64_t moved = 0;
  for (uint32_t round = 0; split.chunk_bytes != 0; ++round) {
    const uint64_t before = moved;
    for (uint32_t k = 0; k < split.blocks; ++k) {
      const auto range = PairBlocks::chunk(split, bytes, round, k);
      EXPECT_TRUE(range.count == 0 || range.first == moved);
      moved += range.count;
    }
    if (moved == before) break;
  }
  EXPECT_EQ(moved, split.chunk_bytes != 0 ? bytes : 0);
  EXPECT_LE(split.chunk_bytes, planned.chunk_stride);
  const uint64_t last = planned.slot(0, 1, 1, planned.most_blocks - 1u) - planned.regions[0];
  EXPECT_LE(last + planned.chunk_stride, device::kernel::RegionLayout::kClearedBytes + simple);
}

TEST(PairBlocksTest, BothRanksDivideTheirMessagesAlike) {
  std::mt19937_64 random(1);
  for (const uint32_t size : {2u, 3u, 4u, 12u, 16u})
    for (const uint32_t most : {0u, size, 40u})
      for (int round = 0; round < 20; ++round) {
        std::vector<std::vector<uint64_t>> bytes(size, std::vector<uint64_t>(size));
        for (auto& row : bytes)
          for (uint64_t& n : row) n = random() % 3 == 0 ? 0 : random() % (uint64_t{1} << random() % 26);
        RegionCapacity capacity = RegionCapacity::of_region(size, true, kSimpleBytes);
        capacity.max_blocks = most;
        const auto all = plan_pairs(bytes, capacity);
        for (uint32_t rank = 0; rank < size; ++rank) {
          const PairBlocks& own = *all[rank];
          EXPECT_LE(own.thread_blocks(), most == 0 ? PairBlocks::kAllBlocks : most);
          bool ll = false, simple = false;
          for (uint32_t peer = 0; peer < size; ++peer) {
            const auto here = own.split(peer), there = all[peer]->split(rank);
            EXPECT_EQ(here.blocks, there.blocks);
            EXPECT_EQ(here.chunk_bytes, there.chunk_bytes);
            EXPECT_EQ(here.blocks == 0, bytes[rank][peer] + bytes[peer][rank] == 0);
            expect_whole(own, peer, std::max(bytes[rank][peer], bytes[peer][rank]), kSimpleBytes);
            if (peer == rank || here.blocks == 0) continue;
            (here.chunk_bytes == 0 ? ll : simple) = true;
          }
          EXPECT_EQ(own.ll, ll);
          EXPECT_EQ(own.simple, simple);
        }
      }
}

RankGpu gpu(uint8_t number, uint32_t multiprocessors, uint32_t known_ranks = 1) {
  RankGpu result{};
  result.id.uuid[0] = number;
  result.shared_multiprocessors = multiprocessors;
  result.known_ranks = known_ranks;
  return result;
}

TEST(RankGpuTest, SharesAreTheSmallestOfAllRanks) {
  using Gpus = std::vector<RankGpu>;
  EXPECT_EQ(max_resident_blocks(Gpus{gpu(1, 0), gpu(2, 0)}), 0u) << "no MPS: no limit";
  EXPECT_EQ(max_resident_blocks(Gpus{gpu(1, 132), gpu(2, 132)}), 256u) << "a GPU for each rank";
  EXPECT_EQ(max_resident_blocks(Gpus{gpu(1, 132), gpu(2, 33)}), 33u);
  EXPECT_EQ(max_resident_blocks(Gpus{gpu(1, 132), gpu(2, 132), gpu(1, 132)}), 66u);
  EXPECT_EQ(max_resident_blocks(Gpus{gpu(1, 132), gpu(1, 20)}), 10u) << "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
  EXPECT_EQ(max_resident_blocks(Gpus(16, gpu(1, 13))), 1u);
  EXPECT_EQ(max_resident_blocks(Gpus{gpu(1, 132, 4), gpu(2, 132)}), 33u) << "ranks of other communicators";
}

TEST(RankGpuTest, SharingNeedsMpsOnAllRanks) {
  using Gpus = std::vector<RankGpu>;
  EXPECT_TRUE(check_sharing(Gpus{gpu(1, 0), gpu(2, 0)}).ok());
  EXPECT_TRUE(check_sharing(Gpus{gpu(1, 132), gpu(2, 0), gpu(1, 132)}).ok());
  for (const Gpus& gpus : {Gpus{gpu(1, 0), gpu(2, 0), gpu(1, 0)}, Gpus{gpu(1, 132), gpu(2, 0), gpu(1, 0)}}) {
    const Status refused = check_sharing(gpus);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message().find("ranks 0 and 2 use the same GPU without MPS"), std::string::npos)
        << refused.error().message();
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, PlanTest,
                         ::testing::Combine(::testing::Values(allreduce, Collective::reduce, bcast, allgather,
                                                              alltoall, gather, scatter, reduce_scatter_block,
                                                              scan, exscan),
                                            ::testing::Values(2, 3, 8, 16)));

}  // namespace
}  // namespace weft::coll::gpu
