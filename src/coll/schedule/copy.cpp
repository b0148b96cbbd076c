// SPDX-License-Identifier: BSD-3-Clause
// Local copies: memcpy, typed host copies, copy engines; host mirrors of device operands.
#include "coll/schedule/copy.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "coll/schedule/gpu_reduction.hpp"
#include "copy/copy.hpp"

namespace weft::coll {
namespace {

log::SlowPath staged_reduction(
    "coll.host_reduction",
    "the operands cross PCIe and the CPU reduces them: 10x to 100x slower than a kernel");

device::Memory memory_of(const p2p::Buffer& buffer) {
  if (buffer.memory != nullptr) return *buffer.memory;
  return device::classify(advance(buffer.address, buffer.type->true_lb()));
}

copy::View view_of(const p2p::Buffer& buffer, const device::Memory& memory) {
  return copy::typed(buffer.address, buffer.count, *buffer.type, memory);
}

Status reduce_by_kernel(device::Reduction reduction, const p2p::Buffer& in, const p2p::Buffer& inout,
                        const device::Memory& memory) {
  const void* const terms[] = {in.address, inout.address};
  auto ticket = device::reduce_async(reduction, inout.address, memory, terms,
                                     static_cast<size_t>(inout.count * inout.type->extent()),
                                     device::StreamRole::local);
  return ticket ? device::wait(*ticket) : Status(std::move(ticket).error());
}

}  // namespace

Status local_copy(const p2p::Buffer& to, const p2p::Buffer& from) {
  auto ticket = start_local_copy(to, from);
  return ticket ? device::wait(*ticket) : Status(std::move(ticket).error());
}

Result<device::Ticket> start_local_copy(const p2p::Buffer& to, const p2p::Buffer& from) {
  const int64_t capacity = packed_bytes(to), bytes = packed_bytes(from), n = std::min(capacity, bytes);
  if (bytes > capacity) [[unlikely]]
    return Error(Errc::truncate, "this rank's own block has " + std::to_string(bytes) +
                                     " bytes, but the receive buffer has " + std::to_string(capacity) +
                                     " bytes: make counts and types of both sides agree");
  if (n == 0 || (to.address == from.address && to.type == from.type)) return device::Ticket();
  if (device::available()) [[unlikely]] {
    const device::Memory to_memory = memory_of(to), from_memory = memory_of(from);
    if (to_memory.on_device() || from_memory.on_device())
      return copy::submit(view_of(to, to_memory), view_of(from, from_memory), static_cast<uint64_t>(n),
                          device::StreamRole::local);
  }
  if (to.type->contiguous() && from.type->contiguous())
    std::memcpy(to.address, from.address, static_cast<size_t>(n));
  else
    datatype::copy(from.address, from.count, *from.type, to.address, to.count, *to.type);
  return device::Ticket();
}

Status reduce_local(const p2p::Buffer& in, const p2p::Buffer& inout, const core::Op& op) {
  const device::Memory in_memory = memory_of(in), inout_memory = memory_of(inout);
  if (!in_memory.on_device() && !inout_memory.on_device()) {
    op.apply(in.address, inout.address, inout.count, *inout.type);
    return {};
  }
  const device::Reduction reduction = reduction_of(op, *inout.type);
  if (reduction.defined() && device::can_reduce(inout_memory, in_memory))
    return reduce_by_kernel(reduction, in, inout, inout_memory);
  staged_reduction.hit(
      "reduce_local on device memory: no kernel supports this operation on this type or can access both "
      "buffers");
  const TypedLayout layout(*inout.type, inout.count);
  const std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[2 * layout.bytes]);
  if (memory == nullptr)
    return Error(Errc::no_mem, "no host memory to stage the device buffers of reduce_local");
  const p2p::Buffer host_in = host_buffer(memory.get() + layout.origin, inout.count, *inout.type);
  const p2p::Buffer host_inout =
      host_buffer(memory.get() + layout.bytes + layout.origin, inout.count, *inout.type);
  WEFT_TRY(local_copy(host_in, in));
  WEFT_TRY(local_copy(host_inout, inout));
  op.apply(host_in.address, host_inout.address, inout.count, *inout.type);
  return local_copy(inout, host_inout);
}

Status HostMirror::enter(Call& call, const char* why) {
  active_ = false;
  if (!call.reduction()) return {};
  const bool send = !call.in_place && call.send.on_device();
  const bool recv = call.recv.on_device();
  if (!send && !recv) return {};
  if (*why != 0) staged_reduction.hit(std::string(name(call.what)) + " on device memory: " + why);

  const int64_t elements = call.in_place ? std::max(call.send.count, call.results) : call.results;
  const TypedLayout send_layout(*call.recv.type, send ? call.send.count : 0),
      recv_layout(*call.recv.type, recv ? elements : 0);
  if (memory_ == nullptr) memory_.reset(new (std::nothrow) std::byte[send_layout.bytes + recv_layout.bytes]);
  if (memory_ == nullptr)
    return Error(Errc::no_mem,
                 std::string("no host memory to stage the device buffers of ") + name(call.what));
  const device::Memory host;
  const auto redirect = [&](Operand& operand, void* mirror, bool load) -> Status {
    const p2p::Buffer from{operand.address, call.send.count, operand.type, &operand.memory};
    if (load) WEFT_TRY(local_copy(host_buffer(mirror, call.send.count, *operand.type), from));
    operand.address = mirror;
    operand.memory = host;
    return {};
  };
  if (send) WEFT_TRY(redirect(call.send, memory_.get() + send_layout.origin, true));
  if (recv) {
    active_ = true;
    result_ = call.recv.address;
    result_memory_ = call.recv.memory;
    WEFT_TRY(redirect(call.recv, memory_.get() + send_layout.bytes + recv_layout.origin, call.in_place));
    if (call.in_place) {
      call.send.address = call.recv.address;
      call.send.memory = host;
    }
  }
  return {};
}

Status HostMirror::leave(const Call& call) {
  if (!active_) return {};
  return local_copy({result_, call.results, call.recv.type, &result_memory_},
                    host_buffer(call.recv.address, call.results, *call.recv.type));
}

}  // namespace weft::coll
