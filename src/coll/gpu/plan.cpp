// SPDX-License-Identifier: BSD-3-Clause
// Plan: messages of each collective, and the sizes at which the method changes.
#include "coll/gpu/plan.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/config.hpp"
#include "coll/hints.hpp"
#include "device/kernel/copy.hpp"

namespace weft::coll::gpu {
namespace {

using device::Wire;
using device::kernel::Area;
using Collectives = device::kernel::Collective;
using enum Collective;

config::Choice enabled{
    "coll.device",
    0,
    {"on", "off"},
    "blocking collectives on device buffers by kernels, where every rank has a GPU of its own"};
config::Size one_shot_max{
    "coll.device_one_shot_max", 384 << 10, 0, 16 << 20,
    "device buffers: bytes that a rank sends in all up to which every rank sends its whole "
    "vector of a reduction, and the root of a broadcast its, to all others; beyond, a part "
    "to each rank"};
config::Size packets_max{"coll.device_packets_max", 512 << 10, 0, 2 << 20,
                         "device buffers: bytes of a vector up to which it travels in packets with flags "
                         "beside the data, where there is room"};
config::Size message_packets_max{
    "coll.device_message_packets_max", 512 << 10, 0, 2 << 20,
    "device buffers: the same for what a rank sends in all in allgather, alltoall, gather, scatter "
    "and reduce_scatter"};
config::Size lines_min{
    "coll.device_lines_min", 128 << 10, 0, 16 << 20,
    "device buffers: bytes of a vector, or of all that a rank sends, from which data travel "
    "in lines, seven eighths data and a flag, which take less of the links than packets"};
config::Size lines_max{
    "coll.device_lines_max", 2 << 20, 0, 16 << 20,
    "device buffers: bytes of a vector, or of all that a rank sends, up to which data travel "
    "in lines, where there is room; 0: never"};
config::Size bell_max{
    "coll.device_bell_max", 128 << 10, 0, 2 << 20,
    "device buffers: bytes from one rank to another up to which the copier does a call when it is awake, "
    "where there is room for packets; twice as many between two ranks, and of an allgather"};
config::Size moved_max{
    "coll.device_moved_max", 8 << 20, 0, size_t{1} << 40,
    "device buffers: bytes of a block of allgather, alltoall, gather and scatter up to which "
    "kernels move it; beyond, copy engines do"};
config::Size pair_max{"coll.device_pair_max", 768 << 10, 0, size_t{1} << 40,
                      "device buffers: bytes of a block up to which kernels move it between two ranks, of "
                      "which each has one for the other; beyond, it is a message"};
config::Size most_blocks{"coll.device_blocks", 0, 0, Collectives::kBlocks,
                         "blocks of a collective's kernel, at most; 0: by size. More than 128 are of half as "
                         "many threads"};

constexpr uint64_t kFew = 128 << 10;
constexpr uint64_t kAlone = 16 << 10;      // of all ranks, that one block of a copier does well
constexpr uint64_t kMany = 16 << 20;       // bytes of a vector from which 128 blocks are quicker than 64
constexpr size_t kPacketBlocks = 32;       // that packets gain by
constexpr size_t kLineBlocks = 64;         // the same of lines
constexpr uint64_t kBlockBytes = 8 << 10;  // that are worth a block of their own

Collectives::Message message(const p2p::Buffer& buffer) {
  const auto bytes = static_cast<uint64_t>(stream_bytes(buffer));
  if (bytes == 0) return {};
  return {reinterpret_cast<uint64_t>(advance(buffer.address, buffer.type->true_lb())), bytes};
}

bool has_data(const Operand& operand) {
  // Without counts but with types: the w-form of a rank without neighbors.
  if (!operand.counts) return operand.type != nullptr && operand.count * operand.type->size() != 0;
  if (operand.type == nullptr && operand.types == nullptr) return false;
  for (int i = 0; i < operand.blocks; ++i)
    if (!empty(operand.block(i))) return true;
  return false;
}

bool among_neighbors(const Call& call) { return call.what >= neighbor_allgather; }

bool rooted(const Call& call) { return call.rank == call.root; }
bool uses_send(const Call& call) {
  if (call.what == scatter || call.what == scatterv) return rooted(call);
  return call.what != Collective::bcast && !call.in_place;
}
bool uses_recv(const Call& call) {
  switch (call.what) {
    case reduce:
    case gather:
    case gatherv:
      return rooted(call);
    case scatter:
    case scatterv:
      return !call.in_place;
    default:
      return true;
  }
}

using Shape = device::kernel::Regular::Shape;

std::optional<Shape> shape_of(const Call& call, bool parts = false) {
  switch (call.what) {
    case allreduce:
      return parts ? Shape::allreduce_parts : Shape::allreduce;
    case Collective::reduce:
      return parts ? Shape::reduce_parts : Shape::reduce;
    case reduce_scatter_block:
      return Shape::reduce_scatter;
    case scan:
      return Shape::scan;
    case exscan:
      return Shape::exscan;
    case bcast:
      return parts ? Shape::bcast_parts : Shape::bcast;
    case allgather:
      return Shape::allgather;
    case alltoall:
      return Shape::alltoall;
    case gather:
      return Shape::gather;
    case scatter:
      return Shape::scatter;
    default:
      return {};
  }
}

uint64_t first_byte(const Operand& operand) {
  if (operand.type == nullptr) return 0;
  return reinterpret_cast<uint64_t>(advance(operand.address, operand.type->true_lb()));
}

device::kernel::Regular regular_form(const Call& call, Shape shape) {
  device::kernel::Regular result{};
  result.shape = shape;
  result.root = static_cast<uint32_t>(call.root);
  result.bytes = call.what == reduce_scatter_block ? message(call.recv.whole()).bytes : call.bytes;
  result.out = first_byte(call.recv);
  const bool own_block = call.in_place && (shape == Shape::allgather || shape == Shape::gather);
  result.in = own_block ? result.out + result.bytes * static_cast<uint64_t>(call.rank)
              : !uses_send(call) && call.op == nullptr ? result.out
                                                       : first_byte(call.send);
  if (call.op != nullptr) result.reduction = kernel_reduction(call);
  return result;
}

/// The messages of collectives with blocks of different lengths.
class Irregular {
 public:
  Irregular(const Call& call, Collectives& collective) : call_(call), c_(collective) {}
  void make() {
    c_.form = call_.op != nullptr ? Collectives::reduce : Collectives::exchange;
    if (among_neighbors(call_)) return neighbors();
    for (int peer = 0; peer < call_.size; ++peer) between(peer);
  }

