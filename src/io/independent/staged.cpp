// SPDX-License-Identifier: BSD-3-Clause
#include "io/independent/staged.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "coll/schedule/copy.hpp"
#include "device/memory.hpp"
#include "device/pinned.hpp"
#include "io/independent/access.hpp"
#include "io/independent/direct.hpp"
#include "io/view/typed_buffer.hpp"

namespace weft::io {
namespace {

constexpr int64_t kPageableChunkBytes = 1 << 20;

log::SlowPath pageable("io.pageable_staging",
                       "file accesses of GPU memory go through pageable instead of pinned host memory");

void* first_byte(const p2p::Buffer& memory) { return coll::advance(memory.address, memory.type->true_lb()); }

Result<int64_t> access_range(const IndependentAccess& access, int64_t offset, const p2p::Buffer& memory,
                             int64_t bytes) {
  if (!access.write)
    return read_independent(access.target, *access.view, access.stream + offset, memory, bytes);
  WEFT_TRY(write_independent(access.target, *access.view, access.stream + offset, memory, bytes));
  return bytes;
}

/// One chunk of an access of device memory.
struct Chunk {
  device::PinnedBuffer pinned;
  std::unique_ptr<std::byte[]> pageable;
  int64_t offset = 0, bytes = 0, moved = 0;
  FileJob job;
  [[nodiscard]] p2p::Buffer host(int64_t n) const {
    return p2p::host_bytes(pinned ? static_cast<void*>(pinned.data()) : pageable.get(),
                           static_cast<size_t>(n));
  }
};

/// Leases pinned memory for the chunks, or allocates pageable memory. Returns the size of each. In atomic
/// mode one lock must cover the access, so it has one chunk.
int64_t prepare(const IndependentAccess& access, Chunk (&chunks)[2]) {
  int64_t size = access.bytes;
  if (!access.target.atomic.load(std::memory_order_relaxed)) {
    const device::Memory near = device::classify(first_byte(access.memory));
    auto first = device::lease_pinned(near), second = device::lease_pinned(near);
    if (first && second) {
      chunks[0].pinned = std::move(*first);
      chunks[1].pinned = std::move(*second);
      return static_cast<int64_t>(chunks[0].pinned.size());
    }
    pageable.hit((first ? second : first).error().message());
    size = std::min(size, kPageableChunkBytes);
  }
  for (Chunk& chunk : chunks) chunk.pageable.reset(new std::byte[static_cast<size_t>(size)]);
  return size;
}

Status copy(const IndependentAccess& access, const Chunk& chunk, int64_t n) {
  if (n == 0) return {};
  TypedBuffer user;
  WEFT_TRY(user.slice(access.memory, chunk.offset, n));
  return access.write ? coll::local_copy(chunk.host(n), user.get())
                      : coll::local_copy(user.get(), chunk.host(n));
}

void submit(Operation& operation, const IndependentAccess& access, Chunk& chunk) {
  chunk.job.submit(*access.target.pool, operation.instance, [&access, &chunk]() -> Status {
    auto moved = access_range(access, chunk.offset, chunk.host(chunk.bytes), chunk.bytes);
    if (!moved) return std::move(moved).error();
    chunk.moved = *moved;
    return {};
  });
}

Task access_staged(Operation& operation, const IndependentAccess& access, int64_t& total) {
  Chunk chunks[2];
  const int64_t size = prepare(access, chunks);
  Status outcome;
  const auto keep = [&outcome](Status status) {
    if (outcome.ok()) outcome = std::move(status);
  };
  bool ended = false;  // by an error or at the end of the file
  const int64_t count = (access.bytes + size - 1) / size;
  // Chunk i is begun while chunk i - 1 is in flight.
  for (int64_t i = 0; i <= count; ++i) {
    Chunk& chunk = chunks[i % 2];
    if (i < count && !ended) {
      chunk.offset = i * size;
      chunk.bytes = std::min(size, access.bytes - chunk.offset);
      if (access.write) keep(copy(access, chunk, chunk.bytes));
      if (outcome.ok()) submit(operation, access, chunk);
    }
    if (i == 0) continue;
    Chunk& previous = chunks[(i - 1) % 2];
    Task finish = finish_job(operation, previous.job);
    keep(co_await finish);
    if (!ended && outcome.ok()) {
      if (!access.write) keep(copy(access, previous, previous.moved));
      total += previous.moved;
    }
    ended |= !outcome.ok() || previous.moved < previous.bytes;
  }
  co_return outcome;
}

/// A part of an access. `memory` holds its datatype.
IndependentAccess part_of(const IndependentAccess& access, const Range& part, const TypedBuffer& memory) {
  return {access.target, access.view, access.stream + part.first, memory.get(), part.bytes(), access.write};
}

/// The bytes that cuFile cannot transfer go through host memory. `total`: the bytes moved, in order.
Task access_device(Operation& operation, const IndependentAccess& access, int64_t& total) {
  const Range direct = direct_part(access);
  if (direct.empty()) {
    Task staged = access_staged(operation, access, total);
    co_return co_await staged;
  }
  if (const Range head{0, direct.first}; !head.empty()) {
    TypedBuffer memory;
    WEFT_CO_TRY(memory.slice(access.memory, 0, head.bytes()));
    const IndependentAccess part = part_of(access, head, memory);
    Task staged = access_staged(operation, part, total);
    WEFT_CO_TRY(co_await staged);
    if (total < head.bytes()) co_return Status();  // the end of the file
  }
  int64_t moved = 0;
  Task transfer = access_direct(operation, access, direct, moved);
  Status outcome = co_await transfer;
  total += moved;
  if (!outcome.ok() && outcome.error().code() != Errc::unsupported) co_return outcome;
  const Range tail{total, access.bytes};
  if (tail.empty()) co_return Status();
  TypedBuffer memory;
  WEFT_CO_TRY(memory.slice(access.memory, tail.first, tail.bytes()));
  const IndependentAccess part = part_of(access, tail, memory);
  int64_t rest = 0;
  Task staged = access_staged(operation, part, rest);
  outcome = co_await staged;
  total += rest;
  co_return outcome;
}

}  // namespace

bool on_device(const p2p::Buffer& memory) {
  if (!device::available() || memory.count == 0) return false;
  return device::classify(first_byte(memory)).on_device();
}

Task finish_job(Operation& operation, FileJob& job) {
  operation.awaited = job.state();
  co_await job;
  operation.awaited.reset();
  co_return job.take();
}

Task access_independent(Operation& operation, IndependentAccess access) {
  int64_t moved = 0;
  Status outcome;
  if (on_device(access.memory)) {
    Task device = access_device(operation, access, moved);
    outcome = co_await device;
  } else {
    FileJob job;
    job.submit(*access.target.pool, operation.instance, [&access, &moved]() -> Status {
      auto done = access_range(access, 0, access.memory, access.bytes);
      if (!done) return std::move(done).error();
      moved = *done;
      return {};
    });
    Task finish = finish_job(operation, job);
    outcome = co_await finish;
  }
  operation.completion.bytes = static_cast<uint64_t>(moved);
  co_return outcome;
}

}  // namespace weft::io
