// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/memory/device_copy.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/log.hpp"
#include "datatype/shape.hpp"
#include "device/pinned.hpp"

namespace weft::p2p {
namespace {

using datatype::Count;

/// A memory run of a range of a view's packed stream.
struct Run {
  std::byte* at;
  size_t length;
};

std::vector<Run> runs_of(const View& view, uint64_t offset, uint64_t n) {
  if (view.type == nullptr) return {{view.address + offset, n}};
  std::vector<Run> runs;
  datatype::for_each_run(*view.type, view.count, static_cast<Count>(offset), static_cast<Count>(n),
                         [&](Count at, Count length) {
                           runs.push_back({view.address + at, static_cast<size_t>(length)});
                         });
  return runs;
}

/// Returns the layout of a view for kernels in the context of `near`.
Result<device::Shape> shape_of(const View& view, uint64_t offset, const device::Memory& near) {
  if (view.type == nullptr) return device::contiguous_shape(view.address + offset);
  return datatype::shape_of(*view.type, view.count, view.address, static_cast<Count>(offset), near);
}

log::SlowPath scattered{"gpu.scattered_copy", "about 2 us for each run of bytes of the datatype"};
constexpr size_t kManyPieces = 64;

/// Copy engines are as fast for runs of at least kLongRunBytes. Batch copies, possibly by the resident
/// kernel, are as fast for a few short runs.
constexpr uint64_t kLongRunBytes = 256 << 10, kMaxListedRuns = 32, kMaxListedBytes = 32 << 10;

bool wants_kernel(const View& view, const device::Shape& shape, uint64_t n) {
  if (view.type == nullptr || (shape.dimensions == 0 && shape.table == nullptr)) return false;
  const uint64_t length = std::max<uint64_t>(datatype::mean_run_length(shape), 1);
  return length < kLongRunBytes && (n > kMaxListedBytes || n / length > kMaxListedRuns);
}

/// Submits a pack kernel; nullopt if none can be used or a copy engine is faster.
std::optional<Result<device::Ticket>> submit_kernel(const View& to, uint64_t to_offset, const View& from,
                                                    uint64_t from_offset, uint64_t n,
                                                    device::StreamRole stream) {
  if (!device::can_pack(to.memory, from.memory)) return std::nullopt;
  const device::Memory& near = to.memory.on_device() ? to.memory : from.memory;
  const auto target = shape_of(to, to_offset, near), source = shape_of(from, from_offset, near);
  if (!target || !source || (!wants_kernel(to, *target, n) && !wants_kernel(from, *source, n)))
    return std::nullopt;
  auto ticket = device::pack_async(*target, to.memory, *source, from.memory, n, stream);
  if (!ticket && ticket.error().code() == Errc::unsupported) return std::nullopt;
  return ticket;
}

constexpr uint64_t kMaxKernelCopyBytes = 1
                                         << 20;  // plain bytes inside a GPU; copy engines serve larger copies

/// Copies plain bytes inside a GPU by a pack kernel, unless the resident kernel serves them. The driver would
/// start a kernel of its own, which cannot be cancelled on a fully occupied GPU.
std::optional<Result<device::Ticket>> submit_inside(std::byte* to, const device::Memory& to_memory,
                                                    const std::byte* from, const device::Memory& from_memory,
                                                    uint64_t n, device::StreamRole stream) {
  const bool inside =
      to_memory.on_device() && from_memory.on_device() && to_memory.device == from_memory.device;
  const bool resident =
      to_memory.context != nullptr && from_memory.context != nullptr && n < kMaxKernelCopyBytes;
  if (!inside || resident || !device::can_pack(to_memory, from_memory)) return std::nullopt;
  auto ticket =
      device::pack_async(device::contiguous_shape(to), to_memory,
                         device::contiguous_shape(const_cast<std::byte*>(from)), from_memory, n, stream);
  if (!ticket && ticket.error().code() == Errc::unsupported) return std::nullopt;
  return ticket;
}

Result<device::Ticket> submit_ranges(const View& to, uint64_t to_offset, const View& from,
                                     uint64_t from_offset, uint64_t n, device::StreamRole stream) {
  if (to.type == nullptr && from.type == nullptr) {
    std::byte* const target = to.address + to_offset;
    const std::byte* const source = from.address + from_offset;
    if (auto inside = submit_inside(target, to.memory, source, from.memory, n, stream))
      return std::move(*inside);
    return device::copy_async(target, to.memory, source, from.memory, n, stream);
  }
  if (auto packed = submit_kernel(to, to_offset, from, from_offset, n, stream)) return std::move(*packed);
  const auto targets = runs_of(to, to_offset, n), sources = runs_of(from, from_offset, n);
  std::vector<device::CopyOp> pieces;
  pieces.reserve(std::max(targets.size(), sources.size()));
  size_t i = 0, j = 0, i_used = 0, j_used = 0;
  while (i < targets.size() && j < sources.size()) {
    const size_t length = std::min(targets[i].length - i_used, sources[j].length - j_used);
    pieces.push_back({targets[i].at + i_used, sources[j].at + j_used, length});
    if ((i_used += length) == targets[i].length) ++i, i_used = 0;
    if ((j_used += length) == sources[j].length) ++j, j_used = 0;
  }
  if (pieces.size() > kManyPieces) scattered.hit("no kernel reaches both sides, or supports the datatype");
  return device::copy_batch_async(pieces.data(), pieces.size(), to.memory, from.memory, stream);
}

}  // namespace

View view_of(const Transfer& t) { return {t.data(), t.contiguous ? nullptr : t.type, t.count, t.memory}; }

Result<device::Ticket> submit(const View& to, const View& from, uint64_t bytes, device::StreamRole stream) {
  return submit_ranges(to, 0, from, 0, bytes, stream);
}

Result<device::Ticket> submit_part(const View& to, uint64_t offset, const View& from, size_t n,
                                   device::StreamRole stream) {
  return submit_ranges(to, offset, from, 0, n, stream);
}

Result<device::Ticket> submit_from(const View& to, const device::Shape& from,
                                   const device::Memory& from_memory, uint64_t bytes,
                                   device::StreamRole stream) {
  if (!device::can_pack(to.memory, from_memory))
    return Error(Errc::unsupported, "no kernel reaches both sides");
  auto target = shape_of(to, 0, to.memory);
  if (!target) return std::move(target).error();
  return device::pack_async(*target, to.memory, from, from_memory, bytes, stream);
}

Result<device::Ticket> submit_tile_sync(const View& to, const View& from, uint64_t bytes,
                                        const device::TileSync& sync, device::StreamRole stream) {
  const device::Memory& near = to.memory.on_device() ? to.memory : from.memory;
  if (!device::can_pack(to.memory, from.memory) || !device::can_sync_tiles(near))
    return Error(Errc::unsupported, "no kernel reaches both sides");
  auto target = shape_of(to, 0, near), source = shape_of(from, 0, near);
  if (!target) return std::move(target).error();
  if (!source) return std::move(source).error();
  return device::pack_async(*target, to.memory, *source, from.memory, bytes, stream, sync);
}

Result<device::Ticket> submit_part_out(const View& to, const View& from, uint64_t offset, size_t n,
                                       device::StreamRole stream) {
  return submit_ranges(to, 0, from, offset, n, stream);
}

namespace {

/// Packs through a pinned chunk, since kernels pack into pinned memory only. Returns false if no chunk is
/// free.
Result<bool> pack_through_pinned(const Transfer& t, std::byte* to) {
  auto pinned = device::lease_pinned(t.memory);
  if (!pinned) return false;
  const View chunk{reinterpret_cast<std::byte*>(pinned->data()), nullptr, 0, pinned->memory()};
  for (uint64_t offset = 0; offset < t.bytes;) {
    const size_t n = std::min<uint64_t>(pinned->size(), t.bytes - offset);
    auto ticket = submit_part_out(chunk, view_of(t), offset, n, device::StreamRole::out);
    if (!ticket) return std::move(ticket).error();
    WEFT_TRY(device::wait(*ticket));
    std::memcpy(to + offset, chunk.address, n);
    offset += n;
  }
  return true;
}

}  // namespace

Status pack_out(const Transfer& t, std::byte* to) {
  if (t.bytes == 0) return {};
  if (!device_side(t)) return t.pack(0, to, t.bytes), Status{};
  if (!t.contiguous) {
    auto packed = pack_through_pinned(t, to);
    if (!packed) return std::move(packed).error();
    if (*packed) return {};
  }
  auto ticket = submit_part_out({to, nullptr, 0, {}}, view_of(t), 0, t.bytes, device::StreamRole::out);
  if (!ticket) return std::move(ticket).error();
  return device::wait(*ticket);
}

}  // namespace weft::p2p
