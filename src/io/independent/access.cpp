// SPDX-License-Identifier: BSD-3-Clause
// Independent accesses. Noncontiguous memory is gathered with iovecs where its runs are long, else packed in
// blocks. Noncontiguous files are read with data sieving where gaps are small: reading a gap costs less than
// a system call. Written gaps could be those of another process, so many short runs are written through a
// mapping of a local file, and writes sieve under exclusive locks only.
#include "io/independent/access.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "base/counters.hpp"
#include "io/backend/error.hpp"
#include "io/backend/mapping.hpp"

namespace weft::io {
namespace {

counters::Counter mapped_writes("io.mapped_writes", counters::Unit::events,
                                "Blocks of many short runs written through a mapping of the file");

constexpr int64_t kBlockBytes = int64_t{1} << 20;   // packed at once
constexpr int64_t kVectorRunBytes = 8 << 10;        // mean length of runs from which iovecs are used
constexpr size_t kMaxParts = 512;                   // iovecs of one system call; below IOV_MAX
constexpr int64_t kSieveGapBytes = 16 << 10;        // mean gap up to which a read sieves
constexpr int64_t kCachedGapBytes = 2 << 10;        // the same on local files: what a system call copies
constexpr int64_t kMappedBytes = int64_t{1} << 20;  // mapped at once
constexpr int64_t kPageBytes = 4096;

/// A run of the file and its place in the stream of the access.
struct FileRun {
  int64_t at, length, stream;
};

/// The memory of an access as a stream, of which blocks are accessed in order.
class MemoryStream {
 public:
  explicit MemoryStream(const p2p::Buffer& memory) : memory_(memory), type_(*memory.type) {
    contiguous_ = type_.contiguous();
  }
  /// Whether the bytes of the stream are adjacent in memory.
  [[nodiscard]] bool contiguous() const { return contiguous_; }
  [[nodiscard]] std::byte* data(int64_t stream) const {
    return static_cast<std::byte*>(memory_.address) + stream;
  }
  void copy_to(std::byte* out, int64_t stream, int64_t n) const {
    if (contiguous_)
      std::memcpy(out, data(stream), static_cast<size_t>(n));
    else
      pack(stream, out, n);
  }
  void pack(int64_t stream, std::byte* out, int64_t n) const {
    datatype::pack(type_, memory_.count, memory_.address, stream, out, static_cast<size_t>(n));
  }
  void unpack(int64_t stream, const std::byte* in, int64_t n) const {
    datatype::unpack(type_, memory_.count, memory_.address, stream, in, static_cast<size_t>(n));
  }
  /// Returns iovecs of the stream from `stream`, at most `n` bytes, and the bytes that they hold. Empty if
  /// the runs are short.
  int64_t parts(int64_t stream, int64_t n, std::vector<iovec>& out) const {
    out.clear();
    int64_t bytes = 0;
    datatype::for_each_run(type_, memory_.count, stream, n, [&](datatype::Count at, datatype::Count length) {
      auto* address = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(memory_.address) +
                                                   static_cast<uintptr_t>(at));
      out.push_back({address, static_cast<size_t>(length)});
      bytes += length;
      return out.size() < kMaxParts;
    });
    if (bytes < kVectorRunBytes * static_cast<int64_t>(out.size())) out.clear();
    return bytes;
  }

