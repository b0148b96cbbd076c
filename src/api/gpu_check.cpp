// SPDX-License-Identifier: BSD-3-Clause
#include "api/gpu_check.hpp"

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "core/instance.hpp"
#include "p2p/message/buffer_check.hpp"

namespace weft::api {
namespace {

using coll::Collective;
using p2p::Buffer;
using p2p::BufferCheck;
using Side = BufferCheck::Side;
using Verdict = BufferCheck::Verdict;

struct Checked {
  Buffer buffer;
  Side side;
  BufferCheck check;
};

/// Starts the checks of all buffers, waits for all, and returns the error of the first changed one.
Status check_all(const std::vector<Buffer>& inputs, const std::vector<Buffer>& outputs,
                 core::Communicator& comm) {
  std::deque<Checked> all;
  const auto add = [&](const Buffer& buffer, Side side) {
    all.push_back({buffer, side, {}});
    if (!all.back().check.start(buffer)) all.pop_back();
  };
  const auto is_input = [&](const Buffer& buffer) {
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const Buffer& input) { return input.address == buffer.address; });
  };
  for (const Buffer& buffer : inputs) add(buffer, Side::input);
  for (const Buffer& buffer : outputs)
    if (!is_input(buffer)) add(buffer, Side::output);
  const std::string call = reinterpret_cast<const char*>(comm.instance.waits.current().name);
  for (Checked& one : all) {
    Verdict verdict = Verdict::pending;
    core::wait_until(comm.instance, [&] { return (verdict = one.check.poll()) != Verdict::pending; });
    if (verdict == Verdict::changed) WEFT_TRY(one.check.report(one.side, call, comm, ""));
  }
  return {};
}

/// The blocks of an operand, those of equal size and without gaps between them as one buffer.
void add_blocks(const coll::Operand& operand, std::vector<Buffer>& buffers) {
  if (operand.type == nullptr && operand.types == nullptr) return;
  if (!operand.counts) {
    const Buffer first = operand.block(0);
    if (operand.blocks > 0) buffers.push_back({first.address, first.count * operand.blocks, first.type});
    return;
  }
  for (int i = 0; i < operand.blocks; ++i) buffers.push_back(operand.block(i));
}

void add(const Buffer& buffer, std::vector<Buffer>& buffers) {
  if (buffer.type != nullptr && buffer.address != nullptr) buffers.push_back(buffer);
}

bool is_root(const coll::Call& call) {
  return call.inter() ? call.root == coll::kRoot : call.root == call.rank;
}

/// The buffers that this process reads.
std::vector<Buffer> inputs_of(const coll::Call& call) {
  std::vector<Buffer> found;
  const coll::Operand &send = call.send, &recv = call.recv;
  switch (call.what) {
    case Collective::barrier:
      break;
    case Collective::bcast:
      if (is_root(call)) add(recv.whole(), found);
      break;
    case Collective::gather:
    case Collective::gatherv:
    case Collective::neighbor_allgather:
    case Collective::neighbor_allgatherv:
      if (send.type != nullptr) add(send.whole(), found);
      break;
    case Collective::scatter:
    case Collective::scatterv:
    case Collective::neighbor_alltoall:
    case Collective::neighbor_alltoallv:
    case Collective::neighbor_alltoallw:
      add_blocks(send, found);
      break;
    case Collective::allgather:
    case Collective::allgatherv:
      if (call.in_place)
        add(recv.block(call.rank), found);
      else if (send.type != nullptr)
        add(send.whole(), found);
      break;
    case Collective::alltoall:
    case Collective::alltoallv:
    case Collective::alltoallw:
      add_blocks(call.in_place ? recv : send, found);
      break;
    default:  // reductions: with MPI_IN_PLACE `send` is the receive buffer
      if (send.type != nullptr) add(send.whole(), found);
      break;
  }
  return found;
}

/// The buffers that this process has received into.
std::vector<Buffer> outputs_of(const coll::Call& call) {
  std::vector<Buffer> found;
  const coll::Operand& recv = call.recv;
  switch (call.what) {
    case Collective::barrier:
      break;
    case Collective::bcast:
      if (!is_root(call)) add(recv.whole(), found);
      break;
    case Collective::scatter:
    case Collective::scatterv:
      if (recv.type != nullptr) add(recv.whole(), found);
      break;
    case Collective::exscan:
      if (call.rank == 0) break;
      [[fallthrough]];
    case Collective::reduce:
    case Collective::allreduce:
    case Collective::reduce_scatter_block:
    case Collective::reduce_scatter:
    case Collective::scan:
      if (recv.type != nullptr) add(recv.part(0, call.results), found);
      break;
    default:
      add_blocks(recv, found);
      break;
  }
  return found;
}

class GpuCheck final : public coll::CallCheck {
 public:
  Status before(const coll::Call& call) const override { return check_buffers(call); }
  Status after(const coll::Call& call) const override { return check_outputs(call); }
};

}  // namespace

Status check_input(const Buffer& buffer, core::Communicator& comm) { return check_all({buffer}, {}, comm); }

Status check_buffers(const coll::Call& call) {
  if (!device::available()) return {};
  return check_all(inputs_of(call), outputs_of(call), *call.comm);
}

Status check_outputs(const coll::Call& call) {
  if (!device::available()) return {};
  return check_all({}, outputs_of(call), *call.comm);
}

const coll::CallCheck& call_check() {
  static const GpuCheck check;
  return check;
}

}  // namespace weft::api
