// SPDX-License-Identifier: BSD-3-Clause
// Independent accesses. Noncontiguous memory is gathered with iovecs where its runs are long, else packed in
// blocks. Noncontiguous files are read with data sieving where gaps are small: reading a gap costs less than
// a system call. Written gaps could be those of another process, so many short runs are written through a
// mapping of a local file, and writes sieve under exclusive locks only.
#include "io/independent/access.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/counters.hpp"
#include "io/backend/error.hpp"
#include "io/backend/mapping.hpp"
#include "io/independent/resident.hpp"

namespace weft::io {
namespace {

counters::Counter mapped_writes("io.mapped_writes", counters::Unit::events,
                                "Blocks of many short runs written through a mapping of the file");

constexpr int64_t kSieveGapBytes = 16 << 10;  // mean gap up to which a read sieves
constexpr int64_t kCachedGapBytes = 2 << 10;  // the same on local files: what a system call copies
constexpr int64_t kCachedSieveBytes = 256
                                      << 10;  // read at once on local files: stays in the processor's cache
constexpr int64_t kMappedBytes = int64_t{1} << 20;  // mapped at once

/// Returns the bytes read of a batch.
Result<int64_t> read_batch(Target& target, const MemoryStream& memory, const Batch& batch, bool sieve,
                           int64_t sieve_bytes, Block& sieve_block, Block& block) {
  int64_t total = 0;
  if (!sieve || batch.runs.size() == 1) {
    for (const FileRun& run : batch.runs) {
      auto read = read_run(target.descriptor, memory, run, block);
      if (!read) return read;
      total += *read;
      if (*read < run.length) break;
    }
    return total;
  }
  const Range span = batch.span();
  if (sieve_block == nullptr) sieve_block = make_block(sieve_bytes);
  auto read = target.descriptor.read(sieve_block.get(), span.bytes(), span.first);
  if (!read) return read;
  for (const FileRun& run : batch.runs) {
    const int64_t n = std::clamp<int64_t>(span.first + *read - run.at, 0, run.length);
    const std::byte* from = sieve_block.get() + (run.at - span.first);
    if (memory.contiguous())
      std::memcpy(memory.data(run.stream), from, static_cast<size_t>(n));
    else
      memory.unpack(run.stream, from, n);
    total += n;
    if (n < run.length) break;
  }
  return total;
}

/// Writes many short runs in place. Returns false, without effect on the bytes of the file, if they are few
/// or the file cannot be mapped. A page fault costs about as much as 1.5 system calls.
bool write_mapped(const Target& target, const MemoryStream& memory, const Batch& batch) {
  const Range span = batch.span();
  const int64_t pages = span.bytes() / kPageBytes + 1;
  if (static_cast<int64_t>(batch.runs.size()) * 2 < pages * 3) return false;
  if (!target.descriptor.provide(span)) return false;
  const Mapping mapping(target.descriptor, span, Mapping::Use::write);
  if (!mapping.valid() || !mapping.populate(span)) return false;
  for (const FileRun& run : batch.runs) memory.copy_to(mapping.at(run.at), run.stream, run.length);
  mapped_writes.add();
  return true;
}

Status write_runs(const Target& target, const MemoryStream& memory, const Batch& batch, Block& block) {
  for (const FileRun& run : batch.runs) WEFT_TRY(write_run(target.descriptor, memory, run, block));
  return {};
}

/// Data sieving.
Status write_sieved(Target& target, const MemoryStream& memory, const Batch& batch, Block& sieve_block,
                    Block& block) {
  const Range span = batch.span();
  RangeLock lock;
  if (!target.atomic.load(std::memory_order_relaxed)) WEFT_TRY(lock.take(target, span, true));
  if (batch.runs.size() == 1) return write_run(target.descriptor, memory, batch.runs.front(), block);
  if (sieve_block == nullptr) sieve_block = make_block(target.hints.ind_wr_buffer_size);
  auto read = target.descriptor.read(sieve_block.get(), span.bytes(), span.first);
  if (!read) return std::move(read).error();
  std::memset(sieve_block.get() + *read, 0, static_cast<size_t>(span.bytes() - *read));
  for (const FileRun& run : batch.runs) {
    memory.copy_to(sieve_block.get() + (run.at - span.first), run.stream, run.length);
  }
  return target.descriptor.write(sieve_block.get(), span.bytes(), span.first);
}

/// Locks the whole access in atomic mode.
Status lock_access(Target& target, const View& view, int64_t stream, int64_t bytes, bool write,
                   RangeLock& lock) {
  if (!target.atomic.load(std::memory_order_relaxed)) return {};
  if (!view.ordered(stream, bytes)) return lock.take(target, {0, std::numeric_limits<int64_t>::max()}, write);
  return lock.take(target, {view.position(stream), view.position(stream + bytes - 1) + 1}, write);
}

/// Gathers the runs of an access in batches within the limits; calls `flush` for each full batch, until it
/// returns false.
template <class Flush>
void for_each_batch(const View& view, int64_t stream, int64_t bytes, const Limits& limits, Batch& batch,
                    Flush&& flush) {
  int64_t at = 0;
  view.for_each_run(stream, bytes, [&](int64_t offset, int64_t length) {
    const FileRun run{offset, length, at};
    at += length;
    if (!batch.fits(run, limits) && !flush()) return false;
    batch.add(run);
    return length <= limits.bytes || flush();
  });
}

}  // namespace

Result<int64_t> read_independent(Target& target, const View& view, int64_t stream, const p2p::Buffer& memory,
                                 int64_t bytes) {
  if (bytes == 0) return int64_t{0};
  RangeLock lock;
  WEFT_TRY(lock_access(target, view, stream, bytes, false, lock));
  const MemoryStream to(memory);
  const Hints& hints = target.hints;
  const bool ordered = view.ordered(stream, bytes);
  const int64_t most_gap = target.mappable ? kCachedGapBytes : kSieveGapBytes;
  const UseResident use = use_of_read(target, view, stream, bytes, to);
  Limits limits{hints.ind_rd_buffer_size};
  if (target.mappable) limits.bytes = std::min(limits.bytes, kCachedSieveBytes);
  if (use != UseResident::never) limits = resident_limits();
  Block sieve_block, block;
  Batch batch;
  int64_t total = 0;
  Status failed;
  const auto flush = [&] {
    if (batch.runs.empty()) return true;
    const bool sieve = ordered && (hints.romio_ds_read == Use::enable ||
                                   (hints.romio_ds_read == Use::automatic && batch.mean_gap() <= most_gap));
    auto read = use != UseResident::never && maps_resident(batch, use)
                    ? access_resident(target, to, batch, false, use, block)
                    : read_batch(target, to, batch, sieve, limits.bytes, sieve_block, block);
    const int64_t wanted = batch.useful;
    batch.clear();
    if (!read) {
      failed = std::move(read).error();
      return false;
    }
    total += *read;
    return *read == wanted;
  };
  for_each_batch(view, stream, bytes, limits, batch, flush);
  if (failed.ok() && !batch.runs.empty()) (void)flush();
  if (!failed.ok()) return std::move(failed).error();
  return total;
}

Status write_independent(Target& target, const View& view, int64_t stream, const p2p::Buffer& memory,
                         int64_t bytes, bool parallel) {
  if (bytes == 0) return {};
  target.dirty.store(true, std::memory_order_relaxed);
  RangeLock lock;
  WEFT_TRY(lock_access(target, view, stream, bytes, true, lock));
  const MemoryStream from(memory);
  const bool sieve = target.sieves_writes;
  const bool map = target.mappable && target.hints.romio_ds_write == Use::automatic;
  const UseResident use = use_of_write(target, view, stream, bytes, from, parallel);
  Limits limits{sieve ? target.hints.ind_wr_buffer_size : kMappedBytes};
  if (use != UseResident::never) limits = resident_limits();
  if (!view.ordered(stream, bytes)) limits.bytes = 0;  // each run alone
  Block sieve_block, block;
  Batch batch;
  Status outcome;
  const auto flush = [&] {
    if (batch.runs.empty()) return true;
    if (sieve) {
      outcome = write_sieved(target, from, batch, sieve_block, block);
    } else if (use != UseResident::never && maps_resident(batch, use)) {
      auto written = access_resident(target, from, batch, true, use, block);
      if (!written) outcome = std::move(written).error();
    } else if (!map || !write_mapped(target, from, batch)) {
      outcome = write_runs(target, from, batch, block);
    }
    batch.clear();
    return outcome.ok();
  };
  for_each_batch(view, stream, bytes, limits, batch, flush);
  if (outcome.ok()) (void)flush();
  return outcome;
}

}  // namespace weft::io
