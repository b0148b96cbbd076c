// SPDX-License-Identifier: BSD-3-Clause
// Plan: the sizes at which form and protocol of a collective change.
#include "coll/gpu/plan.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/config.hpp"
#include "coll/gpu/blocks.hpp"
#include "coll/gpu/messages.hpp"
#include "coll/gpu/pair_blocks.hpp"
#include "coll/schedule/crossovers.hpp"
#include "coll/schedule/hints.hpp"
#include "device/kernel/copy.hpp"

namespace weft::coll::gpu {
namespace {

using device::Protocol;
using device::kernel::RegionLayout;
using KernelCollective = device::kernel::Collective;
using enum Collective;

config::Choice enabled{
    "coll.gpu",
    0,
    {"on", "off"},
    "Collectives on device buffers by kernels, if every rank has a GPU of its own or MPS shares it; off: "
    "they use messages.",
    "application kernels fill the GPU and wait for collectives, or a problem may be in these kernels "
    "(off)"};
config::Size max_blocks_setting{
    "coll.gpu_max_blocks",
    0,
    0,
    KernelCollective::kBlocks,
    "Most thread blocks of a collective kernel; 0: chosen by size. With more "
    "than 128, blocks have half as many threads.",
    "collective kernels slow concurrent kernels of the application down (smaller)"};

constexpr uint64_t kFewBlocksMaxBytes = 128 << 10;
constexpr uint64_t kOneBlockMaxBytes = 16 << 10;    // of all ranks, that one block handles best
constexpr uint64_t kManyBlocksMinBytes = 16 << 20;  // of a vector, from which 128 blocks are faster than 64
constexpr size_t kLLMaxBlocks = 32;                 // more blocks do not help LL
constexpr size_t kLL128MaxBlocks = 64;              // more blocks do not help LL128
constexpr uint64_t kMinBytesPerBlock = 8 << 10;     // that justify another block

bool has_vector(const Call& call) {
  return call.what == bcast || call.what == Collective::reduce || call.what == allreduce;
}

/// A single 16-byte vector is not divided: one warp of the resident kernel handles such a call.
bool goes_in_parts(const Call& call, uint64_t largest) {
  return largest > sizeof(device::kernel::Vec16) && has_vector(call) &&
         largest * static_cast<uint64_t>(call.size - 1) > value_for(call, crossover::one_shot_max);
}

uint32_t clamped(uint64_t wanted, uint64_t most) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 1, most));
}

/// Plans a call with the LL or LL128 protocol.
void plan_ll(Plan& plan, Protocol protocol, uint64_t largest, uint32_t size, uint32_t parts,
             const RegionCapacity& capacity, size_t max_blocks) {
  const uint64_t vectors = device::kernel::vec16_count(largest), all = parts > 1 ? vectors : vectors * size;
  const bool use_ll128 = protocol == Protocol::ll128;
  const size_t most = use_ll128 ? kLL128MaxBlocks : kLLMaxBlocks;
  plan.protocol = protocol;
  plan.threads =
      all <= 128 && !use_ll128 ? 128 : KernelCollective::kThreads;  // LL128 needs a warp for each rank
  plan.blocks =
      clamped(all / plan.threads, limited(max_blocks == 0 ? most : max_blocks, capacity.max_blocks));
}

void plan_simple(Plan& plan, uint64_t largest, uint32_t size, uint32_t parts, const RegionCapacity& region,
                 size_t max_blocks) {
  const uint64_t each = (largest + parts - 1) / parts;  // bytes to one rank
  plan.protocol = Protocol::simple;
  const size_t most = max_blocks != 0 ? max_blocks : largest < kManyBlocksMinBytes ? 64 : 128;
  plan.blocks = clamped(each / kMinBytesPerBlock, limited(most, region.max_blocks));
  plan.threads = threads_for(plan.blocks);
  constexpr uint64_t kChunkAlignment = 128;
  const uint64_t wanted =
      ((each + plan.blocks - 1) / plan.blocks + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
  const uint64_t capacity = region.simple /
                            RegionLayout::simple_bytes(plan.collective.form, 1, plan.blocks, size) /
                            kChunkAlignment * kChunkAlignment;
  const uint64_t chunk_bytes = std::clamp(wanted, kChunkAlignment, capacity);
  plan.collective.chunk_bytes = static_cast<uint32_t>(chunk_bytes);
  const uint64_t round_bytes = chunk_bytes * plan.blocks * parts;
  plan.collective.rounds = static_cast<uint32_t>((largest + round_bytes - 1) / round_bytes);
}

}  // namespace

