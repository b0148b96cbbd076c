// SPDX-License-Identifier: BSD-3-Clause
// Which reductions of operands in GPU memory kernels compute.
#include "coll/gpu_reduction.hpp"

#include "base/config.hpp"

namespace weft::coll {
namespace {

config::Size least_bytes{
    "coll.gpu_reduce_min", 16 << 10, 0, size_t{1} << 40,
    "bytes of a vector in GPU memory from which on a schedule reduces it by kernels; below, "
    "messages between host copies are quicker"};

/// What counts in this process is memory that a kernel on the GPU of `near` reaches.
bool reached(const device::Memory& near, const Operand& operand) {
  return operand.classified && device::can_reduce(near, operand.memory);
}

}  // namespace

device::Reduction reduction_of(const core::Op& op, const datatype::Datatype& type) {
  const auto basic = type.basic();
  if (op.user || !type.predefined() || !basic) return {};
  return device::reduction_of(op.kind, *basic);
}

const char* choose_gpu(Call& call) {
  call.on_gpu = false;
  if (!call.reduction()) return "";
  const bool send = !call.in_place, recv = call.in_place || call.results > 0;
  if (!(send && call.send.on_device()) && !(recv && call.recv.on_device())) return "";
  const int64_t size = call.recv.type->size();
  if (static_cast<uint64_t>(call.send.count * size) < least_bytes) return "";
  if (call.inter()) return "it is one between two groups";
  if (!reduction_of(*call.op, *call.recv.type).defined())
    return "kernels do not have this operation on this type";
  const device::Memory& near = recv && call.recv.on_device() ? call.recv.memory : call.send.memory;
  if ((send && !reached(near, call.send)) || (recv && !reached(near, call.recv)))
    return "a kernel on the GPU of one operand does not reach the other";
  call.on_gpu = true;
  call.gpu = near;
  return "";
}

}  // namespace weft::coll