 private:
  void send(int to, const p2p::Buffer& buffer) { c_.send[to] = message(buffer); }
  void receive(int from, const p2p::Buffer& buffer) { c_.recv[from] = message(buffer); }
  void between(int peer);
  void neighbors();
  const Call& call_;
  Collectives& c_;
};

/// No process twice among them: see distinct_neighbors().
void Irregular::neighbors() {
  const core::Topology& topology = *call_.comm->topology;
  const bool same = call_.what == neighbor_allgather || call_.what == neighbor_allgatherv;
  for (int i = 0; i < call_.recv.blocks; ++i)
    if (const int from = topology.sources[static_cast<size_t>(i)]; from != p2p::kProcNull)
      receive(from, call_.recv.block(i));
  for (int i = 0; i < call_.send.blocks; ++i)
    if (const int to = topology.destinations[static_cast<size_t>(i)]; to != p2p::kProcNull)
      send(to, same ? call_.send.whole() : call_.send.block(i));
}

void Irregular::between(int peer) {
  const Operand &in = call_.send, &out = call_.recv;
  switch (call_.what) {
    case gatherv:
      if (peer == call_.root && !call_.in_place) send(peer, in.whole());
      if (rooted(call_)) receive(peer, out.block(peer));
      return;
    case scatterv:
      if (rooted(call_)) send(peer, in.block(peer));
      if (peer == call_.root && !call_.in_place) receive(peer, out.whole());
      return;
    case allgatherv:
      send(peer, call_.in_place ? out.block(call_.rank) : in.whole());
      return receive(peer, out.block(peer));
    case alltoallv:
    case alltoallw:
      send(peer, call_.in_place ? out.block(peer) : in.block(peer));
      return receive(peer, out.block(peer));
    default: {  // reduce_scatter
      int64_t first = 0;
      for (int before = 0; before < peer; ++before) first += out.counts[before];
      send(peer, in.part(first, out.counts[peer]));
      return receive(peer, out.part(0, out.counts[call_.rank]));
    }
  }
}

void make_messages(const Call& call, Collectives& collective, bool parts) {
  const auto rank = static_cast<uint32_t>(call.rank);
  if (const auto shape = shape_of(call, parts)) {
    const device::kernel::Regular all = regular_form(call, *shape);
    for (uint32_t peer = 0; peer < collective.size; ++peer) all.messages(collective, peer);
  } else {
    Irregular(call, collective).make();
  }
  // In place, a rank's own block is where it belongs.
  if (call.in_place && call.op == nullptr) collective.send[rank] = collective.recv[rank] = {};
}

bool has_vector(const Call& call) {
  return call.what == bcast || call.what == Collective::reduce || call.what == allreduce;
}

/// A granule is not divided: those calls are for one warp of a copier.
bool goes_in_parts(const Call& call, uint64_t largest) {
  return largest > sizeof(device::kernel::Granule) && has_vector(call) &&
         largest * static_cast<uint64_t>(call.size - 1) > value_for(call, one_shot_max);
}

uint32_t upto(uint64_t wanted, uint64_t most) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 1, most));
}

