// SPDX-License-Identifier: BSD-3-Clause
// Accumulate operations (MPI 5.0 section 12.3.4). Each is executed under the accumulate lock of its target,
// by the origin if it maps the target's control block, else by the target. So all are atomic with each other.
#include <algorithm>
#include <cstring>

#include "base/trace.hpp"
#include "copy/host_chunk.hpp"
#include "core/op.hpp"
#include "core/remote_memory.hpp"
#include "device/pinned.hpp"
#include "device/reduce.hpp"
#include "rma/messages.hpp"
#include "rma/now.hpp"
#include "rma/window.hpp"

namespace weft::rma {
namespace {

using datatype::Basic;
using datatype::ReduceOp;

/// Whether this process can launch kernels on the target's memory.
bool launches_on(const Place& place) {
  return place.target->direct() != nullptr && device::can_accumulate(place.target->memory());
}

Error bad_type(const char* why) {
  return {Errc::type, std::string("the datatype of an accumulate operation ") + why};
}

}  // namespace

void combine(ReduceOp op, Basic basic, const std::byte* in, std::byte* inout, size_t n) {
  const auto function = datatype::reduce_function(op, basic);
  const datatype::BasicTraits& traits = datatype::traits_of(basic);
  if (traits.size == traits.extent) return function(in, inout, inout, n);
  // A pair with padding, which the packed stream does not have.
  const auto value = static_cast<size_t>(traits.value_size), size = static_cast<size_t>(traits.size),
             index = static_cast<size_t>(traits.index_offset);
  alignas(64) std::byte left[64]{}, right[64]{};
  WEFT_ASSERT(traits.extent <= 64);
  for (size_t i = 0; i < n; ++i, in += size, inout += size) {
    std::memcpy(left, in, value);
    std::memcpy(left + index, in + value, size - value);
    std::memcpy(right, inout, value);
    std::memcpy(right + index, inout + value, size - value);
    function(left, right, right, 1);
    std::memcpy(inout, right, value);
    std::memcpy(inout + value, right + index, size - value);
  }
}

Status Window::accumulate(const p2p::Buffer& origin, const p2p::Buffer* result, const Area& area,
                          const core::Op& op, WindowRequest* request) {
  if (op.user || op.scaling != core::Op::Scaling::none)
    return Error(Errc::op,
                 "op is a user-defined operation, or scales: accumulate operations take "
                 "predefined operations of MPI only");
  const auto basic_of_target = area.type.basic();
  const bool moves = op.kind == ReduceOp::replace || op.kind == ReduceOp::no_op;
  if (!moves && area.count != 0 && area.type.size() != 0) {
    if (!basic_of_target) return bad_type("has elements of several predefined types: use one");
    if (datatype::reduce_function(op.kind, *basic_of_target) == nullptr)
      return Error(Errc::op, op.name + " is not defined for the predefined type of target_datatype");
    if (origin.type->basic() != basic_of_target && origin.count != 0)
      return bad_type("differs in its predefined type between origin and target");
  }
  if (area.rank == p2p::kProcNull) {
    if (request != nullptr) request->finish();
    return {};
  }
  const Busy busy(*this);
  Place place;
  WEFT_TRY(locate(area, place));
  const bool reads_origin = op.kind != ReduceOp::no_op;
  const auto bytes = static_cast<uint64_t>(origin.count * origin.type->size());
  const auto result_bytes =
      result == nullptr ? place.bytes : static_cast<uint64_t>(result->count * result->type->size());
  if ((reads_origin && bytes != place.bytes) || result_bytes != place.bytes)
    return Error(Errc::truncate, "origin, result and target have " + std::to_string(bytes) + ", " +
                                     std::to_string(result_bytes) + " and " + std::to_string(place.bytes) +
                                     " bytes of data: they must be equal");
  if (place.bytes == 0) {
    if (request != nullptr) request->finish();
    return {};
  }
  count_accumulate(place.bytes);
  fence_stores(instance);
  trace::annotate({place.bytes, area.rank, -1, comm->number()});
  const auto on_gpu = element_operation(area, place, op.kind, basic_of_target, false);
  const Basic basic = moves ? basic_of_target.value_or(Basic::byte) : *basic_of_target;
  if (place.host != nullptr && place.peer->control != nullptr && area.type.contiguous() &&
      (!reads_origin || origin.type->contiguous()) && (result == nullptr || result->type->contiguous()) &&
      (!reads_origin || !kind_of(origin).on_device()) && (result == nullptr || !kind_of(*result).on_device()))
      [[likely]] {
    const auto function = datatype::reduce_function(op.kind, basic);
    const auto n = place.bytes / static_cast<uint64_t>(datatype::traits_of(basic).size);
    WEFT_TRY(begin_accumulate(*place.peer));
    const AccumulateScope scope(*place.peer->control);
    instance.stores_unfenced = true;
    update_mapped(place.host, origin.address, result == nullptr ? nullptr : result->address, op.kind,
                  function, n, place.bytes);
    if (request != nullptr) request->finish();
    return {};
  }
  const bool mapped_gpu =
      on_gpu && place.target->direct() != nullptr && device::can_accumulate(place.target->memory());
  if (!on_gpu && !moves && area.type.contiguous() && origin.type->contiguous() &&
      (result == nullptr || result->type->contiguous())) {
    Status done = accumulate_by_kernel(origin, result, place, op.kind, basic, request);
    if (done.ok() || done.error().code() != Errc::unsupported) return done;
  }
  std::vector<std::byte> packed;
  auto* in = static_cast<std::byte*>(origin.address);
  if (!reads_origin) {
    in = nullptr;
  } else if (!origin.type->contiguous() || (!mapped_gpu && kind_of(origin).on_device())) {
    WEFT_TRY(p2p::pack_to_host(origin, packed));
    in = packed.data();
  }
  if (mapped_gpu) {
    Operands operands;
    operands.origin.address = in;
    if (in != nullptr && in != packed.data()) operands.origin.memory = kind_of(origin);
    std::vector<std::byte> old;
    const bool packs_result = result != nullptr && !result->type->contiguous();
    if (packs_result) {
      old.resize(place.bytes);
      operands.result.address = old.data();
    } else if (result != nullptr) {
      operands.result.address = static_cast<std::byte*>(result->address);
      operands.result.memory = kind_of(*result, operands.origin.memory);
    }
    WEFT_TRY(accumulate_on_gpu(*on_gpu, area, place, operands));
    if (packs_result) WEFT_TRY(unpack(*result, kind_of(*result), old));
    if (request != nullptr) request->finish();
    return {};
  }
  return execute(area, place, in, nullptr, op.kind, basic, result, request);
}

bool comparable(Basic basic) {
  using datatype::Group;
  const Group group = datatype::traits_of(basic).group;
  return group == Group::c_integer || group == Group::fortran_integer || group == Group::logical ||
         group == Group::multi_language || group == Group::byte || basic == Basic::character;
}

Status Window::compare_and_swap(const void* origin, const void* compare, void* result, const Area& area) {
  const auto basic = area.type.predefined() ? area.type.basic() : std::nullopt;
  if (!basic || !comparable(*basic))
    return bad_type("of MPI_Compare_and_swap must be a predefined integer, logical or byte type");
  if (area.rank == p2p::kProcNull) return {};
  const Busy busy(*this);
  Place place;
  WEFT_TRY(locate(area, place));
  g_operations.compare_and_swaps.add();
  fence_stores(instance);
  trace::annotate({place.bytes, area.rank, -1, comm->number()});
  const p2p::Buffer from = p2p::buffer_of(origin, 1, area.type),
                    expect = p2p::buffer_of(compare, 1, area.type), to = p2p::buffer_of(result, 1, area.type);
  if (place.host != nullptr && place.peer->control != nullptr && !kind_of(from).on_device() &&
      !kind_of(expect).on_device() && !kind_of(to).on_device()) [[likely]] {
    WEFT_TRY(begin_accumulate(*place.peer));
    const AccumulateScope scope(*place.peer->control);
    instance.stores_unfenced = true;
    swap_mapped(place.host, origin, compare, result, place.bytes);
    return {};
  }
  const auto on_gpu = element_operation(area, place, ReduceOp::replace, basic, true);
  if (on_gpu && launches_on(place)) {
    const device::Memory memory = kind_of(from);
    const auto operand = [&](const p2p::Buffer& buffer) {
      return Operand{static_cast<std::byte*>(buffer.address), kind_of(buffer, memory)};
    };
    return accumulate_on_gpu(*on_gpu, area, place, {operand(from), operand(expect), operand(to)});
  }
  if (!kind_of(from).on_device() && !kind_of(expect).on_device())
    return execute(area, place, static_cast<const std::byte*>(origin), static_cast<const std::byte*>(compare),
                   ReduceOp::replace, *basic, &to, nullptr);
  std::vector<std::byte> in, expected;
  WEFT_TRY(p2p::pack_to_host(from, in));
  WEFT_TRY(p2p::pack_to_host(expect, expected));
  return execute(area, place, in.data(), expected.data(), ReduceOp::replace, *basic, &to, nullptr);
}

/// The general path on packed data. `in` is null with MPI_NO_OP; `compare` is null but for compare-and-swap.
Status Window::execute(const Area& area, const Place& place, const std::byte* in, const std::byte* compare,
                       ReduceOp op, Basic basic, const p2p::Buffer* result, WindowRequest* request) {
  if (instance.failures.failed(place.peer->process)) return instance.failures.error_of(place.peer->process);
  // The owner of GPU memory executes atomic operations for processes that cannot launch kernels on it.
  const bool by_message =
      place.peer->control == nullptr ||
      (element_operation(area, place, op, basic, compare != nullptr) && !launches_on(place));
  if (request == nullptr && place.peer->slot != nullptr && area.type.contiguous() &&
      (result == nullptr || (result->type->contiguous() && !kind_of(*result).on_device()))) {
    const PostedOperation operation{
        compare != nullptr ? PostedOperation::compare_swap : PostedOperation::accumulate,
        static_cast<uint8_t>(op),
        static_cast<uint8_t>(basic),
        static_cast<uint8_t>(result != nullptr),
        0,
        0};
    if (post(place, operation, in, compare, result == nullptr ? nullptr : result->address)) return {};
  }
  settle(*place.peer);  // operations of one origin are executed in order
  if (!by_message && (result == nullptr || (result->type->contiguous() && !kind_of(*result).on_device()))) {
    WEFT_TRY(update_locked(area, place, in, compare, op, basic,
                           result == nullptr ? nullptr : static_cast<std::byte*>(result->address)));
    if (request != nullptr) request->finish();
    return {};
  }
  auto* const operation = new Operation(*this, *place.peer, request);
  if (result != nullptr) WEFT_TRY(operation->receive_into(*result, place.bytes));
  if (by_message) {
    const uint8_t code = compare != nullptr ? AccumulateMessage::kCompareSwap : static_cast<uint8_t>(op);
    Messages::of(instance).send_accumulate(*operation, area, place, in, compare, code, basic,
                                           result != nullptr);
    operation->finish_part({});
    return {};
  }
  Status outcome = update_locked(area, place, in, compare, op, basic, operation->data.data());
  operation->finish_part(outcome.ok() ? Status() : Status(outcome.error().copy()));
  return outcome;
}

Status Window::update_locked(const Area& area, const Place& place, const std::byte* in,
                             const std::byte* compare, ReduceOp op, Basic basic, std::byte* old) {
  WEFT_TRY(begin_accumulate(*place.peer));
  const AccumulateScope scope(*place.peer->control);
  instance.stores_unfenced = true;
  return update(area, place, in, compare, op, basic, old);
}

/// Reads, combines and writes under the accumulate lock, in parts that stay in the cache. `old`: null, or
/// gets the value before.
Status Window::update(const Area& area, const Place& place, const std::byte* in, const std::byte* compare,
                      ReduceOp op, Basic basic, std::byte* old) {
  constexpr uint64_t kPart = 32 << 10;
  alignas(64) std::byte small[256];
  copy::HostChunk chunk;
  // Small copies between pinned memory and a GPU take a fifth of those of pageable memory.
  if (place.on_device && place.target->direct() != nullptr)
    if (auto leased = copy::HostChunk::lease(place.target->memory())) chunk = std::move(*leased);
  if (!chunk && place.bytes > sizeof small) chunk = copy::HostChunk::pageable(std::min(kPart, place.bytes));
  const copy::View staged = chunk ? chunk.view() : copy::plain(small);
  std::byte* const stream = staged.data();
  const auto element = static_cast<uint64_t>(datatype::traits_of(basic).size);
  const uint64_t part = (chunk ? chunk.size() : sizeof small) / element * element;
  WEFT_ASSERT(compare == nullptr || place.bytes <= part);
  for (uint64_t at = 0; at < place.bytes; at += part) {
    const uint64_t n = std::min(part, place.bytes - at);
    if (op != ReduceOp::replace || old != nullptr) WEFT_TRY(copy_stream(false, area, place, at, n, staged));
    if (old != nullptr) std::memcpy(old + at, stream, n);
    if (compare != nullptr && std::memcmp(stream, compare, n) != 0) return {};
    if (op == ReduceOp::no_op) continue;
    if (op == ReduceOp::replace)
      std::memcpy(stream, in + at, n);
    else
      combine(op, basic, in + at, stream, n / element);
    WEFT_TRY(copy_stream(true, area, place, at, n, staged));
  }
  return {};
}

/// The atomic operation of a kernel that executes the accumulate operation on the target's memory; nothing:
/// the accumulate lock guards the operation.
std::optional<ElementOperation> Window::element_operation(const Area& area, const Place& place, ReduceOp op,
                                                          std::optional<Basic> basic,
                                                          bool compare_swap) const {
  if (!place.gpu_atomics) [[likely]]
    return {};
  if (!basic) return {};
  const auto operation = ElementOperation::of(op, *basic, compare_swap);
  if (!operation) return {};
  // The owner's address: it and the mapping agree in the lower bits.
  bool aligned = true;
  datatype::for_each_run(
      area.type, area.count, 0, static_cast<int64_t>(place.bytes), [&](int64_t displacement, int64_t) {
        const uint64_t at = place.target->address() + place.offset + static_cast<uint64_t>(displacement);
        aligned = at % operation->size == 0;
        return aligned;
      });
  return aligned ? operation : std::nullopt;
}

Status Window::accumulate_on_gpu(const ElementOperation& operation, const Area& area, const Place& place,
                                 Operands operands) {
  const trace::Range range("rma.accumulate_on_gpu");
  if (instance.failures.failed(place.peer->process)) return instance.failures.error_of(place.peer->process);
  const device::Memory& there = place.target->memory();
  const uint64_t start = reinterpret_cast<uint64_t>(place.target->direct()) + place.offset;
  const GpuRun whole{start, place.bytes};
  std::vector<GpuRun> several;
  if (!area.type.contiguous())
    datatype::for_each_run(
        area.type, area.count, 0, static_cast<int64_t>(place.bytes),
        [&](int64_t displacement, int64_t length) {
          several.push_back({start + static_cast<uint64_t>(displacement), static_cast<uint64_t>(length)});
          return true;
        });
  device::PinnedBuffer pinned;
  Status outcome;
  if (mark_staged(operands, operation.size, there) != 0)
    core::wait_until(instance, [&] {  // while all staging memory is in use
      auto leased = device::lease_pinned(there);
      if (leased)
        pinned = std::move(*leased);
      else if (leased.error().code() != Errc::again)
        outcome = std::move(leased).error();
      return pinned || !outcome.ok();
    });
  WEFT_TRY(std::move(outcome));
  const auto runs =
      area.type.contiguous() ? std::span<const GpuRun>(&whole, 1) : std::span<const GpuRun>(several);
  return accumulate_atomically(operation, there, runs, operands, pinned);
}

/// Combines an origin buffer in GPU memory with mapped GPU memory of the target. Precondition: contiguous
/// types. Errc::unsupported: kernels cannot.
Status Window::accumulate_by_kernel(const p2p::Buffer& origin, const p2p::Buffer* result, const Place& place,
                                    ReduceOp op, Basic basic, WindowRequest* request) {
  const Error unsupported(Errc::unsupported, "");
  if (!place.on_device || place.target->direct() == nullptr || place.peer->control == nullptr)
    return unsupported.copy();
  const device::Memory& there = place.target->memory();
  const device::Memory from = kind_of(origin);
  const device::Reduction reduction = device::reduction_of(op, datatype::reduction_type(basic));
  if (!from.on_device() || !reduction.defined() || !device::can_reduce(there, from))
    return unsupported.copy();
  std::byte* const target = place.target->direct() + place.offset;
  WEFT_TRY(begin_accumulate(*place.peer));
  const AccumulateScope scope(*place.peer->control);
  if (result != nullptr)
    WEFT_TRY(copy::execute(copy::plain(result->address, kind_of(*result)), copy::plain(target, there),
                           place.bytes));
  const void* const terms[] = {origin.address, target};
  auto ticket = device::reduce_async(reduction, target, there, terms, place.bytes, device::StreamRole::local);
  if (!ticket) return std::move(ticket).error();
  WEFT_TRY(device::wait(*ticket));
  if (request != nullptr) request->finish();
  return {};
}

}  // namespace weft::rma
