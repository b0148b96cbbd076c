// SPDX-License-Identifier: BSD-3-Clause
#include "io/independent/resident.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/counters.hpp"
#include "io/backend/copy.hpp"
#include "io/backend/mapping.hpp"

namespace weft::io {
namespace {

counters::Counter resident_reads("io.resident_reads", counters::Unit::events,
                                 "Parts of up to 4 MiB read through a mapping of pages that the file has");
counters::Counter resident_writes(
    "io.resident_writes", counters::Unit::events,
    "Parts of up to 4 MiB written through a mapping of pages that the file has");
counters::Counter cached_accesses("io.cached_accesses", counters::Unit::events,
                                  "Parts of up to 4 MiB of files that were mapped already: no page faults");

constexpr int64_t kGapBytes = int64_t{1} << 20;     // largest gap in a mapping: address space only
constexpr int64_t kOwnRunBytes = 64 << 10;          // from here on runs map only their own pages
constexpr int64_t kLeastBytes = 32 << 10;           // of a batch
constexpr int64_t kLeastMeasuredBytes = 256 << 10;  // of an access whose path is chosen by measurement
constexpr int64_t kMostShare = 4;                   // mapped bytes for each byte of the access

/// The methods of Target::first_reads and first_writes.
enum Method : size_t { kCalls, kMapping };

/// Methods of copying, of this process: the processor decides. By direction and length of runs.
Autotuner<kCopyMethods> copies[2][2];

bool long_runs(const View& view) { return view.contiguous || view.mean_run >= kOwnRunBytes; }

bool populates_own_pages(const Batch& batch) {
  return batch.runs.size() == 1 || batch.useful >= kOwnRunBytes * static_cast<int64_t>(batch.runs.size());
}

/// An access of a batch: what its windows have in common.
struct ResidentAccess {
  Target& target;
  const MemoryStream& memory;
  const Batch& batch;
  bool write, own_pages;
  Block& block;
};

/// Calls visit(range) for the pages of a window that an access needs, until it returns false.
template <class Visit>
void for_each_page_range(const ResidentAccess& access, const Range& window, Visit&& visit) {
  if (access.own_pages)
    for_each_part(access.batch, window, [&](const FileRun& part) {
      return visit(Range{part.at, part.at + part.length});
    });
  else
    visit(window);
}

bool is_cached(const ResidentAccess& access, const Range& window) {
  bool all = true;
  for_each_page_range(access, window,
                      [&](const Range& range) { return all = access.target.mapping_cache.has(range); });
  return all && access.target.descriptor.filled(window);
}

/// The pages of a window in the address space: of the mapping cache, or mapped for this access.
class Pages {
 public:
  Pages(const ResidentAccess& access, const Range& window) : access_(access), window_(window) {
    if (!access.own_pages) address_ = provide(window);
  }
  /// Address of a part of the window; null: system calls move it.
  [[nodiscard]] std::byte* at(const Range& part) {
    if (access_.own_pages) return provide(part);
    return address_ == nullptr ? nullptr : address_ + (part.first - window_.first);
  }

