// SPDX-License-Identifier: BSD-3-Clause
// Plan: messages of each collective, and the sizes at which the method changes.
#include "coll/gpu/plan.hpp"

#include <algorithm>

#include "base/config.hpp"

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
    "coll.device_one_shot_max", 16 << 10, 0, 1 << 20,
    "device buffers: bytes up to which every rank sends its whole vector of a reduction "
    "to all, and the root of a broadcast its to all; beyond, a part to each rank"};
config::Size packets_max{"coll.device_packets_max", 512 << 10, 0, 2 << 20,
                         "device buffers: bytes of a vector up to which it travels in packets with flags "
                         "beside the data, where there is room"};
config::Size message_packets_max{
    "coll.device_message_packets_max", 32 << 10, 0, 2 << 20,
    "device buffers: the same for a block of allgather, alltoall, gather, scatter "
    "and reduce_scatter"};
config::Size moved_max{
    "coll.device_moved_max", 4 << 20, 0, size_t{1} << 40,
    "device buffers: bytes of a block of allgather, alltoall, gather and scatter up to which "
    "kernels move it; beyond, copy engines do"};
config::Size max_blocks{"coll.device_blocks", 32, 1, Collectives::kBlocks,
                        "blocks of a collective's kernel, at most"};

constexpr uint64_t kBlockBytes = 8 << 10;  // that are worth a block of their own

device::kernel::Reduction reduction_of(const Call& call) {
  const auto basic = call.recv.type != nullptr ? call.recv.type->basic() : call.send.type->basic();
  return basic ? device::kernel::reduction_of(call.op->kind, *basic) : device::kernel::Reduction{};
}

Collectives::Message message(const p2p::Buffer& buffer) {
  const auto bytes = static_cast<uint64_t>(stream_bytes(buffer));
  if (bytes == 0) return {};
  return {reinterpret_cast<uint64_t>(advance(buffer.address, buffer.type->true_lb())), bytes};
}

bool has_data(const Operand& operand) {
  if (operand.type == nullptr) return false;
  if (!operand.counts) return operand.count * operand.type->size() != 0;
  for (int i = 0; i < operand.blocks; ++i)
    if (operand.counts[i] * operand.type->size() != 0) return true;
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

/// Elements that rank `i` gets of a reduction that is scattered, and those before them.
struct Share {
  int64_t first = 0, count = 0;
  Share(const Call& call, int i) : count(call.recv.counts ? call.recv.counts[i] : call.recv.count) {
    for (int before = 0; before < i; ++before)
      first += call.recv.counts ? call.recv.counts[before] : call.recv.count;
  }
};

/// Builds the lists of messages.
class Maker {
 public:
  Maker(const Call& call, Collectives& collective) : call_(call), c_(collective) {}
  void exchange();
  void reduce();
  void two_shot();

 private:
  void send(int to, const p2p::Buffer& buffer) { c_.send[to] = message(buffer); }
  void receive(int from, const p2p::Buffer& buffer) { c_.recv[from] = message(buffer); }
  template <class F>
  void all(F&& f) {
    for (int rank = 0; rank < call_.size; ++rank) f(rank);
  }
  const Call& call_;
  Collectives& c_;
};

void Maker::exchange() {
  c_.form = Collectives::exchange;
  const Operand& recv = call_.recv;
  switch (call_.what) {
    case bcast:
      if (!rooted(call_)) return receive(call_.root, recv.whole());
      return all([&](int to) {
        if (to != call_.rank) send(to, recv.whole());
      });
    case gather:
    case gatherv:
      if (!call_.in_place) send(call_.root, call_.send.whole());
      if (rooted(call_))
        all([&](int from) {
          if (from != call_.rank || !call_.in_place) receive(from, recv.block(from));
        });
      return;
    case scatter:
    case scatterv:
      if (!call_.in_place) receive(call_.root, recv.whole());
      if (rooted(call_))
        all([&](int to) {
          if (to != call_.rank || !call_.in_place) send(to, call_.send.block(to));
        });
      return;
    case allgather:
    case allgatherv:
      return all([&](int peer) {
        if (peer == call_.rank && call_.in_place) return;
        send(peer, call_.in_place ? recv.block(call_.rank) : call_.send.whole());
        receive(peer, recv.block(peer));
      });
    default:  // alltoall, alltoallv
      return all([&](int peer) {
        if (peer == call_.rank && call_.in_place) return;
        send(peer, call_.in_place ? recv.block(peer) : call_.send.block(peer));
        receive(peer, recv.block(peer));
      });
  }
}

void Maker::reduce() {
  c_.form = Collectives::reduce;
  all([&](int peer) {
    switch (call_.what) {
      case Collective::reduce:
        if (peer == call_.root) send(peer, call_.send.whole());
        if (rooted(call_)) receive(peer, call_.recv.whole());
        return;
      case reduce_scatter_block:
      case reduce_scatter: {
        const Share theirs(call_, peer), mine(call_, call_.rank);
        send(peer, call_.send.part(theirs.first, theirs.count));
        return receive(peer, call_.recv.part(0, mine.count));
      }
      case scan:
      case exscan: {
        const int own = call_.what == exscan ? 1 : 0;
        if (peer >= call_.rank + own) send(peer, call_.send.whole());
        if (peer <= call_.rank - own) receive(peer, call_.recv.whole());
        return;
      }
      default:  // allreduce
        send(peer, call_.send.whole());
        return receive(peer, call_.recv.whole());
    }
  });
}

void Maker::two_shot() {
  c_.form = Collectives::two_shot;
  const uint32_t everyone = (1u << call_.size) - 1, root = 1u << call_.root;
  c_.sources = call_.what == bcast ? root : everyone;
  c_.targets = call_.what == Collective::reduce ? root : everyone;
  c_.send[0] = message(call_.what == bcast ? call_.recv.whole() : call_.send.whole());
  if (uses_recv(call_)) c_.recv[0] = message(call_.recv.whole());
}

bool goes_in_parts(const Call& call, uint64_t largest) {
  return (call.what == bcast || call.what == Collective::reduce || call.what == allreduce) &&
         largest > one_shot_max;
}

uint32_t upto(uint64_t wanted, uint64_t most) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted, 1, most));
}