/// With flags beside the data: by packets, or by lines.
void by_flags(Plan& plan, Wire wire, uint64_t largest, uint32_t size, uint32_t parts, size_t max_blocks) {
  const uint64_t granules = device::kernel::granules(largest), all = parts > 1 ? granules : granules * size;
  const bool lines = wire == Wire::lines;
  const size_t most = lines ? kLineBlocks : kPacketBlocks;
  plan.wire = wire;
  plan.threads = all <= 128 && !lines ? 128 : Collectives::kThreads;  // lines: a warp for each rank
  plan.blocks = upto(all / plan.threads, max_blocks == 0 ? most : max_blocks);
}

void by_blocks(Plan& plan, uint64_t largest, uint32_t size, uint32_t parts, size_t max_blocks,
               uint64_t pieces) {
  const uint64_t each = (largest + parts - 1) / parts;  // what goes to one rank
  plan.wire = Wire::blocks;
  const size_t most = max_blocks != 0 ? max_blocks : largest < kMany ? 64 : 128;
  plan.blocks = upto(each / kBlockBytes, most);
  plan.threads = threads_for(plan.blocks);
  constexpr uint64_t kGrain = 128;
  const uint64_t wanted = ((each + plan.blocks - 1) / plan.blocks + kGrain - 1) / kGrain * kGrain;
  const uint64_t room = pieces / Area::data(plan.collective.form, 1, plan.blocks, size) / kGrain * kGrain;
  const uint64_t piece = std::clamp(wanted, kGrain, room);
  plan.collective.piece = static_cast<uint32_t>(piece);
  const uint64_t a_round = piece * plan.blocks * parts;
  plan.collective.rounds = static_cast<uint32_t>((largest + a_round - 1) / a_round);
}

}  // namespace

device::kernel::Reduction kernel_reduction(const Call& call) {
  const auto basic = call.recv.type != nullptr ? call.recv.type->basic() : call.send.type->basic();
  return basic ? device::kernel::reduction_of(call.op->kind, *basic) : device::kernel::Reduction{};
}

bool computed(const Call& call) { return !call.op->user && kernel_reduction(call).defined(); }

uint32_t threads_for(uint32_t blocks) {
  return blocks > 128 ? Collectives::kThreads / 2 : Collectives::kThreads;
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
      return true;
    default:
      return false;
  }
}

bool suits(const Call& call) {
  if (value_for(call, enabled) != 0 || call.size < 2 || call.size > static_cast<int>(Collectives::kRanks) ||
      call.inter())
    return false;
  if (moves_parts(call.what)) return true;
  switch (call.what) {
    case bcast:
    case alltoallw:
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
      return computed(call);
    default:
      return false;
  }
}

namespace {

/// A kernel has one message for each process.
bool distinct_neighbors(const Call& call) {
  const core::Topology& topology = *call.comm->topology;
  for (const std::vector<int>* edges : {&topology.sources, &topology.destinations}) {
    uint32_t seen = 0;
    for (const int peer : *edges) {
      if (peer == p2p::kProcNull) continue;
      if ((seen >> peer & 1u) != 0) return false;
      seen |= 1u << peer;
    }
  }
  return true;
}

/// Looks at operands one after the other: all are of one side, and of one GPU.
class Surveyor {
 public:
  void look(const Operand& operand) {
    if (operand.types == nullptr) return see(operand.classified, operand.memory, operand.type->contiguous());
    for (int i = 0; i < operand.blocks; ++i) {
      const p2p::Buffer block = operand.block(i);
      if (empty(block)) continue;
      see(true, device::classify(advance(block.address, block.type->true_lb())), block.type->contiguous());
    }
  }
  [[nodiscard]] const Place& found() const { return found_; }

 private:
  void see(bool known, const device::Memory& memory, bool contiguous) {
    Side here = Side::host;
    if (!known)
      here = Side::other;
    else if (memory.on_device())
      here = contiguous && one_gpu(memory) ? Side::device : Side::other;
    if (here == Side::device && found_.side == Side::nothing) found_.memory = memory;
    found_.side = found_.side == Side::nothing || found_.side == here ? here : Side::other;
  }
  [[nodiscard]] bool one_gpu(const device::Memory& memory) const {
    const device::Memory& first = found_.memory;
    return found_.side != Side::device ||
           (memory.device == first.device &&
            (memory.context == first.context || memory.context == nullptr || first.context == nullptr));
  }
  Place found_;
};

}  // namespace

