// SPDX-License-Identifier: BSD-3-Clause
#include "io/independent/staged.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "coll/schedule/call.hpp"
#include "copy/copy.hpp"
#include "copy/host_chunk.hpp"
#include "device/memory.hpp"
#include "io/independent/access.hpp"
#include "io/independent/direct.hpp"
#include "io/independent/resident.hpp"

namespace weft::io {
namespace {

config::Size staging{
    "io.staging_bytes", size_t{4} << 20, size_t{64} << 10, size_t{1} << 30,
    "Pinned host memory in bytes for one access of GPU memory to a file, in two halves: one is copied while "
    "the other is read or written. At most gpu.staging_bytes for all accesses."};

constexpr int64_t kPageableBytes = 1 << 20;

log::SlowPath pageable("io.pageable_staging",
                       "file accesses of GPU memory go through pageable instead of pinned host memory");

void* first_byte(const p2p::Buffer& memory) { return coll::advance(memory.address, memory.type->true_lb()); }

Result<int64_t> access_range(const IndependentAccess& access, int64_t offset, const p2p::Buffer& memory,
                             int64_t bytes, bool parallel = false) {
  if (!access.write)
    return read_independent(access.target, *access.view, access.stream + offset, memory, bytes);
  WEFT_TRY(write_independent(access.target, *access.view, access.stream + offset, memory, bytes, parallel));
  return bytes;
}

/// Half of the staging memory of an access, in parts of equal size, with the bytes that it holds.
struct Half {
  std::vector<copy::HostChunk> chunks;
  int64_t part_bytes = 0;
  int64_t offset = 0, bytes = 0, moved = 0;
  std::vector<device::Ticket> copies;
  FileJob job;
  /// Calls visit(offset in the half, host memory, bytes) for the parts of the first `n` bytes until it
  /// returns false.
  template <class Visit>
  void for_each_part(int64_t n, Visit&& visit) const {
    for (int64_t at = 0; at < n; at += part_bytes) {
      const copy::HostChunk& chunk = chunks[static_cast<size_t>(at / part_bytes)];
      if (!visit(at, chunk.view(), std::min(part_bytes, n - at))) return;
    }
  }
};

/// The steps of an access, each in one half.
struct Steps {
  int64_t bytes, size;
  int64_t first = size;  ///< of the first step
  /// Step i begins here and ends where the next one begins.
  [[nodiscard]] int64_t begin(int64_t i) const {
    return i == 0 ? 0 : std::min(bytes, first + (i - 1) * size);
  }
  [[nodiscard]] int64_t count() const { return first >= bytes ? 1 : 1 + (bytes - first + size - 1) / size; }
};

/// All steps but the first one begin at multiples of a part in the file, so that no page and no aligned run
/// of the view is cut into two writes.
Steps aligned_steps(const IndependentAccess& access, int64_t parts, int64_t part_bytes) {
  Steps steps{access.bytes, parts * part_bytes};
  if (steps.size >= access.bytes) return steps;
  const View& view = *access.view;
  const bool adjacent = view.adjacent(access.stream, access.bytes);
  steps.first -= (adjacent ? view.position(access.stream) : access.stream) % part_bytes;
  return steps;
}

/// Leases pinned memory for the halves, or allocates pageable memory. In atomic mode one lock must cover the
/// access, so it has one step of one part.
Steps prepare(const IndependentAccess& access, const device::Memory& near, Half (&halves)[2]) {
  int64_t size = access.bytes;
  if (!access.target.atomic.load(std::memory_order_relaxed)) {
    for (int64_t leased = 0, half_bytes = 0; half_bytes < access.bytes;) {
      auto first = copy::HostChunk::lease(near), second = copy::HostChunk::lease(near);
      if (!first || !second) {
        if (half_bytes == 0) pageable.hit((first ? second : first).error().message());
        break;
      }
      const auto part = static_cast<int64_t>(first->size());
      leased += 2 * part;
      half_bytes += part;
      halves[0].chunks.push_back(std::move(*first));
      halves[1].chunks.push_back(std::move(*second));
      halves[0].part_bytes = halves[1].part_bytes = part;
      if (leased + 2 * part > static_cast<int64_t>(size_t{staging})) break;
    }
    if (const auto parts = static_cast<int64_t>(halves[0].chunks.size()); parts != 0)
      return aligned_steps(access, parts, halves[0].part_bytes);
    size = std::min(size, kPageableBytes);
  }
  for (Half& half : halves) {
    half.chunks.push_back(copy::HostChunk::pageable(static_cast<size_t>(size)));
    half.part_bytes = size;
  }
  return aligned_steps(access, 1, size);
}

/// Starts copies of the first `n` bytes of a half from (write) or to the program's memory.
Status start_copy(const IndependentAccess& access, const device::Memory& memory, Half& half, int64_t n) {
  WEFT_ASSERT(!half.job.running() && half.copies.empty());  // I1
  const copy::View user =
      copy::typed(access.memory.address, access.memory.count, *access.memory.type, memory);
  Status outcome;
  half.for_each_part(n, [&](int64_t at, const copy::View& host, int64_t bytes) {
    const copy::View part = user.from(static_cast<uint64_t>(half.offset + at));
    auto ticket = copy::submit(access.write ? host : part, access.write ? part : host,
                               static_cast<uint64_t>(bytes), device::StreamRole::local);
    if (ticket)
      half.copies.push_back(std::move(*ticket));
    else
      outcome = std::move(ticket).error();
    return outcome.ok();
  });
  return outcome;
}

/// Waits for all copies of a half. Returns `started` or the first error after it.
Status finish_copy(Half& half, Status started) {
  for (device::Ticket& ticket : half.copies) {
    Status done = device::wait(ticket);
    if (started.ok()) started = std::move(done);
  }
  half.copies.clear();
  return started;
}

/// `parallel`: the other half may be accessed at the same time.
void submit(Operation& operation, const IndependentAccess& access, Half& half, bool parallel) {
  half.moved = 0;
  half.job.submit(*access.target.pool, operation.instance, [&access, &half, parallel]() -> Status {
    Status outcome;
    half.for_each_part(half.bytes, [&](int64_t at, const copy::View& host, int64_t bytes) {
      const p2p::Buffer buffer = p2p::host_bytes(host.data(), static_cast<size_t>(bytes));
      auto moved = access_range(access, half.offset + at, buffer, bytes, parallel);
      if (!moved) {
        outcome = std::move(moved).error();
        return false;
      }
      half.moved += *moved;
      return *moved == bytes;
    });
    return outcome;
  });
}

/// Copies one half while a job writes the other. Two jobs at a time if they write through mappings, else one:
/// two threads would wait for each other at the lock of the file.
Task write_staged(Operation& operation, const IndependentAccess& access, int64_t& total) {
  Half halves[2];
  const device::Memory memory = device::classify(first_byte(access.memory));
  const Steps steps = prepare(access, memory, halves);
  const bool parallel = may_write_resident(access.target, *access.view, access.stream, access.bytes);
  Status outcome;
  for (int64_t i = 0; i < steps.count() && outcome.ok(); ++i) {
    Half& half = halves[i % 2];
    if (parallel) {
      Task finish = finish_job(operation, half.job);
      outcome = co_await finish;
    }
    half.offset = steps.begin(i);
    half.bytes = steps.begin(i + 1) - half.offset;
    Status copied = start_copy(access, memory, half, half.bytes);
    if (!parallel) {
      Task finish = finish_job(operation, halves[(i + 1) % 2].job);
      outcome = co_await finish;
    }
    copied = finish_copy(half, std::move(copied));
    if (outcome.ok()) outcome = std::move(copied);
    if (outcome.ok()) submit(operation, access, half, parallel);
  }
  for (Half& half : halves) {
    Task finish = finish_job(operation, half.job);
    Status last = co_await finish;
    if (outcome.ok()) outcome = std::move(last);
  }
  if (outcome.ok()) total += access.bytes;
  co_return outcome;
}

/// Two jobs read at the same time; one half is copied while the other is read.
Task read_staged(Operation& operation, const IndependentAccess& access, int64_t& total) {
  Half halves[2];
  const device::Memory memory = device::classify(first_byte(access.memory));
  const Steps steps = prepare(access, memory, halves);
  Status outcome;
  bool ended = false;  // by an error or at the end of the file
  const int64_t count = steps.count();
  // Step i is begun while step i - 1 is in flight.
  for (int64_t i = 0; i <= count; ++i) {
    Half& half = halves[i % 2];
    if (i < count && !ended) {
      half.offset = steps.begin(i);
      half.bytes = steps.begin(i + 1) - half.offset;
      submit(operation, access, half, true);
    }
    if (i == 0) continue;
    Half& previous = halves[(i - 1) % 2];
    Task finish = finish_job(operation, previous.job);
    Status read = co_await finish;
    if (outcome.ok()) outcome = std::move(read);
    if (!ended && outcome.ok()) {
      outcome = finish_copy(previous, start_copy(access, memory, previous, previous.moved));
      total += previous.moved;
    }
    ended |= !outcome.ok() || previous.moved < previous.bytes;
  }
  co_return outcome;
}

Task access_staged(Operation& operation, const IndependentAccess& access, int64_t& total) {
  Task staged = access.write ? write_staged(operation, access, total) : read_staged(operation, access, total);
  co_return co_await staged;
}

/// A part of an access of contiguous memory.
IndependentAccess part_of(const IndependentAccess& access, const Range& part) {
  p2p::Buffer memory =
      p2p::host_bytes(coll::advance(access.memory.address, part.first), static_cast<size_t>(part.bytes()));
  memory.memory = access.memory.memory;
  return {access.target, access.view, access.stream + part.first, memory, part.bytes(), access.write};
}

/// The bytes that cuFile cannot transfer go through host memory. `total`: the bytes moved, in order.
Task access_device(Operation& operation, const IndependentAccess& access, int64_t& total) {
  const Range direct = direct_part(access);
  if (direct.empty()) {
    Task staged = access_staged(operation, access, total);
    co_return co_await staged;
  }
  if (const Range head{0, direct.first}; !head.empty()) {
    const IndependentAccess part = part_of(access, head);
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
  const IndependentAccess part = part_of(access, tail);
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
    job.submit(
        *access.target.pool, operation.instance,
        [&access, &moved]() -> Status {
          auto done = access_range(access, 0, access.memory, access.bytes);
          if (!done) return std::move(done).error();
          moved = *done;
          return {};
        },
        operation.blocking ? Runner::waiter : Runner::pool);
    Task finish = finish_job(operation, job);
    outcome = co_await finish;
  }
  operation.completion.bytes = static_cast<uint64_t>(moved);
  co_return outcome;
}

}  // namespace weft::io