uint32_t threads_for(uint32_t blocks) {
  return blocks > 128 ? KernelCollective::kThreads / 2 : KernelCollective::kThreads;
}

bool moves_parts(Collective what) {
  switch (what) {
    case gather:
    case gatherv:
    case scatter:
    case scatterv:
    case allgather:
    case allgatherv:
    case alltoall:
    case alltoallv:
    case alltoallw:
      return true;
    default:
      return false;
  }
}

bool supports(const Call& call) {
  if (value_for(call, enabled) != 0 || call.size < 2 ||
      call.size > static_cast<int>(KernelCollective::kRanks) || call.inter())
    return false;
  if (moves_parts(call.what)) return true;
  switch (call.what) {
    case bcast:
    case neighbor_allgather:
    case neighbor_allgatherv:
    case neighbor_alltoall:
    case neighbor_alltoallv:
    case neighbor_alltoallw:
      return true;
    case Collective::reduce:
    case allreduce:
    case reduce_scatter_block:
    case reduce_scatter:
    case scan:
    case exscan:
      return has_kernel(call);
    default:
      return false;
  }
}

namespace {

/// Equal on all ranks, since the protocol depends on it; only the root knows whether the call is in place.
bool uses_doorbell(const Call& call, uint64_t largest) {
  const bool parts = goes_in_parts(call, largest);
  const uint64_t each = parts ? largest / static_cast<uint64_t>(call.size) : largest;
  const uint64_t times = call.size == 2 || call.what == allgather || call.what == allgatherv ? 2 : 1;
  return (shape_of(call) || shape_of_even(call.what)) &&
         each <= times * value_for(call, crossover::doorbell_max);
}

/// A call with blocks of different sizes as a regular one, if its blocks on this rank are those of one; peers
/// need not know, since the messages are the same.
std::optional<device::kernel::Regular> even_form(const Call& call, const KernelCollective& c,
                                                 uint64_t bytes) {
  const auto shape = shape_of_even(call.what);
  if (!shape || call.in_place) return {};
  const auto root = static_cast<size_t>(call.root);
  device::kernel::Regular form{};
  form.shape = *shape;
  form.root = static_cast<uint32_t>(call.root);
  form.in = c.send[*shape == Shape::gather ? root : 0].address;
  form.out = c.recv[*shape == Shape::scatter ? root : 0].address;
  form.bytes = bytes;
  const auto same = [](const KernelCollective::Message& a, const KernelCollective::Message& b) {
    return a.bytes == b.bytes && (a.bytes == 0 || a.address == b.address);
  };
  for (uint32_t peer = 0; peer < c.size; ++peer) {
    const auto messages = form.messages(c.rank, peer);
    if (!same(messages.send, c.send[peer]) || !same(messages.recv, c.recv[peer])) return {};
  }
  return form;
}

/// The root of an in-place scatter must not write its own block: a launched kernel leaves that block alone.
bool must_launch(const Call& call) { return call.in_place && call.what == scatter; }

/// Blocks of the resident kernel for a call.
uint32_t doorbell_blocks(const Call& call, uint64_t largest) {
  const uint64_t all = largest * static_cast<uint64_t>(call.size);
  return all <= kOneBlockMaxBytes    ? 1
         : all <= kFewBlocksMaxBytes ? device::kernel::ResidentKernelParams::kBlocks
                                     : device::kernel::ResidentKernelParams::kMostBlocks;
}

}  // namespace

