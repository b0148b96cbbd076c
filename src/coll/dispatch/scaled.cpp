// SPDX-License-Identifier: BSD-3-Clause
#include "coll/dispatch/scaled.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "coll/schedule/copy.hpp"
#include "datatype/scale.hpp"
#include "device/reduce.hpp"

namespace weft::coll {
namespace {

using core::Op;
using datatype::Basic;

constexpr uintptr_t kSum = 0x21;  // MPI_SUM

log::SlowPath scaled_by_host(
    "coll.host_scaling",
    "the operand crosses PCIe twice and the CPU scales it: 10x to 100x slower than a kernel");

/// Whether a sum of numbers that are far from the largest one may exceed it.
bool overflows_early(Basic basic) {
  return basic == Basic::float16 || basic == Basic::complex_float16 || basic == Basic::float8_e4m3 ||
         basic == Basic::float8_e5m2;
}

/// The type as which kernels scale; the maximum keeps the sign of integers.
device::kernel::Element element_of(Basic basic) {
  const bool complex = datatype::traits_of(basic).group == datatype::Group::complex;
  const auto op = complex ? datatype::ReduceOp::prod : datatype::ReduceOp::max;
  return device::reduction_of(op, datatype::reduction_type(basic)).element;
}

Basic basic_of(const Operand& operand) { return *operand.type->basic(); }

size_t bytes_of(const Operand& operand, int64_t count) {
  return static_cast<size_t>(count * operand.type->size());
}

}  // namespace

ScaledReduction::ScaledReduction(const Call& call) : op_(*call.op), sum_(call), terms_(call.send) {
  WEFT_ASSERT(call.scaled && !call.inter());
  op_.retain();
  sum_.scaled = false;
  sum_.op = Op::predefined(kSum);
  if (op_.scaling == Op::Scaling::average) divisor_ = static_cast<uint32_t>(call.size);
  scales_terms_ = divisor_ == 0 || overflows_early(basic_of(call.send));
}

ScaledReduction::~ScaledReduction() { op_.release(); }

Result<std::unique_ptr<ScaledReduction>> ScaledReduction::create(const Call& call) {
  std::unique_ptr<ScaledReduction> made(new (std::nothrow) ScaledReduction(call));
  if (made == nullptr) return Error(Errc::no_mem, "no host memory for a reduction that scales");
  if (made->scales_terms_) WEFT_TRY(made->place_terms());
  return made;
}

Status ScaledReduction::place_terms() {
  if (sum_.in_place) return {};
  Operand& send = sum_.send;
  if (sum_.results == send.count && sum_.recv.address != nullptr) {
    send = sum_.recv;
    sum_.in_place = true;
    return {};
  }
  const size_t bytes = bytes_of(send, send.count);
  if (send.on_device() && device::can_reduce(send.memory, send.memory)) {
    auto leased = device::Workspace::lease(send.memory, std::max(bytes, device::Workspace::kMappable));
    if (leased) {
      workspace_ = std::move(*leased);
      send.memory = workspace_.memory();
      send.address = reinterpret_cast<void*>(send.memory.base);
      return {};
    }
  }
  host_.reset(new (std::nothrow) std::byte[bytes + 1]);
  if (host_ == nullptr)
    return Error(Errc::no_mem, std::string(name(sum_.what)) + " with " + op_.name + " needs " +
                                   std::to_string(bytes) + " bytes for its scaled terms");
  send.address = host_.get();
  send.memory = {};
  return {};
}

Status ScaledReduction::before() {
  if (!scales_terms_) return {};
  return scale(terms_, sum_.send, terms_.count);
}

Status ScaledReduction::after() {
  if (scales_terms_ || sum_.results == 0) return {};
  return scale(sum_.recv, sum_.recv, sum_.results);
}

Result<const void*> ScaledReduction::host_factor(std::byte* store) const {
  if (op_.factor_on_device == nullptr) return static_cast<const void*>(op_.factor);
  const p2p::Buffer from{const_cast<void*>(op_.factor_on_device), 1, op_.factor_type, &op_.factor_memory};
  WEFT_TRY(local_copy(host_buffer(store, 1, *op_.factor_type), from));
  return static_cast<const void*>(store);
}

Status ScaledReduction::scale(const Operand& from, const Operand& to, int64_t count) const {
  if (count == 0) return {};
  const device::kernel::Element element = element_of(basic_of(from));
  const bool on_device = from.on_device() || to.on_device();
  if (!on_device || !device::kernel::can_scale(element) || !device::can_reduce(to.memory, from.memory))
    return scale_on_host(from, to, count);
  std::byte store[Op::kMaxFactorBytes];
  const bool direct = op_.factor_on_device != nullptr && device::can_reduce(to.memory, op_.factor_memory);
  const void* factor = op_.factor_on_device;
  if (divisor_ == 0 && !direct) {
    auto found = host_factor(store);
    if (!found) return std::move(found).error();
    factor = *found;
  }
  auto ticket = device::scale_async(element, to.address, to.memory, from.address, bytes_of(from, count),
                                    divisor_, factor, direct, device::StreamRole::local);
  return ticket ? device::wait(*ticket) : Status(std::move(ticket).error());
}

Status ScaledReduction::scale_on_host(const Operand& from, const Operand& to, int64_t count) const {
  std::byte store[Op::kMaxFactorBytes];
  const void* factor = nullptr;
  if (divisor_ == 0) {
    auto found = host_factor(store);
    if (!found) return std::move(found).error();
    factor = *found;
  }
  const auto loop = [&](const void* source, void* target) {
    const Basic basic = datatype::reduction_type(basic_of(from));
    if (divisor_ != 0)
      datatype::divide(basic, source, divisor_, target, static_cast<size_t>(count));
    else
      datatype::multiply(basic, source, factor, target, static_cast<size_t>(count));
  };
  if (!from.on_device() && !to.on_device()) {
    loop(from.address, to.address);
    return {};
  }
  scaled_by_host.hit(std::string(name(sum_.what)) + " with " + op_.name +
                     " on device memory: no kernel supports this type or can access both buffers");
  const std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[bytes_of(from, count)]);
  if (memory == nullptr) return Error(Errc::no_mem, "no host memory to stage the operand of " + op_.name);
  const p2p::Buffer host = host_buffer(memory.get(), count, *from.type);
  WEFT_TRY(local_copy(host, {from.address, count, from.type, &from.memory}));
  loop(memory.get(), memory.get());
  return local_copy({to.address, count, to.type, &to.memory}, host);
}

}  // namespace weft::coll
