// SPDX-License-Identifier: BSD-3-Clause
#include "rma/gpu_accumulate.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "copy/copy.hpp"

namespace weft::rma {
namespace {

using datatype::ReduceOp;
using device::kernel::Accumulate;

bool misplaced(const Operand& operand, uint32_t size) {
  return reinterpret_cast<uintptr_t>(operand.address) % size != 0 || !operand.memory.known_to_driver();
}

/// Calls launch(run, blocks, stride) for the target bytes [at, at + n) of the packed stream, with runs of
/// equal length at a constant distance as one.
template <class Launch>
Status for_each_launch(std::span<const GpuRun> runs, uint64_t at, uint64_t n, Launch&& launch) {
  GpuRun first{};
  uint64_t blocks = 0;
  int64_t stride = 0;
  uint64_t start = 0;  // of a run in the stream
  for (const GpuRun& run : runs) {
    const uint64_t skip = at > start ? std::min(at - start, run.length) : 0;
    const uint64_t end = std::min(start + run.length, at + n);
    const uint64_t length = end > start + skip ? end - start - skip : 0;
    start += run.length;
    if (length == 0) continue;
    const GpuRun part{run.address + skip, length};
    const auto distance = static_cast<int64_t>(part.address - first.address);
    if (blocks == 1 && part.length == first.length) stride = distance;
    if (blocks != 0 && part.length == first.length && distance == stride * static_cast<int64_t>(blocks)) {
      ++blocks;
      continue;
    }
    if (blocks != 0) WEFT_TRY(launch(first, blocks, stride));
    first = part;
    blocks = 1;
    stride = 0;
  }
  return blocks == 0 ? Status() : launch(first, blocks, stride);
}

/// Addresses of the packed operands of a part; 0: there is none.
struct PartOperands {
  uint64_t origin, compare, result;
};

/// Launches the kernels for the target bytes [at, at + n) of the packed stream, in one stream. `result`: the
/// memory of the result. The ticket is that of the last one.
Result<device::Ticket> launch_part(const ElementOperation& operation, const device::Memory& target,
                                   std::span<const GpuRun> runs, uint64_t at, uint64_t n,
                                   const PartOperands& operands, const device::Memory& result) {
  Accumulate call{};
  call.origin = operands.origin;
  call.compare = operands.compare;
  call.result = operands.result;
  call.reduction = operation.reduction;
  call.size = operation.size;
  call.kind = operation.kind;
  device::Ticket last;
  WEFT_TRY(for_each_launch(runs, at, n, [&](const GpuRun& run, uint64_t blocks, int64_t stride) -> Status {
    call.target = run.address;
    call.block = run.length / operation.size;
    call.count = blocks * call.block;
    call.stride = stride;
    const uint64_t bytes = call.count * operation.size;
    // Launches go to one stream, where the others end before the last; the resident kernel takes a lone one.
    auto ticket = device::accumulate_async(call, target, result, bytes == n);
    if (!ticket) return std::move(ticket).error();
    last = std::move(*ticket);
    for (uint64_t* operand : {&call.origin, &call.compare, &call.result})
      if (*operand != 0) *operand += bytes;
    return {};
  }));
  return last;
}

uint64_t bytes_of(std::span<const GpuRun> runs) {
  uint64_t bytes = 0;
  for (const GpuRun& run : runs) bytes += run.length;
  return bytes;
}

}  // namespace

std::optional<ElementOperation> ElementOperation::of(ReduceOp op, datatype::Basic basic, bool compare_swap) {
  const datatype::BasicTraits& traits = datatype::traits_of(basic);
  const auto size = static_cast<uint32_t>(traits.size);
  if (traits.size != traits.extent || (size != 1 && size != 2 && size != 4 && size != 8)) return {};
  ElementOperation operation{Accumulate::combine, {}, size};
  if (compare_swap) {
    operation.kind = Accumulate::compare_swap;
  } else if (op == ReduceOp::replace) {
    operation.kind = Accumulate::replace;
  } else if (op == ReduceOp::no_op) {
    operation.kind = Accumulate::fetch;
  } else {
    operation.reduction = device::kernel::reduction_of(op, datatype::reduction_type(basic));
    WEFT_ASSERT(operation.reduction.defined());  // for all types of at most 8 bytes
  }
  return operation;
}

int mark_staged(Operands& operands, uint32_t size, const device::Memory& target) {
  int count = 0;
  const device::Memory* accessible = nullptr;  // operands usually share an allocation
  for (Operand* operand : {&operands.origin, &operands.compare, &operands.result}) {
    if (operand->address == nullptr) continue;
    operand->staged = misplaced(*operand, size);
    if (!operand->staged && (accessible == nullptr || accessible->base != operand->memory.base ||
                             accessible->buffer_id != operand->memory.buffer_id))
      operand->staged = !device::can_access(target, operand->memory);
    if (operand->staged)
      ++count;
    else
      accessible = &operand->memory;
  }
  return count;
}

Status accumulate_atomically(const ElementOperation& operation, const device::Memory& target,
                             std::span<const GpuRun> runs, const Operands& operands,
                             const device::PinnedBuffer& pinned) {
  const uint64_t total = bytes_of(runs);
  for (const GpuRun& run : runs)
    WEFT_ASSERT(run.address % operation.size == 0 && run.length % operation.size == 0);
  for (const Operand* operand : {&operands.origin, &operands.compare, &operands.result})
    WEFT_ASSERT(operand->address == nullptr || operand->staged || operand->memory.known_to_driver());
  const int stages = static_cast<int>(operands.origin.staged) + static_cast<int>(operands.compare.staged) +
                     static_cast<int>(operands.result.staged);
  WEFT_ASSERT(stages == 0 || pinned);
  const uint64_t part = stages == 0 ? total : pinned.size() / static_cast<unsigned>(stages) / 16 * 16;
  auto* next = stages == 0 ? nullptr : reinterpret_cast<std::byte*>(pinned.data());
  const auto place = [&](const Operand& operand) -> std::byte* {
    if (!operand.staged) return nullptr;
    std::byte* const mine = next;
    next += part;
    return mine;
  };
  std::byte* const origin_stage = place(operands.origin);
  std::byte* const compare_stage = place(operands.compare);
  std::byte* const result_stage = place(operands.result);
  const device::Memory stage_memory = stages == 0 ? device::Memory{} : pinned.memory();
  for (uint64_t at = 0; at < total; at += part) {
    const uint64_t n = std::min(part, total - at);
    const auto address_of = [&](const Operand& operand, std::byte* stage) {
      if (operand.address == nullptr) return uint64_t{0};
      return reinterpret_cast<uint64_t>(stage != nullptr ? stage : operand.address + at);
    };
    const auto fill = [&](const Operand& operand, std::byte* stage) -> Status {
      if (stage == nullptr) return {};
      return copy::execute(copy::plain(stage, stage_memory),
                           copy::plain(operand.address + at, operand.memory), n);
    };
    WEFT_TRY(fill(operands.origin, origin_stage));
    WEFT_TRY(fill(operands.compare, compare_stage));
    auto last =
        launch_part(operation, target, runs, at, n,
                    {address_of(operands.origin, origin_stage), address_of(operands.compare, compare_stage),
                     address_of(operands.result, result_stage)},
                    result_stage != nullptr ? stage_memory : operands.result.memory);
    if (!last) return std::move(last).error();
    WEFT_TRY(device::wait(*last));
    if (result_stage != nullptr)
      WEFT_TRY(copy::execute(copy::plain(operands.result.address + at, operands.result.memory),
                             copy::plain(result_stage, stage_memory), n));
  }
  return {};
}

GpuUpdate::GpuUpdate(const ElementOperation& operation, const device::Memory& target,
                     std::vector<GpuRun> runs, std::vector<std::byte> operands, GpuStaging staging)
    : operation_(operation),
      target_(target),
      runs_(std::move(runs)),
      operands_(std::move(operands)),
      staging_(std::move(staging)),
      before_(bytes_of(runs_)),
      part_(staging_.bytes / 3 / 16 * 16) {
  const bool compares = operation.kind == AtomicKind::compare_swap;
  const bool reads = operation.kind != AtomicKind::fetch;
  WEFT_ASSERT(part_ != 0 && operands_.size() == before_.size() * ((reads ? 1u : 0u) + (compares ? 1u : 0u)));
}

Status GpuUpdate::start_part() {
  bytes_ = std::min<uint64_t>(part_, before_.size() - at_);
  std::byte* next = staging_.data;
  PartOperands part{};
  const auto fill = [&](uint64_t& address, const std::byte* from) {
    if (from != nullptr) std::memcpy(next, from + at_, bytes_);
    address = reinterpret_cast<uint64_t>(next);
    next += part_;
  };
  if (operation_.kind != AtomicKind::fetch) fill(part.origin, operands_.data());
  if (operation_.kind == AtomicKind::compare_swap) fill(part.compare, operands_.data() + before_.size());
  result_ = next;
  fill(part.result, nullptr);
  auto ticket = launch_part(operation_, target_, runs_, at_, bytes_, part, staging_.memory);
  if (!ticket) return std::move(ticket).error();
  ticket_ = std::move(*ticket);
  return {};
}

Result<bool> GpuUpdate::poll() {
  WEFT_TRY(std::move(failed_));
  for (;;) {
    if (ticket_.pending()) {
      auto done = device::done(ticket_);
      if (!done) return std::move(done).error();
      if (!*done) return false;
    }
    if (bytes_ != 0) std::memcpy(before_.data() + at_, result_, bytes_);
    at_ += bytes_;
    if (at_ == before_.size()) return true;
    WEFT_TRY(start_part());
  }
}

void GpuUpdate::wait() {
  if (!ticket_.pending()) return;
  if (Status done = device::wait(ticket_); !done.ok()) failed_ = std::move(done);
}

}  // namespace weft::rma
