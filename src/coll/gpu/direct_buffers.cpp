// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/direct_buffers.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/config.hpp"
#include "base/log.hpp"
#include "coll/gpu/region_pool.hpp"
#include "coll/schedule/crossovers.hpp"
#include "coll/schedule/hints.hpp"
#include "core/memory_registry.hpp"

namespace weft::coll::gpu {
namespace {

using device::kernel::Range;
using transport::cuda_ipc::Region;
using KernelCollective = device::kernel::Collective;
using Kernel = device::kernel::Direct;
using enum Collective;

config::Choice enabled{"coll.gpu_direct",
                       0,
                       {"on", "off"},
                       "Large blocking collectives on device buffers access the mapped buffers of the other "
                       "ranks directly; off: they copy through regions or send messages."};
config::Size chunk_bytes{
    "coll.gpu_direct_chunk_bytes", 16 << 10, 512, 16 << 20,
    "Largest chunk in bytes that a block of a coll.gpu_direct kernel moves to one rank before "
    "it continues with the next rank."};
config::Size max_blocks{
    "coll.gpu_direct_max_blocks", 0, 0, KernelCollective::kBlocks,
    "Most thread blocks of a coll.gpu_direct kernel; 0: chosen by collective. With more than "
    "128, blocks have half as many threads."};

log::SlowPath refused{
    "coll.gpu_direct_refused",
    "large collectives on GPU memory copy through regions or send messages, up to 1.5 times as long"};

bool one_vector(const Call& call) {
  return call.what == bcast || call.what == Collective::reduce || call.what == allreduce;
}

/// Returns whether ranks store into each other's buffers.
bool stores_remotely(const Call& call) {
  return call.what != reduce_scatter && call.what != reduce_scatter_block;
}

constexpr uint64_t kLeastChunks = 8;  // of a thread block and a peer, so that the links are busy evenly

// Of strided blocks, whose addresses take time: with 64, transposes on four H200 take 1.2 times as long.
constexpr uint64_t kMaxStoringBlocks = 128;

/// Fastest block counts on four H200. Reductions that store only locally push in lockstep; two blocks per
/// multiprocessor hide each other's stalls.
uint64_t default_max_blocks(const Call& call) {
  if (call.what == alltoall || call.what == alltoallv || call.what == alltoallw) return 64;
  return stores_remotely(call) ? 128 : 256;
}

/// The setting, or else `by_default`; at most `limit`.
uint64_t most_blocks(const Call& call, uint64_t by_default, uint32_t limit) {
  const uint64_t set = value_for(call, max_blocks);
  return limited(set != 0 ? set : by_default, limit);
}

/// Part `rank` of a vector.
KernelCollective::Message part_of(const KernelCollective& c, const KernelCollective::Message& vector,
                                  uint32_t rank) {
  const Range part = device::kernel::part(c, rank);
  const Range bytes = device::kernel::within(16 * part.first, 16 * part.count, c.send[0].bytes);
  return vector.bytes == 0 ? vector : KernelCollective::Message{vector.address + bytes.first, bytes.count};
}

/// The part of this rank's output that rank `peer` stores.
KernelCollective::Message out_of(const Call& call, const KernelCollective& c, uint32_t peer) {
  if (c.form != KernelCollective::two_shot) return c.recv[peer];
  return call.what == bcast ? c.recv[0] : part_of(c, c.recv[0], peer);
}

bool overwrites_input(const Call& call) {
  return call.in_place && (call.what == alltoall || call.what == alltoallv || call.what == alltoallw ||
                           call.what == reduce_scatter);
}

uint32_t div_ceil(uint64_t dividend, uint64_t divisor) {
  return static_cast<uint32_t>((dividend + divisor - 1) / divisor);
}

/// Chooses chunks such that a few rounds are in flight, within `capacity`.
void plan_reduction_chunks(Plan& plan, uint64_t largest, uint64_t most_blocks, uint64_t most_bytes,
                           uint64_t capacity) {
  constexpr uint64_t kBlockBytes = 8 << 10, kChunkAlignment = 128;
  KernelCollective& c = plan.collective;
  plan.blocks = static_cast<uint32_t>(std::clamp<uint64_t>(largest / kBlockBytes, 1, most_blocks));
  const uint64_t wanted =
      div_ceil(div_ceil(largest, plan.blocks), kChunkAlignment * Kernel::kSlots) * kChunkAlignment;
  const uint64_t most = std::min(most_bytes, capacity / Kernel::chunk_slots_bytes(1, plan.blocks, c.size)) /
                        kChunkAlignment * kChunkAlignment;
  c.chunk_bytes = static_cast<uint32_t>(std::clamp(wanted, kChunkAlignment, most));
  c.rounds = div_ceil(largest, uint64_t{c.chunk_bytes} * plan.blocks);
}

/// Converts a call to the kernel's form: two_shot means broadcast there.
void to_direct_form(const Call& call, KernelCollective& c) {
  if (c.form == KernelCollective::exchange) return;
  if (call.op == nullptr) {
    c.targets &= ~c.sources;
  } else if (c.form == KernelCollective::two_shot) {
    c.recv[0] = {out_of(call, c, c.rank).address, part_of(c, c.send[0], c.rank).bytes};
    const KernelCollective parts = c;
    for (uint32_t rank = 0; rank < c.size; ++rank) c.send[rank] = part_of(parts, parts.send[0], rank);
    c.form = KernelCollective::reduce;
  } else {
    c.targets = 1u << c.rank;
  }
}

/// Between two ranks, pure data movement is one message each way, which copy engines handle. A limit of 0
/// enables direct buffers regardless.
bool is_one_message(const Call& call) {
  return call.size == 2 && moves_parts(call.what) && value_for(call, crossover::direct_min) != 0;
}

/// Reductions other than sums of floats are faster through regions (docs/adr/0011).
uint64_t min_bytes_of_reduction(const Call& call) {
  return kernel_reduction(call).float_sum() ? value_for(call, crossover::direct_reduce_min) : UINT64_MAX;
}

/// Published by each rank: whether it has mapped what it stores to; a later one decides.
enum class Outcome : uint8_t { mapped, not_yet, failed };

Outcome outcome_of(const Status& able) {
  if (able.ok()) return Outcome::mapped;
  return able.error().code() == Errc::again ? Outcome::not_yet : Outcome::failed;
}

}  // namespace

Error not_mapped_yet() { return Error(Errc::again, "the buffers of other ranks are not mapped yet"); }

void plan_movement_chunks(Plan& plan, uint64_t most_blocks, uint64_t most_bytes, uint64_t least_chunks) {
  constexpr uint64_t kMinChunkBytes = 4 << 10;
  KernelCollective& c = plan.collective;
  const bool whole = c.form == KernelCollective::two_shot;
  uint64_t bytes = c.send[0].bytes;
  for (uint32_t rank = 0; rank < c.size && !whole; ++rank) bytes = std::max(bytes, c.send[rank].bytes);
  if (whole) bytes = div_ceil(bytes, c.size - 1);
  const uint64_t wanted = std::max<uint64_t>(kMinChunkBytes, div_ceil(bytes, most_blocks * least_chunks));
  c.chunk_bytes = 16 * div_ceil(std::min(wanted, most_bytes), 16);
  c.rounds =
      whole ? div_ceil(div_ceil(c.send[0].bytes, c.chunk_bytes), c.size - 1) : div_ceil(bytes, c.chunk_bytes);
  plan.blocks = std::clamp<uint32_t>(c.rounds, 1, static_cast<uint32_t>(most_blocks));
}

uint64_t most_storing_blocks(const Call& call, uint32_t limit) {
  return most_blocks(call, kMaxStoringBlocks, limit);
}

uint64_t most_chunk_bytes(const Call& call) { return value_for(call, chunk_bytes); }

bool stores_blocks(const Call& call, Layouts layouts) {
  return layouts != Layouts::contiguous || among_neighbors(call);
}

bool wants_direct_buffers(const Call& call, uint64_t largest, Layouts layouts) {
  if (largest == 0 || value_for(call, enabled) != 0) return false;
  const auto ranks = static_cast<uint64_t>(call.size);
  if (stores_blocks(call, layouts)) {
    // A rank publishes strided blocks only. Between two ranks, a contiguous block is one message.
    const bool in_place =
        call.in_place && (call.what == alltoall || call.what == alltoallv || call.what == alltoallw);
    const bool pair = call.size == 2 && layouts == Layouts::contiguous;
    return moves_layouts_by_blocks(call) && supports_layouts(call) &&
           !moves_layouts_by_pairs(call, largest, layouts) && largest <= kMostLayoutBytes &&
           layouts != Layouts::tables && call.what != bcast && !in_place &&
           (!pair || value_for(call, crossover::direct_min) == 0) &&
           largest * (ranks - 1) >= value_for(call, crossover::direct_min);
  }
  if (is_one_message(call)) return false;
  switch (call.what) {
    case bcast:
      return call.size > 2 && largest >= value_for(call, crossover::direct_min);
    case Collective::reduce:
    case allreduce:
      return largest >= min_bytes_of_reduction(call);
    case reduce_scatter_block:
    case reduce_scatter:
      return largest * ranks >= min_bytes_of_reduction(call);
    default:
      return moves_parts(call.what) && largest * (ranks - 1) >= value_for(call, crossover::direct_min);
  }
}

Plan direct_buffers_plan(const Call& call, uint64_t largest, uint64_t capacity, uint32_t limit) {
  Plan plan;
  KernelCollective& c = plan.collective = messages_of(call, one_vector(call));
  const uint64_t part =
      one_vector(call) ? 16 * div_ceil(device::kernel::vec16_count(largest), c.size) : largest;
  to_direct_form(call, c);
  const uint64_t most = most_blocks(call, default_max_blocks(call), limit);
  if (c.form == KernelCollective::reduce)
    plan_reduction_chunks(plan, part, most, value_for(call, chunk_bytes), capacity);
  else
    plan_movement_chunks(plan, most, value_for(call, chunk_bytes), kLeastChunks);
  plan.protocol = device::Protocol::direct;
  plan.threads = threads_for(plan.blocks);
  return plan;
}

/// The range of the receive buffer that other ranks store to.
device::Memory remotely_written_range(const Call& call, const KernelCollective& c) {
  uint64_t low = UINT64_MAX, high = 0;
  for (uint32_t peer = 0; peer < c.size; ++peer) {
    const KernelCollective::Message out = out_of(call, c, peer);
    if (peer == c.rank || out.bytes == 0) continue;
    low = std::min(low, out.address);
    high = std::max(high, out.address + out.bytes);
  }
  if (high == 0) return call.recv.memory;
  const auto* const first = reinterpret_cast<const void*>(low);
  return device::widened(call.recv.classified ? call.recv.memory : device::classify(first), first,
                         high - low);
}

/// Published by each rank: its buffer, and the address for each peer's stores.
struct DirectBuffers::Descriptor {
  uint32_t good;
  Region region;  ///< size 0: no peer stores there
  uint64_t to[KernelCollective::kRanks];
};

Status DirectBuffers::describe(const Call& call, const KernelCollective& c, Descriptor& own) const {
  if (overwrites_input(call))
    return Error(Errc::unsupported, "in place, ranks would overwrite input that others have yet to read");
  const bool gets = stores_remotely(call) && !(call.what == bcast && call.rank == call.root);
  const device::Memory memory = gets ? remotely_written_range(call, c) : call.recv.memory;
  bool any = false;
  for (uint32_t peer = 0; peer < c.size; ++peer) {
    const KernelCollective::Message out = out_of(call, c, peer);
    own.to[peer] = out.address;
    if (peer == c.rank || out.bytes == 0 || !gets) continue;
    if (!memory.on_device() || !memory.covers(reinterpret_cast<const void*>(out.address), out.bytes))
      return Error(Errc::unsupported, "a buffer of this rank is not within one allocation");
    any = true;
  }
  return any ? export_buffer(memory, own.region) : Status();
}

Status DirectBuffers::export_buffer(const device::Memory& memory, Region& region) const {
  comm_.instance.memory->withdraw_freed();
  auto& exporter = comm_.instance.memory->exporter();
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank == comm_.rank()) continue;
    auto exported = exporter.export_region(memory, comm_.process(rank));
    if (!exported) return std::move(exported).error();
    region = *exported->region;
  }
  return {};
}

