// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/direct.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/config.hpp"
#include "base/log.hpp"
#include "coll/hints.hpp"
#include "p2p/p2p.hpp"

namespace weft::coll::gpu {
namespace {

using device::kernel::Range;
using transport::cuda_ipc::Region;
using Collectives = device::kernel::Collective;
using Kernel = device::kernel::Direct;
using enum Collective;

config::Choice enabled{"coll.device_direct",
                       0,
                       {"on", "off"},
                       "large blocking collectives on device buffers read and write the other ranks' "
                       "buffers, where all can map them"};
config::Size least{"coll.device_direct_min", 2 << 20, 0, size_t{1} << 40,
                   "device buffers: bytes that a rank sends in all from which coll.device_direct counts"};
config::Size least_reduced{"coll.device_direct_reduce_min", 8 << 20, 0, size_t{1} << 40,
                           "the same for reductions, by bytes of a vector"};
config::Size least_other{"coll.device_direct_other_min", size_t{1} << 40, 0, size_t{1} << 40,
                         "the same for reductions other than sums of floats, whose kernels are slower than "
                         "those that go through areas"};
config::Size chunk{
    "coll.device_chunk", 16 << 10, 512, 16 << 20,
    "bytes, at most, that a block of such a kernel moves to one rank before it turns to the next"};
config::Size blocks{
    "coll.device_direct_blocks", 0, 0, Collectives::kBlocks,
    "blocks of such a kernel, at most; 0: by what it does. More than 128 are of half as many threads"};

log::SlowPath refused{
    "coll.device_direct_refused",
    "large collectives on GPU memory go through areas or by messages, up to half as long again"};

bool one_vector(const Call& call) {
  return call.what == bcast || call.what == Collective::reduce || call.what == allreduce;
}

/// Whether ranks store in each other's operands.
bool stores(const Call& call) { return call.what != reduce_scatter && call.what != reduce_scatter_block; }

/// Blocks that were quickest on four H200. Where nothing is stored elsewhere, blocks of a GPU push in step,
/// and two of them fill each other's gaps.
uint64_t usual_blocks(const Call& call) {
  if (call.what == alltoall || call.what == alltoallv) return 64;
  return stores(call) ? 128 : 256;
}

/// Part `rank` of a vector, in bytes.
Collectives::Message part_of(const Collectives& c, const Collectives::Message& vector, uint32_t rank) {
  const Range part = device::kernel::part(c, rank);
  const Range bytes = device::kernel::within(16 * part.first, 16 * part.count, c.send[0].bytes);
  return vector.bytes == 0 ? vector : Collectives::Message{vector.address + bytes.first, bytes.count};
}

/// Where rank `peer` stores in this rank's operands.
Collectives::Message out_of(const Call& call, const Collectives& c, uint32_t peer) {
  if (c.form != Collectives::two_shot) return c.recv[peer];
  return call.what == bcast ? c.recv[0] : part_of(c, c.recv[0], peer);
}

bool overwrites_input(const Call& call) {
  return call.in_place && (call.what == alltoall || call.what == alltoallv || call.what == reduce_scatter);
}

uint32_t pieces(uint64_t bytes, uint64_t piece) { return static_cast<uint32_t>((bytes + piece - 1) / piece); }

/// How far pieces are pushed: a few rounds, where there is room.
void deal_pieces(Plan& plan, uint64_t largest, uint64_t most_blocks, uint64_t most_bytes, uint64_t room) {
  constexpr uint64_t kBlockBytes = 8 << 10, kGrain = 128;
  Collectives& c = plan.collective;
  plan.blocks = static_cast<uint32_t>(std::clamp<uint64_t>(largest / kBlockBytes, 1, most_blocks));
  const uint64_t wanted = pieces(pieces(largest, plan.blocks), kGrain * Kernel::kSets) * kGrain;
  const uint64_t most = std::min(most_bytes, room / Kernel::data(1, plan.blocks, c.size)) / kGrain * kGrain;
  c.piece = static_cast<uint32_t>(std::clamp(wanted, kGrain, most));
  c.rounds = pieces(largest, uint64_t{c.piece} * plan.blocks);
}

/// Chunks that leave a block several of them.
void deal_chunks(Plan& plan, uint64_t most_blocks, uint64_t most_bytes) {
  constexpr uint64_t kLeast = 4 << 10, kTurns = 8;
  Collectives& c = plan.collective;
  const bool whole = c.form == Collectives::two_shot;
  uint64_t bytes = c.send[0].bytes;
  for (uint32_t rank = 0; rank < c.size && !whole; ++rank) bytes = std::max(bytes, c.send[rank].bytes);
  if (whole) bytes = pieces(bytes, c.size - 1);
  const uint64_t wanted = std::max(kLeast, bytes / most_blocks / kTurns);
  c.piece = static_cast<uint32_t>(std::min(wanted, most_bytes) / 16 * 16);
  c.rounds = whole ? pieces(pieces(c.send[0].bytes, c.piece), c.size - 1) : pieces(bytes, c.piece);
  plan.blocks = std::clamp<uint32_t>(c.rounds, 1, static_cast<uint32_t>(most_blocks));
}

/// The call as the kernel is told of it: two_shot is a broadcast there.
void become_direct(const Call& call, Collectives& c) {
  if (c.form == Collectives::exchange) return;
  if (call.op == nullptr) {
    c.targets &= ~c.sources;
  } else if (c.form == Collectives::two_shot) {
    c.recv[0] = {out_of(call, c, c.rank).address, part_of(c, c.send[0], c.rank).bytes};
    const Collectives parts = c;
    for (uint32_t rank = 0; rank < c.size; ++rank) c.send[rank] = part_of(parts, parts.send[0], rank);
    c.form = Collectives::reduce;
  } else {
    c.targets = 1u << c.rank;
  }
}

/// What is only moved between two ranks is one message each way, which copy engines do. (A limit of 0 asks
/// for mapped buffers whatever it costs.)
bool is_message(const Call& call) {
  return call.size == 2 && moves_parts(call.what) && value_for(call, least) != 0;
}

uint64_t least_of_reduction(const Call& call) {
  return value_for(call, kernel_reduction(call).float_sum() ? least_reduced : least_other);
}

}  // namespace

bool wants_direct(const Call& call, uint64_t largest) {
  if (largest == 0 || value_for(call, enabled) != 0 || is_message(call)) return false;
  const auto ranks = static_cast<uint64_t>(call.size);
  switch (call.what) {
    case bcast:
      return call.size > 2 && largest >= value_for(call, least);
    case Collective::reduce:
    case allreduce:
      return largest >= least_of_reduction(call);
    case reduce_scatter_block:
    case reduce_scatter:
      return largest * ranks >= least_of_reduction(call);
    default:
      return moves_parts(call.what) && largest * (ranks - 1) >= value_for(call, least);
  }
}

Plan direct_plan(const Call& call, uint64_t largest, uint64_t room) {
  Plan plan;
  Collectives& c = plan.collective = messages_of(call, one_vector(call));
  const uint64_t part = one_vector(call) ? 16 * pieces(device::kernel::granules(largest), c.size) : largest;
  become_direct(call, c);
  const uint64_t set = value_for(call, blocks), most = set != 0 ? set : usual_blocks(call);
  if (c.form == Collectives::reduce)
    deal_pieces(plan, part, most, value_for(call, chunk), room);
  else
    deal_chunks(plan, most, value_for(call, chunk));
  plan.wire = device::Wire::direct;
  plan.threads = threads_for(plan.blocks);
  return plan;
}

/// Of the receive buffer, what others store to.
device::Memory stored_to(const Call& call, const Collectives& c) {
  uint64_t low = UINT64_MAX, high = 0;
  for (uint32_t peer = 0; peer < c.size; ++peer) {
    const Collectives::Message out = out_of(call, c, peer);
    if (peer == c.rank || out.bytes == 0) continue;
    low = std::min(low, out.address);
    high = std::max(high, out.address + out.bytes);
  }
  if (high == 0) return call.recv.memory;
  return device::widened(call.recv.memory, reinterpret_cast<const void*>(low), high - low);
}

/// What a rank shows the others: its buffer, and where in it each rank stores.
struct Direct::Card {
  uint32_t good;
  Region region;  ///< none: nobody stores there
  uint64_t to[Collectives::kRanks];
};

Status Direct::describe(const Call& call, const Collectives& c, Card& own) const {
  if (overwrites_input(call))
    return Error(Errc::unsupported, "in place, ranks would overwrite what others have yet to read");
  const bool gets = stores(call) && !(call.what == bcast && call.rank == call.root);
  const device::Memory memory = gets ? stored_to(call, c) : call.recv.memory;
  bool shown = false;
  for (uint32_t peer = 0; peer < c.size; ++peer) {
    const Collectives::Message out = out_of(call, c, peer);
    own.to[peer] = out.address;
    if (peer == c.rank || out.bytes == 0 || !gets) continue;
    if (!call.recv.on_device() || !memory.covers(reinterpret_cast<const void*>(out.address), out.bytes))
      return Error(Errc::unsupported, "a buffer of this rank is not within one allocation");
    shown = true;
  }
  return shown ? show(memory, own.region) : Status();
}

Status Direct::show(const device::Memory& memory, Region& region) const {
  p2p::look_for_freed(comm_.instance);
  auto& exporter = p2p::exporter(comm_.instance);
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank == comm_.rank()) continue;
    auto told = exporter.export_region(memory, comm_.process(rank));
    if (!told) return std::move(told).error();
    region = *told->region;
  }
  return {};
}