 private:
  std::byte* provide(const Range& range) {
    if (std::byte* const cached = access_.target.mapping_cache.provide(range); cached != nullptr)
      return cached;
    if (mapping_ == nullptr)
      mapping_ = std::make_unique<const Mapping>(access_.target.descriptor, window_,
                                                 access_.write ? Mapping::Use::write : Mapping::Use::read);
    return mapping_->valid() && mapping_->populate_resident(range) ? mapping_->at(range.first) : nullptr;
  }
  const ResidentAccess& access_;
  const Range window_;
  std::unique_ptr<const Mapping> mapping_;
  std::byte* address_ = nullptr;
};

/// Moves one window through `pages`; null: by system calls. Returns the bytes moved.
Result<int64_t> access_window(const ResidentAccess& access, const Range& window, Pages* pages,
                              CopyMethod method) {
  const MemoryStream& memory = access.memory;
  int64_t total = 0;
  bool used = false;
  Status failed;
  for_each_part(access.batch, window, [&](const FileRun& part) {
    std::byte* const at = pages == nullptr ? nullptr : pages->at({part.at, part.at + part.length});
    if (at != nullptr) {
      if (access.write)
        memory.copy_to(at, part.stream, part.length, method);
      else
        memory.copy_from(at, part.stream, part.length, method);
      total += part.length;
      used = true;
      return true;
    }
    if (access.write) {
      failed = write_run(access.target.descriptor, memory, part, access.block);
      if (failed.ok()) total += part.length;
      return failed.ok();
    }
    auto read = read_run(access.target.descriptor, memory, part, access.block);
    if (!read)
      failed = std::move(read).error();
    else
      total += *read;
    return read && *read == part.length;
  });
  if (used) (access.write ? resident_writes : resident_reads).add();
  WEFT_TRY(std::move(failed));
  return total;
}

/// The same, by the method that has taken the least time.
Result<int64_t> access_tuned(const ResidentAccess& access, const Range& window, UseResident use) {
  const bool cached = is_cached(access, window);
  Autotuner<kCopyMethods>& copy = copies[access.write ? 1 : 0][access.own_pages ? 1 : 0];
  Autotuner<2>& first = access.write ? access.target.first_writes : access.target.first_reads;
  const size_t copy_method = cached ? copy.next() : copy.best();
  size_t method = kMapping;
  if (!cached && use == UseResident::measured) method = first.next();
  if (!cached && use == UseResident::cached) method = kCalls;  // another process has changed the size
  const uint64_t begin = monotonic_ns();
  auto moved = [&] {
    if (method == kCalls) return access_window(access, window, nullptr, CopyMethod::cached);
    Pages pages(access, window);
    return access_window(access, window, &pages, static_cast<CopyMethod>(copy_method));
  }();
  if (!moved || *moved == 0) return moved;
  const uint64_t ns = monotonic_ns() - begin;
  if (cached) cached_accesses.add();
  if (cached)
    copy.add(copy_method, *moved, ns);
  else if (use == UseResident::measured)
    first.add(method, *moved, ns);
  return moved;
}

}  // namespace

bool is_resident(const Target& target, const View& view, int64_t stream, int64_t bytes) {
  return target.in_memory && bytes != 0 && view.ordered(stream, bytes) &&
         target.descriptor.filled({view.position(stream), view.position(stream + bytes - 1) + 1});
}

bool may_write_resident(const Target& target, const View& view, int64_t stream, int64_t bytes) {
  return target.mappable && target.hints.romio_ds_write == Use::automatic &&
         is_resident(target, view, stream, bytes);
}

UseResident use_of_write(const Target& target, const View& view, int64_t stream, int64_t bytes,
                         const MemoryStream& memory, bool parallel) {
  const bool always = target.contended || parallel;
  if (!always && (bytes < kLeastMeasuredBytes || !memory.contiguous() || !long_runs(view)))
    return UseResident::never;
  if (!may_write_resident(target, view, stream, bytes)) return UseResident::never;
  return always ? UseResident::always : UseResident::measured;
}

UseResident use_of_read(const Target& target, const View& view, int64_t stream, int64_t bytes,
                        const MemoryStream& memory) {
  if (bytes < kLeastBytes || target.hints.romio_ds_read != Use::automatic ||
      !is_resident(target, view, stream, bytes))
    return UseResident::never;
  if (target.mapping_cache.has({view.position(stream), view.position(stream + bytes - 1) + 1}))
    return UseResident::cached;
  const bool measured = bytes >= kLeastMeasuredBytes && memory.contiguous() && long_runs(view);
  return measured ? UseResident::measured : UseResident::never;
}

Limits resident_limits() { return {MappingCache::kWindowBytes, kGapBytes}; }

bool maps_resident(const Batch& batch, UseResident use) {
  const int64_t bytes = batch.span().bytes();
  return bytes >= kLeastBytes &&
         (use == UseResident::cached || populates_own_pages(batch) || batch.useful * kMostShare >= bytes);
}

Result<int64_t> access_resident(Target& target, const MemoryStream& memory, const Batch& batch, bool write,
                                UseResident use, Block& block) {
  if (write) {  // a system call sets the time of the file, and finds errors
    FileRun first = batch.runs.front();
    first.length = std::min(first.length, kPageBytes);
    WEFT_TRY(write_run(target.descriptor, memory, first, block));
  }
  const ResidentAccess access{target, memory, batch, write, populates_own_pages(batch), block};
  const Range span = batch.span();
  int64_t total = 0;
  for (Range window{span.first, 0}; window.first < span.end; window.first = window.end) {
    constexpr int64_t kBytes = MappingCache::kWindowBytes;
    window.end = std::min(span.end, window.first / kBytes * kBytes + kBytes);
    auto moved = access_tuned(access, window, use);
    if (!moved) return moved;
    total += *moved;
  }
  return total;
}

}  // namespace weft::io
