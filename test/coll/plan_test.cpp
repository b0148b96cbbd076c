// SPDX-License-Identifier: BSD-3-Clause
// Plans of collectives on GPU buffers: the plans of all ranks agree, though each rank has its own operands
// only.
#include "coll/gpu/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "coll/gpu/direct_buffers.hpp"
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