/// Messages name what was shown before.
void Direct::learn(uint32_t rank, const Region& region) const {
  if (region.size != 0) p2p::importer(comm_.instance).learn(comm_.process(static_cast<int>(rank)), region);
}

/// Where this rank stores.
Status Direct::map(const Call& call, const std::vector<Card>& cards, const device::Memory& near,
                   device::kernel::Direct& direct) {
  const Collectives& c = direct.call;
  auto& importer = p2p::importer(comm_.instance);
  for (uint32_t rank = 0; rank < c.size; ++rank) {
    const Card& card = cards[rank];
    const auto peer = comm_.process(static_cast<int>(rank));
    const bool exchange = c.form == Collectives::exchange;
    const uint64_t moved = exchange                        ? c.send[rank].bytes
                           : c.form == Collectives::reduce ? c.recv[0].bytes
                                                           : c.send[0].bytes;
    if (rank == c.rank) {
      direct.out[rank] = card.to[rank];
      continue;
    }
    if (!stores(call) || moved == 0 || !(exchange || device::kernel::member(c.targets, rank))) continue;
    auto mapping = importer.open(peer, card.region, nullptr, near);
    if (!mapping) return std::move(mapping).error();
    mappings_.push_back(*mapping);
    direct.out[rank] = reinterpret_cast<uint64_t>((*mapping)->at(card.to[c.rank]));
  }
  return {};
}