bool kernels_faster(const Call& call, uint64_t largest, Layouts layouts) {
  if (layouts != Layouts::contiguous) {
    if (!supports_layouts(call) || largest > kMostLayoutBytes) return false;
    if (moves_layouts_by_pairs(call, largest, layouts)) return true;
    if (!moves_layouts_by_blocks(call)) return false;
    // Tables of runs are packed into chunks at any size, which copy engines outdo for large messages.
    // Messages of a large broadcast are forwarded, and between two ranks its sender does not wait.
    const bool small = largest <= value_for(call, crossover::movement_max);
    if (call.what == Collective::bcast) return call.size > 2 && small;
    return small || layouts != Layouts::tables;
  }
  if (call.what == Collective::bcast)  // between two ranks a message is faster: its sender does not wait
    return call.size > 2 || (uses_doorbell(call, largest) && doorbell_blocks(call, largest) == 1);
  return call.op != nullptr ||
         largest <= value_for(call, call.size == 2 ? crossover::pair_max : crossover::movement_max);
}

Plan make_plan(const Call& call, uint64_t largest, const RegionCapacity& capacity) {
  Plan plan;
  const bool parts = goes_in_parts(call, largest);
  plan.collective = messages_of(call, parts);
  const uint32_t size = plan.collective.size;
  const bool vector = has_vector(call);
  const size_t blocks = value_for(call, max_blocks_setting);
  const uint64_t most = value_for(call, vector ? crossover::ll_max : crossover::ll_movement_max);
  const uint64_t sent = vector ? largest : largest * (size - 1);
  // A single source has no part.
  const uint32_t count = !parts ? 1 : call.what == bcast ? size - 1 : size;
  const uint64_t each = parts ? (largest + count - 1) / count + 16 : largest;
  const bool doorbell = uses_doorbell(call, largest);
  const bool use_ll128 = sent >= value_for(call, crossover::ll128_min) &&
                         sent <= value_for(call, crossover::ll128_max) &&
                         largest > sizeof(device::kernel::Vec16) && each <= capacity.ll128;
  const bool use_ll = (sent <= most || (doorbell && capacity.resident_running)) && each <= capacity.ll;
  if (use_ll128 || use_ll)
    plan_ll(plan, use_ll128 ? Protocol::ll128 : Protocol::ll, largest, size, count, capacity, blocks);
  else
    plan_simple(plan, largest, size, count, capacity, blocks);
  if (const uint64_t bytes = in_place_staging_bytes(call); bytes != 0) {
    plan.memory = call.recv.memory;
    plan.staged_output = plan.collective.recv[0];
  }
  // Some ranks may ring the doorbell and others launch, so both use the same protocol.
  if (!doorbell || must_launch(call) || (!use_ll128 && each > capacity.ll)) return plan;
  const auto shape = shape_of(call, parts);
  const auto form = shape ? regular_form(call, *shape) : even_form(call, plan.collective, largest);
  if (!form) return plan;
  plan.doorbell_blocks = doorbell_blocks(call, largest);
  if (plan.protocol != Protocol::simple) plan.command = form;
  return plan;
}

namespace {

/// Fills in the blocks of a plan, or why this rank cannot run it.
template <class Blocks>
void set_blocks(Plan& plan, std::unique_ptr<Blocks>& to, Result<std::unique_ptr<Blocks>> blocks) {
  if (blocks)
    to = std::move(*blocks);
  else
    plan.unable = std::move(blocks).error();
}

Result<std::unique_ptr<device::kernel::PairBlocks>> pairs_of(const Call& call, const RegionCapacity& capacity,
                                                             const device::Memory& near) {
  auto shapes = block_shapes(call, near);
  if (!shapes) return std::move(shapes).error();
  RegionCapacity of_pairs = capacity;
  of_pairs.ll = std::min<uint64_t>(capacity.ll, value_for(call, crossover::ll_movement_max));
  return pair_blocks(call, *shapes, of_pairs);
}

}  // namespace

Plan make_layouts_plan(const Call& call, uint64_t largest, Layouts layouts, const RegionCapacity& capacity,
                       const device::Memory& near) {
  Plan plan;
  if (moves_layouts_by_pairs(call, largest, layouts) &&
      most_pair_blocks(capacity.max_blocks, call.size) != 0) {
    set_blocks(plan, plan.pairs, pairs_of(call, capacity, near));
    return plan;
  }
  plan.collective = block_messages_of(call);
  plan_simple(plan, largest, plan.collective.size, 1, capacity, value_for(call, max_blocks_setting));
  set_blocks(plan, plan.layouts, packed_blocks(call, plan.collective, near));
  return plan;
}

}  // namespace weft::coll::gpu