/// Later messages may refer to the region by its number.
void DirectBuffers::note_remote_region(uint32_t rank, const Region& region) const {
  if (region.size != 0)
    comm_.instance.memory->importer().store_region(comm_.process(static_cast<int>(rank)), region);
}

uint64_t region_extra_ns(uint64_t bytes) {
  constexpr uint64_t kBytesPerNs = 500;
  return bytes / kBytesPerNs;
}

/// Maps the buffers that this rank stores to. Errc::again: for one of them this does not pay yet.
Status DirectBuffers::map(const Call& call, const std::vector<Descriptor>& descriptors,
                          const device::Memory& near, device::kernel::Direct& direct) {
  const KernelCollective& c = direct.call;
  bool pays = true;
  for (uint32_t rank = 0; rank < c.size; ++rank) {
    const Descriptor& descriptor = descriptors[rank];
    const auto peer = comm_.process(static_cast<int>(rank));
    const bool exchange = c.form == KernelCollective::exchange;
    const uint64_t moved = exchange                             ? c.send[rank].bytes
                           : c.form == KernelCollective::reduce ? c.recv[0].bytes
                                                                : c.send[0].bytes;
    if (rank == c.rank) {
      direct.out[rank] = descriptor.to[rank];
      continue;
    }
    if (!stores_remotely(call) || moved == 0 || !(exchange || device::kernel::member(c.targets, rank)))
      continue;
    if (!comm_.instance.memory->mapping_pays(
            {peer, false, descriptor.region.buffer_id}, [&] { return region_extra_ns(moved); },
            core::MappingRule::Alternative::collective)) {
      pays = false;
      continue;
    }
    if (!pays) continue;
    auto mapping = comm_.instance.memory->open(peer, descriptor.region, nullptr, near);
    if (!mapping) return std::move(mapping).error();
    mappings_.push_back(*mapping);
    direct.out[rank] = reinterpret_cast<uint64_t>((*mapping)->at(descriptor.to[c.rank]));
  }
  return pays ? Status() : Status(not_mapped_yet());
}

