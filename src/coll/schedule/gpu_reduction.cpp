// SPDX-License-Identifier: BSD-3-Clause
// Selects the reductions of GPU memory that kernels compute.
#include "coll/schedule/gpu_reduction.hpp"

#include "coll/schedule/crossovers.hpp"
#include "device/time_slices.hpp"

namespace weft::coll {
namespace {

/// Largest vector in bytes that the host reduces on a GPU that ranks share in time slices: a kernel of each
/// rank would wait for a switch of the GPU (bench/results/time-sliced-gpu-h200.json).
constexpr uint64_t kMaxTimeSlicedHostBytes = uint64_t{1} << 20;

/// True if a kernel on the GPU of `near` can access the operand.
bool reached(const device::Memory& near, const Operand& operand) {
  return operand.classified && device::can_reduce(near, operand.memory);
}

/// Why kernels on the GPU of `near` cannot compute the reduction; null if they can.
const char* why_no_kernel(const Call& call, const device::Memory& near, bool send, bool recv) {
  if (call.inter()) return "its communicator is an intercommunicator";
  if (!reduction_of(*call.op, *call.recv.type).defined())
    return "no kernel supports this operation on this type";
  if ((send && !reached(near, call.send)) || (recv && !reached(near, call.recv)))
    return "a kernel on the GPU of one operand cannot access the other operand";
  return nullptr;
}

}  // namespace

device::Reduction reduction_of(const core::Op& op, const datatype::Datatype& type) {
  const auto basic = type.basic();
  if (op.user || !type.predefined() || !basic) return {};
  return device::reduction_of(op.kind, datatype::reduction_type(*basic));
}

const char* choose_gpu(Call& call) {
  call.on_gpu = false;
  if (!call.reduction()) return "";
  const bool send = !call.in_place, recv = call.in_place || call.results > 0;
  if (!(send && call.send.on_device()) && !(recv && call.recv.on_device())) return "";
  const device::Memory& near = recv && call.recv.on_device() ? call.recv.memory : call.send.memory;
  const auto bytes = static_cast<uint64_t>(call.send.count * call.recv.type->size());
  if (bytes < crossover::reduce_min) return "";
  const bool host_is_faster = bytes <= kMaxTimeSlicedHostBytes && device::time_sliced(near.device);
  if (const char* refused = why_no_kernel(call, near, send, recv)) return host_is_faster ? "" : refused;
  call.on_gpu = !host_is_faster;
  call.gpu = near;  // also on the host the terms keep the order of kernels
  return "";
}

}  // namespace weft::coll