Place place_of(const Call& call) {
  if (among_neighbors(call) && !distinct_neighbors(call)) return {Side::other, {}};
  Surveyor surveyor;
  if (uses_send(call) && has_data(call.send)) surveyor.look(call.send);
  if (uses_recv(call) && has_data(call.recv)) surveyor.look(call.recv);
  return surveyor.found();
}

bool regular(const Call& call) { return shape_of(call).has_value(); }

Collectives messages_of(const Call& call, bool parts) {
  Collectives collective{};
  collective.rank = static_cast<uint32_t>(call.rank);
  collective.size = static_cast<uint32_t>(call.size);
  make_messages(call, collective, parts);
  if (call.op != nullptr) collective.reduction = kernel_reduction(call);
  return collective;
}

Amounts amounts_of(const Call& call) {
  const Collectives collective = messages_of(call, false);
  Amounts amounts;
  for (uint32_t rank = 0; rank < Collectives::kRanks; ++rank) {
    amounts.sent[rank] = collective.send[rank].bytes;
    amounts.awaited[rank] = collective.recv[rank].bytes;
  }
  return amounts;
}

uint64_t largest_message(const Call& call, const Amounts& amounts) {
  if (regular(call)) return call.what == reduce_scatter_block ? message(call.recv.whole()).bytes : call.bytes;
  return std::max(*std::max_element(amounts.sent, amounts.sent + call.size),
                  *std::max_element(amounts.awaited, amounts.awaited + call.size));
}

uint64_t bytes_aside(const Call& call) {
  if (call.what != reduce_scatter || !call.in_place) return 0;
  return static_cast<uint64_t>(call.recv.counts[call.rank] * call.recv.type->size());
}

namespace {

/// Equal on all ranks, since the wire depends on it: only the root knows whether it is in place.
bool rings(const Call& call, uint64_t largest) {
  const bool parts = goes_in_parts(call, largest);
  const uint64_t each = parts ? largest / static_cast<uint64_t>(call.size) : largest;
  const uint64_t times = call.size == 2 || call.what == allgather ? 2 : 1;
  return shape_of(call) && each <= times * value_for(call, bell_max);
}

/// The root's own block of a scatter in place lies in a buffer that is not to be written: it has to launch.
bool has_to_launch(const Call& call) { return call.in_place && call.what == scatter; }

/// Blocks of a copier.
uint32_t bells(const Call& call, uint64_t largest) {
  const uint64_t all = largest * static_cast<uint64_t>(call.size);
  return all <= kAlone ? 1
         : all <= kFew ? device::kernel::Copier::kBlocks
                       : device::kernel::Copier::kMostBlocks;
}

}  // namespace

bool pays(const Call& call, uint64_t largest) {
  if (call.what == Collective::bcast)  // between two ranks it is one message, whose sender does not wait
    return call.size > 2 || (rings(call, largest) && bells(call, largest) == 1);
  return call.op != nullptr || largest <= value_for(call, call.size == 2 ? pair_max : moved_max);
}

Plan make_plan(const Call& call, uint64_t largest, const Room& room) {
  Plan plan;
  const bool parts = goes_in_parts(call, largest);
  plan.collective = messages_of(call, parts);
  const uint32_t size = plan.collective.size;
  const bool vector = has_vector(call);
  const size_t blocks = value_for(call, most_blocks);
  const uint64_t most = value_for(call, vector ? packets_max : message_packets_max);
  const uint64_t sent = vector ? largest : largest * (size - 1);
  // The only source of a vector has no part.
  const uint32_t count = !parts ? 1 : call.what == bcast ? size - 1 : size;
  const uint64_t each = parts ? (largest + count - 1) / count + 16 : largest;
  const bool bell = rings(call, largest);
  const bool lines = sent >= value_for(call, lines_min) && sent <= value_for(call, lines_max) &&
                     largest > sizeof(device::kernel::Granule) && each <= room.lines;
  const bool packets = (sent <= most || (bell && room.awake)) && each <= room.packets;
  if (lines || packets)
    by_flags(plan, lines ? Wire::lines : Wire::packets, largest, size, count, blocks);
  else
    by_blocks(plan, largest, size, count, blocks, room.pieces);
  if (const uint64_t bytes = bytes_aside(call); bytes != 0) {
    plan.memory = call.recv.memory;
    plan.aside = plan.collective.recv[0];
  }
  // Some ranks may ring and others launch, so both go by the same wire.
  if (!bell || has_to_launch(call) || (!lines && each > room.packets)) return plan;
  plan.bells = bells(call, largest);
  if (plan.wire != Wire::blocks) plan.small = regular_form(call, *shape_of(call, parts));
  return plan;
}

}  // namespace weft::coll::gpu