void by_packets(Plan& plan, uint64_t largest, uint32_t size, bool parts) {
  const uint64_t granules = device::kernel::granules(largest), all = parts ? granules : granules * size;
  plan.wire = Wire::packets;
  plan.threads = all <= 128 ? 128 : Collectives::kThreads;
  plan.blocks = upto(all / plan.threads, max_blocks);
}

void by_blocks(Plan& plan, uint64_t largest, uint32_t size, bool parts) {
  const uint64_t each = parts ? (largest + size - 1) / size : largest;  // what goes to one rank
  plan.wire = Wire::blocks;
  plan.threads = Collectives::kThreads;
  plan.blocks = upto(each / kBlockBytes, max_blocks);
  const uint64_t wanted = ((each + plan.blocks - 1) / plan.blocks + 15) / 16 * 16;
  const uint64_t piece = std::clamp<uint64_t>(wanted, 16, Area::piece_room(plan.blocks, size));
  plan.collective.piece = static_cast<uint32_t>(piece);
  const uint64_t a_round = piece * plan.blocks * (parts ? size : 1);
  plan.collective.rounds = static_cast<uint32_t>((largest + a_round - 1) / a_round);
}

}  // namespace

bool suits(const Call& call) {
  if (enabled.index() != 0 || call.size < 2 || call.size > static_cast<int>(Collectives::kRanks) ||
      call.inter())
    return false;
  switch (call.what) {
    case bcast:
    case gather:
    case gatherv:
    case scatter:
    case scatterv:
    case allgather:
    case allgatherv:
    case alltoall:
    case alltoallv:
      return true;
    case Collective::reduce:
    case allreduce:
    case reduce_scatter_block:
    case reduce_scatter:
    case scan:
    case exscan:
      return !call.op->user && reduction_of(call).defined();
    default:
      return false;
  }
}

Side side_of(const Call& call) {
  Side side = Side::nothing;
  const auto look = [&](const Operand& operand, bool used) {
    if (!used || !has_data(operand)) return;
    Side here = Side::host;
    if (!operand.classified)
      here = Side::other;
    else if (operand.memory.on_device())
      here = operand.type->contiguous() ? Side::device : Side::other;
    side = side == Side::nothing || side == here ? here : Side::other;
  };
  look(call.send, uses_send(call));
  look(call.recv, uses_recv(call));
  return side;
}

uint64_t largest_message(const Call& call) {
  Plan plan;
  Maker maker(call, plan.collective);
  if (call.op != nullptr)
    maker.reduce();
  else
    maker.exchange();
  uint64_t most = 0;
  for (int rank = 0; rank < call.size; ++rank)
    most = std::max({most, plan.collective.send[rank].bytes, plan.collective.recv[rank].bytes});
  return most;
}

bool pays(const Call& call, uint64_t largest) {
  switch (call.what) {
    case Collective::bcast:
      return true;
    default:
      return call.op != nullptr || largest <= moved_max;
  }
}

Plan make_plan(const Call& call, uint64_t largest) {
  Plan plan;
  Maker maker(call, plan.collective);
  const bool parts = goes_in_parts(call, largest);
  if (parts)
    maker.two_shot();
  else if (call.op != nullptr)
    maker.reduce();
  else
    maker.exchange();
  if (call.op != nullptr) plan.collective.reduction = reduction_of(call);
  plan.collective.rank = static_cast<uint32_t>(call.rank);
  plan.collective.size = static_cast<uint32_t>(call.size);
  const uint32_t size = plan.collective.size;
  const bool vector = call.what == bcast || call.what == Collective::reduce || call.what == allreduce;
  const uint64_t most = vector ? packets_max : message_packets_max;
  const uint64_t each = parts ? (largest + size - 1) / size + 16 : largest;
  if (largest <= most && each <= Area::packet_room(size))
    by_packets(plan, largest, size, parts);
  else
    by_blocks(plan, largest, size, parts);
  return plan;
}

}  // namespace weft::coll::gpu
