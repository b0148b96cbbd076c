// SPDX-License-Identifier: BSD-3-Clause
// Messages of collectives on device buffers: what each rank sends to and expects from each rank.
#include "coll/gpu/messages.hpp"

#include <algorithm>
#include <vector>

#include "coll/algorithm/neighbor.hpp"
#include "coll/gpu/blocks.hpp"

namespace weft::coll::gpu {
namespace {

using KernelCollective = device::kernel::Collective;
using enum Collective;

KernelCollective::Message message(const p2p::Buffer& buffer) {
  const auto bytes = static_cast<uint64_t>(packed_bytes(buffer));
  if (bytes == 0) return {};
  return {reinterpret_cast<uint64_t>(advance(buffer.address, buffer.type->true_lb())), bytes};
}

bool has_data(const Operand& operand) {
  // Types without counts: alltoallw of a rank without neighbors.
  if (!operand.counts) return operand.type != nullptr && operand.count * operand.type->size() != 0;
  if (operand.type == nullptr && operand.types == nullptr) return false;
  for (int i = 0; i < operand.blocks; ++i)
    if (!empty(operand.block(i))) return true;
  return false;
}

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

uint64_t first_byte(const Operand& operand) {
  if (operand.type == nullptr) return 0;
  return reinterpret_cast<uint64_t>(advance(operand.address, operand.type->true_lb()));
}

}  // namespace

std::optional<Shape> shape_of(const Call& call, bool parts) {
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

std::optional<Shape> shape_of_even(Collective what) {
  switch (what) {
    case alltoallv:
    case alltoallw:
      return Shape::alltoall;
    case allgatherv:
      return Shape::allgather;
    case gatherv:
      return Shape::gather;
    case scatterv:
      return Shape::scatter;
    default:
      return {};
  }
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

namespace {

/// The messages of irregular collectives (blocks of different sizes).
class Irregular final : public BlockSink {
 public:
  explicit Irregular(KernelCollective& collective) : c_(collective) {}
  void send(int to, const p2p::Buffer& block) override { add(c_.send[to], block); }
  void receive(int from, const p2p::Buffer& block) override { add(c_.recv[from], block); }

 private:
  static void add(KernelCollective::Message& all, const p2p::Buffer& block) {
    const KernelCollective::Message next = message(block);
    if (all.bytes == 0)
      all = next;
    else if (next.bytes != 0)
      all.bytes = (all.bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment + next.bytes;
  }
  KernelCollective& c_;
};

/// Visits the blocks between this rank and rank `peer`.
void visit_between(const Call& call, int peer, BlockSink& sink) {
  const Operand &in = call.send, &out = call.recv;
  switch (call.what) {
    case Collective::bcast:
      if (rooted(call)) {
        if (peer != call.root) sink.send(peer, out.whole());
      } else if (peer == call.root) {
        sink.receive(peer, out.whole());
      }
      return;
    case gather:
    case gatherv:
      if (peer == call.root && !call.in_place) sink.send(peer, in.whole());
      if (rooted(call)) sink.receive(peer, out.block(peer));
      return;
    case scatter:
    case scatterv:
      if (rooted(call)) sink.send(peer, in.block(peer));
      if (peer == call.root && !call.in_place) sink.receive(peer, out.whole());
      return;
    case allgather:
    case allgatherv:
      sink.send(peer, call.in_place ? out.block(call.rank) : in.whole());
      return sink.receive(peer, out.block(peer));
    case alltoall:
    case alltoallv:
    case alltoallw:
      sink.send(peer, call.in_place ? out.block(peer) : in.block(peer));
      return sink.receive(peer, out.block(peer));
    default: {  // reduce_scatter
      int64_t first = 0;
      for (int before = 0; before < peer; ++before) first += out.counts[before];
      sink.send(peer, in.part(first, out.counts[peer]));
      return sink.receive(peer, out.part(0, out.counts[call.rank]));
    }
  }
}

void visit_neighbors(const Call& call, BlockSink& sink) {
  algorithm::for_each_source(call,
                             [&](int source, const p2p::Buffer& block) { sink.receive(source, block); });
  algorithm::for_each_destination(call, [&](int dest, const p2p::Buffer& block) { sink.send(dest, block); });
}

void make_messages(const Call& call, KernelCollective& collective, bool parts) {
  const auto rank = static_cast<uint32_t>(call.rank);
  if (const auto shape = shape_of(call, parts)) {
    const device::kernel::Regular all = regular_form(call, *shape);
    for (uint32_t peer = 0; peer < collective.size; ++peer) all.messages(collective, peer);
  } else {
    collective.form = call.op != nullptr ? KernelCollective::reduce : KernelCollective::exchange;
    Irregular messages(collective);
    visit_blocks(call, messages);
  }
  // In place, the rank's own block needs no copy.
  if (call.in_place && call.op == nullptr) collective.send[rank] = collective.recv[rank] = {};
}

}  // namespace

void visit_blocks(const Call& call, BlockSink& sink) {
  if (among_neighbors(call)) return visit_neighbors(call, sink);
  for (int peer = 0; peer < call.size; ++peer) {
    // In place, the rank's own block needs no copy.
    if (peer == call.rank && call.in_place && call.op == nullptr) continue;
    visit_between(call, peer, sink);
  }
}

device::kernel::Reduction kernel_reduction(const Call& call) {
  const auto basic = call.recv.type != nullptr ? call.recv.type->basic() : call.send.type->basic();
  if (!basic) return {};
  return device::kernel::reduction_of(call.op->kind, datatype::reduction_type(*basic));
}

bool has_kernel(const Call& call) { return !call.op->user && kernel_reduction(call).defined(); }

namespace {

/// Returns whether there is at most one message from and to each process.
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

/// Visits operands and checks that all have one location and one GPU context.
class OperandSurvey {
 public:
  void add(const Operand& operand) {
    if (operand.types == nullptr)
      return add_operand(operand.classified, operand.memory, operand.type->contiguous());
    device::Memory memory;  // of the block before: most blocks lie in one allocation
    for (int i = 0; i < operand.blocks; ++i) {
      const p2p::Buffer block = operand.block(i);
      if (empty(block)) continue;
      const void* const first = advance(block.address, block.type->true_lb());
      if (!memory.on_device() || !memory.covers(first, 1)) memory = device::classify(first);
      add_operand(true, memory, block.type->contiguous());
    }
  }
  [[nodiscard]] const Operands& found() const { return result_; }

 private:
  void add_operand(bool known, const device::Memory& memory, bool contiguous) {
    Location here = Location::host;
    if (!known)
      here = Location::other;
    else if (memory.on_device())
      here = one_gpu(memory) ? Location::device : Location::other;
    if (here == Location::device && !contiguous) result_.layouts = Layouts::strided;
    if (here == Location::device && result_.location == Location::nothing) result_.memory = memory;
    result_.location =
        result_.location == Location::nothing || result_.location == here ? here : Location::other;
  }
  [[nodiscard]] bool one_gpu(const device::Memory& memory) const {
    const device::Memory& first = result_.memory;
    return result_.location != Location::device ||
           (memory.device == first.device &&
            (memory.context == first.context || memory.context == nullptr || first.context == nullptr));
  }
  Operands result_;
};

}  // namespace

Operands locate_operands(const Call& call) {
  OperandSurvey survey;
  if (uses_send(call) && has_data(call.send)) survey.add(call.send);
  if (uses_recv(call) && has_data(call.recv)) survey.add(call.recv);
  Operands found = survey.found();
  if (found.location != Location::device) return found;
  if (among_neighbors(call) && !distinct_neighbors(call)) found.layouts = Layouts::strided;
  if (found.layouts == Layouts::contiguous) return found;
  const std::optional<Layouts> movable = movable_layouts(call, found.memory);
  if (movable)
    found.layouts = *movable;
  else
    found.location = Location::other;
  return found;
}

bool regular(const Call& call) { return shape_of(call).has_value(); }

KernelCollective messages_of(const Call& call, bool parts) {
  KernelCollective collective{};
  collective.rank = static_cast<uint32_t>(call.rank);
  collective.size = static_cast<uint32_t>(call.size);
  make_messages(call, collective, parts);
  if (call.op != nullptr) collective.reduction = kernel_reduction(call);
  return collective;
}

KernelCollective block_messages_of(const Call& call) {
  KernelCollective collective{};
  collective.rank = static_cast<uint32_t>(call.rank);
  collective.size = static_cast<uint32_t>(call.size);
  collective.form = KernelCollective::exchange;
  Irregular messages(collective);
  visit_blocks(call, messages);
  return collective;
}

Amounts amounts_of(const Call& call) {
  const KernelCollective collective = messages_of(call, false);
  Amounts amounts;
  for (uint32_t rank = 0; rank < KernelCollective::kRanks; ++rank) {
    amounts.sent[rank] = collective.send[rank].bytes;
    amounts.expected[rank] = collective.recv[rank].bytes;
  }
  return amounts;
}

uint64_t largest_message(const Call& call, const Amounts& amounts) {
  if (regular(call)) return call.what == reduce_scatter_block ? message(call.recv.whole()).bytes : call.bytes;
  return std::max(*std::max_element(amounts.sent, amounts.sent + call.size),
                  *std::max_element(amounts.expected, amounts.expected + call.size));
}

uint64_t in_place_staging_bytes(const Call& call) {
  if (call.what != reduce_scatter || !call.in_place) return 0;
  return static_cast<uint64_t>(call.recv.counts[call.rank] * call.recv.type->size());
}

}  // namespace weft::coll::gpu