bool Direct::prepare(const Call& call, uint64_t largest, const device::Memory& area, shared::Channel& channel,
                     Plan& plan) {
  const uint32_t step = channel.begin(2);
  const Collectives messages = messages_of(call, one_vector(call));
  plan = direct_plan(call, largest, area.size - device::kernel::Area::kCleared);
  const Collectives& c = plan.collective;
  std::vector<Card> cards(c.size);
  Card& own = cards[c.rank];
  Status able = describe(call, messages, own);
  own.good = able.ok() ? 1 : 0;
  std::memcpy(channel.claim(step, sizeof own), &own, sizeof own);
  channel.show(step, sizeof own);
  for (uint32_t rank = 0; rank < c.size; ++rank) {
    if (rank == c.rank) continue;
    std::memcpy(&cards[rank], channel.await(static_cast<int>(rank), step).data, sizeof own);
    learn(rank, cards[rank].region);
    if (cards[rank].good == 0 && able.ok())
      able = Error(Errc::unsupported, "rank " + std::to_string(rank) + " cannot: see its log");
  }
  channel.met(step);
  if (able.ok()) able = map(call, cards, area, plan.direct.emplace(Kernel{c, {}}));
  const bool mapped = able.ok();
  std::memcpy(channel.claim(step + 1, sizeof mapped), &mapped, sizeof mapped);
  channel.show(step + 1, sizeof mapped);
  for (uint32_t rank = 0; rank < c.size; ++rank) {
    bool there;
    std::memcpy(&there, channel.await(static_cast<int>(rank), step + 1).data, sizeof there);
    if (!there && able.ok())
      able = Error(Errc::unsupported, "rank " + std::to_string(rank) + " cannot map a buffer: see its log");
  }
  channel.met(step + 1);
  if (able.ok()) return true;
  release();
  refused.hit(able.error().message());
  return false;
}

void Direct::release() {
  for (auto* mapping : mappings_) p2p::importer(comm_.instance).release(mapping);
  mappings_.clear();
}

}  // namespace weft::coll::gpu
