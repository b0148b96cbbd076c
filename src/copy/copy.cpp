// SPDX-License-Identifier: BSD-3-Clause
// The choice between kernels, copy engines, the CPU, and copies in parts.
#include "copy/copy.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/log.hpp"
#include "copy/double_buffer.hpp"
#include "datatype/shape.hpp"
#include "device/pool.hpp"
#include "device/time_slices.hpp"

namespace weft::copy {
namespace {

using datatype::Count;
using device::StreamRole;
using device::Ticket;
using Submitted = Result<Ticket>;

log::SlowPath scattered{"gpu.scattered_copy", "about 2 us for each run of bytes of the datatype"};

constexpr size_t kManyPieces = 64;
/// Copy engines are as fast for runs of at least kLongRunBytes. Batch copies, possibly by the resident
/// kernel, are as fast for a few short runs.
constexpr uint64_t kLongRunBytes = 256 << 10, kMaxListedRuns = 32, kMaxListedBytes = 32 << 10;
/// Plain bytes inside a GPU; copy engines serve larger copies.
constexpr uint64_t kMaxKernelCopyBytes = 1 << 20;
/// Smaller copies between layouts and host memory are not staged.
constexpr uint64_t kMaxUnstagedBytes = 256;
constexpr uint64_t kWorkspaceBytes = 8 << 20;  // packed at a time

Status finish(Submitted ticket) { return ticket ? device::wait(*ticket) : Status(std::move(ticket).error()); }

std::vector<device::CopyOp> runs_of(const View& view, uint64_t n) {
  if (view.type == nullptr) return {{view.data(), nullptr, n}};
  std::vector<device::CopyOp> runs;
  datatype::for_each_run(
      *view.type, view.count, static_cast<Count>(view.offset), static_cast<Count>(n),
      [&](Count at, Count length) {  // the address may be that of MPI_BOTTOM
        const uintptr_t run = reinterpret_cast<uintptr_t>(view.address) + static_cast<uintptr_t>(at);
        runs.push_back({reinterpret_cast<void*>(run), nullptr, static_cast<size_t>(length)});
      });
  return runs;
}

/// The copies of contiguous bytes of which a copy consists.
std::vector<device::CopyOp> pieces_of(const View& to, const View& from, uint64_t n) {
  const auto targets = runs_of(to, n), sources = runs_of(from, n);
  std::vector<device::CopyOp> pieces;
  pieces.reserve(std::max(targets.size(), sources.size()));
  size_t i = 0, j = 0, i_used = 0, j_used = 0;
  while (i < targets.size() && j < sources.size()) {
    const size_t length = std::min(targets[i].size - i_used, sources[j].size - j_used);
    pieces.push_back({static_cast<std::byte*>(targets[i].dst) + i_used,
                      static_cast<std::byte*>(sources[j].dst) + j_used, length});
    if ((i_used += length) == targets[i].size) ++i, i_used = 0;
    if ((j_used += length) == sources[j].size) ++j, j_used = 0;
  }
  return pieces;
}

void copy_by_cpu(const View& to, const View& from, uint64_t n) {
  if (to.type == nullptr && from.type == nullptr) {
    std::memcpy(to.data(), from.data(), n);
  } else if (to.type == nullptr) {
    (void)datatype::pack(*from.type, from.count, from.address, static_cast<Count>(from.offset), to.data(), n);
  } else if (from.type == nullptr) {
    (void)datatype::unpack(*to.type, to.count, to.address, static_cast<Count>(to.offset), from.data(), n);
  } else {
    for (const device::CopyOp& piece : pieces_of(to, from, n)) std::memcpy(piece.dst, piece.src, piece.size);
  }
}

/// Returns the layout of a view for kernels in the context of `near`.
Result<device::Shape> shape_of(const View& view, const device::Memory& near) {
  if (view.type == nullptr) return device::contiguous_shape(view.data());
  return datatype::shape_of(*view.type, view.count, view.address, static_cast<Count>(view.offset), near);
}

const device::Memory& gpu_of(const View& to, const View& from) {
  return to.memory.on_device() ? to.memory : from.memory;
}

bool wants_kernel(const View& view, const device::Shape& shape, uint64_t n) {
  if (view.type == nullptr || (shape.dimensions == 0 && shape.table == nullptr)) return false;
  const uint64_t length = std::max<uint64_t>(datatype::mean_run_length(shape), 1);
  return length < kLongRunBytes && (n > kMaxListedBytes || n / length > kMaxListedRuns);
}

/// Whether a pack kernel copies plain bytes. The driver would start a kernel of its own inside a GPU, which
/// cannot be cancelled on a fully occupied GPU; the resident kernel serves small copies, and copy engines
/// those in time slices.
bool wants_kernel_inside(const View& to, const View& from, uint64_t n) {
  const bool resident =
      to.memory.context != nullptr && from.memory.context != nullptr && n < kMaxKernelCopyBytes;
  return to.memory.on_device() && from.memory.on_device() && to.memory.device == from.memory.device &&
         !resident && !device::time_sliced(to.memory.device);
}

/// Submits a pack kernel; nullopt if none can be used or a copy engine is faster.
std::optional<Submitted> submit_kernel(const View& to, const View& from, uint64_t n, StreamRole stream) {
  const bool layouts = to.type != nullptr || from.type != nullptr;
  if (!layouts && !wants_kernel_inside(to, from, n)) return std::nullopt;
  if (!device::can_pack(to.memory, from.memory)) return std::nullopt;
  const device::Memory& near = gpu_of(to, from);
  const auto target = shape_of(to, near), source = shape_of(from, near);
  if (!target || !source) return std::nullopt;
  if (layouts && !wants_kernel(to, *target, n) && !wants_kernel(from, *source, n)) return std::nullopt;
  auto ticket = device::pack_async(*target, to.memory, *source, from.memory, n, stream);
  if (!ticket && ticket.error().code() == Errc::unsupported) return std::nullopt;
  return ticket;
}

/// Whether host memory that kernels cannot access is on one side, GPU memory on the other, and a layout with
/// many runs on one of them.
bool needs_staging(const View& to, const View& from, uint64_t n) {
  if ((to.type == nullptr && from.type == nullptr) || n <= kMaxUnstagedBytes ||
      to.memory.on_device() == from.memory.on_device())
    return false;
  const View& host = to.memory.on_device() ? from : to;
  return !host.memory.staging && !device::can_pack(to.memory, from.memory);
}

/// The CPU copies between host memory and pinned chunks.
Status copy_through(DoubleBuffer& buffer, const View& to, const View& from, uint64_t n, StreamRole stream) {
  if (from.memory.on_device())
    return buffer.download(from, n, stream, [&](std::byte* chunk, uint64_t at, size_t part) -> Status {
      copy_by_cpu(to.from(at), plain(chunk), part);
      return {};
    });
  WEFT_TRY(buffer.upload(to, n, stream, [&](std::byte* chunk, uint64_t at, size_t part) -> Status {
    copy_by_cpu(plain(chunk), from.from(at), part);
    return {};
  }));
  return buffer.wait();
}

/// Kernels pack in GPU memory, and copy engines copy from there to plain host memory or back.
Status copy_through(const device::Memory& workspace, const View& to, const View& from, uint64_t n,
                    StreamRole stream) {
  const View packed = plain(reinterpret_cast<void*>(workspace.base), workspace);
  for (uint64_t at = 0; at < n; at += kWorkspaceBytes) {
    const uint64_t part = std::min(kWorkspaceBytes, n - at);
    WEFT_TRY(finish(submit(packed, from.from(at), part, stream)));
    WEFT_TRY(finish(submit(to.from(at), packed, part, stream)));
  }
  return {};
}

/// Returns false if there is no memory for the copy.
Result<bool> copy_staged(const View& to, const View& from, uint64_t n, StreamRole stream) {
  const View& host = to.memory.on_device() ? from : to;
  const device::Memory& gpu = gpu_of(to, from);
  if (host.type != nullptr || host.memory.kind != device::MemoryKind::host_pinned) {
    if (auto buffer = DoubleBuffer::lease(gpu, n)) {
      WEFT_TRY(copy_through(*buffer, to, from, n, stream));
      return true;
    }
  }
  if (host.type != nullptr) return false;
  auto workspace = device::Workspace::lease(gpu, std::min(n, kWorkspaceBytes));
  if (!workspace) return false;
  WEFT_TRY(copy_through(workspace->memory(), to, from, n, stream));
  return true;
}

}  // namespace

Result<Ticket> submit(const View& to, const View& from, uint64_t n, StreamRole stream) {
  if (needs_staging(to, from, n)) {
    auto copied = copy_staged(to, from, n, stream);
    if (!copied) return std::move(copied).error();
    if (*copied) return Ticket();
  }
  if (auto packed = submit_kernel(to, from, n, stream)) return std::move(*packed);
  if (to.type == nullptr && from.type == nullptr)
    return device::copy_async(to.data(), to.memory, from.data(), from.memory, n, stream);
  const auto pieces = pieces_of(to, from, n);
  if (pieces.size() > kManyPieces && n / pieces.size() < kLongRunBytes)
    scattered.hit("no kernel reaches both sides, or supports the datatype");
  return device::copy_batch_async(pieces.data(), pieces.size(), to.memory, from.memory, stream);
}

Status execute(const View& to, const View& from, uint64_t n, StreamRole stream) {
  if (n == 0) return {};
  if (!to.memory.on_device() && !from.memory.on_device()) {
    copy_by_cpu(to, from, n);
    return {};
  }
  return finish(submit(to, from, n, stream));
}

Result<Ticket> submit_shape(const View& to, const device::Shape& from, const device::Memory& from_memory,
                            uint64_t n, StreamRole stream) {
  if (!device::can_pack(to.memory, from_memory))
    return Error(Errc::unsupported, "no kernel reaches both sides");
  auto target = shape_of(to, to.memory);
  if (!target) return std::move(target).error();
  return device::pack_async(*target, to.memory, from, from_memory, n, stream);
}

Result<Ticket> submit_tile_sync(const View& to, const View& from, uint64_t n, const device::TileSync& sync,
                                StreamRole stream) {
  const device::Memory& near = gpu_of(to, from);
  if (!device::can_pack(to.memory, from.memory) || !device::can_sync_tiles(near))
    return Error(Errc::unsupported, "no kernel reaches both sides");
  auto target = shape_of(to, near), source = shape_of(from, near);
  if (!target) return std::move(target).error();
  if (!source) return std::move(source).error();
  return device::pack_async(*target, to.memory, *source, from.memory, n, stream, sync);
}

}  // namespace weft::copy