 private:
  const p2p::Buffer& memory_;
  const datatype::Datatype& type_;
  bool contiguous_;
};

using Block = std::unique_ptr<std::byte[]>;

Block make_block(int64_t bytes) { return Block(new std::byte[static_cast<size_t>(bytes)]); }

/// Reads one run of the file. Returns the bytes read.
Result<int64_t> read_run(const Descriptor& file, const MemoryStream& memory, const FileRun& run,
                         Block& block) {
  if (memory.contiguous()) return file.read(memory.data(run.stream), run.length, run.at);
  std::vector<iovec> parts;
  int64_t done = 0;
  while (done < run.length) {
    int64_t n = memory.parts(run.stream + done, run.length - done, parts);
    Result<int64_t> read = int64_t{0};
    if (!parts.empty()) {
      read = file.read(parts.data(), static_cast<int>(parts.size()), run.at + done);
    } else {
      n = std::min(kBlockBytes, run.length - done);
      if (block == nullptr) block = make_block(kBlockBytes);
      read = file.read(block.get(), n, run.at + done);
      if (read) memory.unpack(run.stream + done, block.get(), *read);
    }
    if (!read) return read;
    done += *read;
    if (*read < n) break;
  }
  return done;
}

Status write_run(const Descriptor& file, const MemoryStream& memory, const FileRun& run, Block& block) {
  if (memory.contiguous()) return file.write(memory.data(run.stream), run.length, run.at);
  std::vector<iovec> parts;
  for (int64_t done = 0, n = 0; done < run.length; done += n) {
    n = memory.parts(run.stream + done, run.length - done, parts);
    if (!parts.empty()) {
      WEFT_TRY(file.write(parts.data(), static_cast<int>(parts.size()), run.at + done));
      continue;
    }
    n = std::min(kBlockBytes, run.length - done);
    if (block == nullptr) block = make_block(kBlockBytes);
    memory.pack(run.stream + done, block.get(), n);
    WEFT_TRY(file.write(block.get(), n, run.at + done));
  }
  return {};
}

/// Runs of the file that one sieving access covers.
struct Batch {
  std::vector<FileRun> runs;
  int64_t useful = 0;
  [[nodiscard]] Range span() const { return {runs.front().at, runs.back().at + runs.back().length}; }
  [[nodiscard]] int64_t mean_gap() const {
    return runs.size() < 2 ? 0 : (span().bytes() - useful) / static_cast<int64_t>(runs.size() - 1);
  }
  void add(const FileRun& run) {
    runs.push_back(run);
    useful += run.length;
  }
  void clear() {
    runs.clear();
    useful = 0;
  }
  [[nodiscard]] bool fits(const FileRun& run, int64_t limit) const {
    return runs.empty() || run.at + run.length - runs.front().at <= limit;
  }
};

/// Returns the bytes read of a batch.
Result<int64_t> read_batch(Target& target, const MemoryStream& memory, const Batch& batch, bool sieve,
                           Block& sieve_block, Block& block) {
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
  if (sieve_block == nullptr) sieve_block = make_block(target.hints.ind_rd_buffer_size);
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
  const Mapping mapping(target.descriptor, span);
  if (!mapping.valid()) return false;
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
  Block sieve_block, block;
  Batch batch;
  int64_t total = 0, at = 0;
  Status failed;
  const auto flush = [&] {
    if (batch.runs.empty()) return true;
    const bool sieve =
        ordered && (hints.romio_ds_read == Use::enable ||
                    (hints.romio_ds_read == Use::automatic && batch.mean_gap() <= most_gap));
    auto read = read_batch(target, to, batch, sieve, sieve_block, block);
    const int64_t wanted = batch.useful;
    batch.clear();
    if (!read) {
      failed = std::move(read).error();
      return false;
    }
    total += *read;
    return *read == wanted;
  };
  view.for_each_run(stream, bytes, [&](int64_t offset, int64_t length) {
    const FileRun run{offset, length, at};
    at += length;
    if (!batch.fits(run, hints.ind_rd_buffer_size) && !flush()) return false;
    batch.add(run);
    return length <= hints.ind_rd_buffer_size || flush();
  });
  if (failed.ok() && !batch.runs.empty()) (void)flush();
  if (!failed.ok()) return std::move(failed).error();
  return total;
}

Status write_independent(Target& target, const View& view, int64_t stream, const p2p::Buffer& memory,
                         int64_t bytes) {
  if (bytes == 0) return {};
  target.dirty.store(true, std::memory_order_relaxed);
  RangeLock lock;
  WEFT_TRY(lock_access(target, view, stream, bytes, true, lock));
  const MemoryStream from(memory);
  const bool sieve = target.sieves_writes;
  const bool map = target.mappable && target.hints.romio_ds_write == Use::automatic;
  int64_t limit = sieve ? target.hints.ind_wr_buffer_size : kMappedBytes;
  if (!view.ordered(stream, bytes)) limit = 0;  // each run alone
  Block sieve_block, block;
  Batch batch;
  int64_t at = 0;
  Status outcome;
  const auto flush = [&] {
    if (batch.runs.empty()) return true;
    if (sieve)
      outcome = write_sieved(target, from, batch, sieve_block, block);
    else if (!map || !write_mapped(target, from, batch))
      outcome = write_runs(target, from, batch, block);
    batch.clear();
    return outcome.ok();
  };
  view.for_each_run(stream, bytes, [&](int64_t offset, int64_t length) {
    const FileRun run{offset, length, at};
    at += length;
    if (!batch.fits(run, limit) && !flush()) return false;
    batch.add(run);
    return length <= limit || flush();
  });
  if (outcome.ok()) (void)flush();
  return outcome;
}

}  // namespace weft::io