bool DirectBuffers::prepare(const Call& call, uint64_t largest, const device::Memory& region, uint32_t limit,
                            host::SlotChannel& channel, Plan& plan) {
  const host::Step step = channel.reserve_steps(2);
  const KernelCollective messages = messages_of(call, one_vector(call));
  plan = direct_buffers_plan(call, largest, region_data_bytes(), limit);
  const KernelCollective& c = plan.collective;
  std::vector<Descriptor> descriptors(c.size);
  Descriptor& own = descriptors[c.rank];
  Status able = describe(call, messages, own);
  own.good = able.ok() ? 1 : 0;
  std::memcpy(channel.claim(step, sizeof own), &own, sizeof own);
  channel.publish(step, sizeof own);
  for (uint32_t rank = 0; rank < c.size; ++rank) {
    if (rank == c.rank) continue;
    const auto published = channel.wait_published(static_cast<int>(rank), step);
    if (channel.broken()) return false;
    std::memcpy(&descriptors[rank], published.data, sizeof own);
    note_remote_region(rank, descriptors[rank].region);
    if (descriptors[rank].good == 0 && able.ok())
      able =
          Error(Errc::unsupported, "rank " + std::to_string(rank) + " cannot export its buffer: see its log");
  }
  channel.exchanged(step, step);
  if (able.ok()) able = map(call, descriptors, region, plan.direct.emplace(Kernel{c, {}}));
  return agree(std::move(able), step + 1, channel);
}

bool DirectBuffers::agree(Status able, host::Step step, host::SlotChannel& channel) {
  const Outcome own_outcome = outcome_of(able);
  std::memcpy(channel.claim(step, sizeof own_outcome), &own_outcome, sizeof own_outcome);
  channel.publish(step, sizeof own_outcome);
  for (int rank = 0; rank < comm_.size(); ++rank) {
    Outcome outcome;
    std::memcpy(&outcome, channel.wait_published(rank, step).data, sizeof outcome);
    if (outcome <= outcome_of(able)) continue;
    able =
        outcome == Outcome::not_yet
            ? not_mapped_yet()
            : Error(Errc::unsupported, "rank " + std::to_string(rank) + " cannot map a buffer: see its log");
  }
  channel.exchanged(step, step);
  if (able.ok() && !channel.broken()) return true;
  release();
  if (!channel.broken() && outcome_of(able) == Outcome::failed) refused.hit(able.error().message());
  return false;
}

void DirectBuffers::release() {
  for (auto* mapping : mappings_) comm_.instance.memory->importer().release(mapping);
  mappings_.clear();
}

}  // namespace weft::coll::gpu
