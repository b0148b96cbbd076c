// SPDX-License-Identifier: BSD-3-Clause
#include "io/independent/present.hpp"

#include <atomic>

#include "base/clock.hpp"
#include "base/counters.hpp"
#include "io/backend/copy.hpp"
#include "io/backend/mapping.hpp"

namespace weft::io {
namespace {

counters::Counter reads("io.present_reads", counters::Unit::events,
                        "Parts of up to 4 MiB read through a mapping of pages that the file has");
counters::Counter writes("io.present_writes", counters::Unit::events,
                         "Parts of up to 4 MiB written through a mapping of pages that the file has");

constexpr int64_t kWindowBytes = int64_t{4} << 20;  // mapped at once
constexpr int64_t kGapBytes = int64_t{1} << 20;     // largest gap in a mapping: address space only
constexpr int64_t kOwnRunBytes = 64 << 10;          // from here on runs make only their own pages present
constexpr int64_t kLeastBytes = 32 << 10;           // of a batch
constexpr int64_t kLeastMeasuredBytes = 256 << 10;  // of an access whose path is chosen by measurement
constexpr int64_t kMostShare = 4;                   // mapped bytes for each byte of the access
constexpr int64_t kPageBytes = 4096;

/// Chooses between system calls and mappings for the next window by the times of earlier ones.
class Choice {
 public:
  [[nodiscard]] bool mapping() {
    const int64_t call = cost_[0].load(std::memory_order_relaxed);
    const int64_t map = cost_[1].load(std::memory_order_relaxed);
    if (map == 0 || call == 0) return map == 0;
    const bool again = windows_.fetch_add(1, std::memory_order_relaxed) % kWindowsPerTrial == 0;
    return (map < call) != again;  // the path that was slower is tried now and then
  }
  void add(bool mapping, int64_t bytes, uint64_t ns) {
    const int64_t now = static_cast<int64_t>(ns) * 1024 / bytes + 1;
    std::atomic<int64_t>& cost = cost_[mapping ? 1 : 0];
    const int64_t old = cost.load(std::memory_order_relaxed);
    // A thread that does not run for a while must not change the choice.
    const int64_t next = old == 0 || now < old ? now : old + (std::min(now, 2 * old) - old) / 8 + 1;
    cost.store(next, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kWindowsPerTrial = 64;
  std::atomic<int64_t> cost_[2]{};  ///< ns for each KiB by system calls and mappings; 0: not measured
  std::atomic<uint32_t> windows_{0};
};

/// Of this process: reads and writes.
Choice choices[2];

bool long_runs(const View& view) { return view.contiguous || view.mean_run >= kOwnRunBytes; }

bool makes_own_pages_present(const Batch& batch) {
  return batch.runs.size() == 1 || batch.useful >= kOwnRunBytes * static_cast<int64_t>(batch.runs.size());
}

/// Moves one window. Returns the bytes moved.
Result<int64_t> access_window(const Target& target, const MemoryStream& memory, const Batch& batch,
                              const Range& window, bool write, const Mapping* mapping, bool own_pages,
                              Block& block) {
  int64_t total = 0;
  bool used = false;
  Status failed;
  for_each_part(batch, window, [&](const FileRun& part) {
    if (mapping != nullptr && (!own_pages || mapping->populate_present({part.at, part.at + part.length}))) {
      if (write)
        memory.copy_to(mapping->at(part.at), part.stream, part.length);
      else
        memory.copy_from(mapping->at(part.at), part.stream, part.length);
      total += part.length;
      used = true;
      return true;
    }
    if (write) {
      failed = write_run(target.descriptor, memory, part, block);
      if (failed.ok()) total += part.length;
      return failed.ok();
    }
    auto read = read_run(target.descriptor, memory, part, block);
    if (!read)
      failed = std::move(read).error();
    else
      total += *read;
    return read && *read == part.length;
  });
  if (used) (write ? writes : reads).add();
  WEFT_TRY(std::move(failed));
  return total;
}

}  // namespace

bool is_present(const Target& target, const View& view, int64_t stream, int64_t bytes) {
  return target.in_memory && bytes != 0 && view.ordered(stream, bytes) &&
         target.descriptor.filled({view.position(stream), view.position(stream + bytes - 1) + 1});
}

bool may_write_present(const Target& target, const View& view, int64_t stream, int64_t bytes) {
  return target.mappable && target.hints.romio_ds_write == Use::automatic &&
         is_present(target, view, stream, bytes);
}

UsePresent use_of_write(const Target& target, const View& view, int64_t stream, int64_t bytes,
                        const MemoryStream& memory, bool parallel) {
  const bool always = target.contended || parallel;
  if (!always && (bytes < kLeastMeasuredBytes || !memory.contiguous() || !long_runs(view)))
    return UsePresent::never;
  if (!may_write_present(target, view, stream, bytes)) return UsePresent::never;
  return always ? UsePresent::always : UsePresent::measured;
}

UsePresent use_of_read(const Target& target, const View& view, int64_t stream, int64_t bytes,
                       const MemoryStream& memory) {
  if (bytes < kLeastMeasuredBytes || !memory.contiguous() || !long_runs(view)) return UsePresent::never;
  const bool may = target.hints.romio_ds_read == Use::automatic && is_present(target, view, stream, bytes);
  return may ? UsePresent::measured : UsePresent::never;
}

Limits present_limits() { return {kWindowBytes, kGapBytes}; }

bool maps_present(const Batch& batch) {
  const int64_t bytes = batch.span().bytes();
  return bytes >= kLeastBytes && (makes_own_pages_present(batch) || batch.useful * kMostShare >= bytes);
}

Result<int64_t> access_present(const Target& target, const MemoryStream& memory, const Batch& batch,
                               bool write, UsePresent use, Block& block) {
  if (write) {  // a system call sets the time of the file, and finds errors
    FileRun first = batch.runs.front();
    first.length = std::min(first.length, kPageBytes);
    WEFT_TRY(write_run(target.descriptor, memory, first, block));
  }
  const bool own_pages = makes_own_pages_present(batch);
  Choice& choice = choices[write ? 1 : 0];
  const Range span = batch.span();
  int64_t total = 0;
  for (Range window{span.first, 0}; window.first < span.end; window.first = window.end) {
    window.end = std::min(span.end, window.first / kWindowBytes * kWindowBytes + kWindowBytes);
    const bool map = use == UsePresent::always || choice.mapping();
    const uint64_t begin = use == UsePresent::measured ? monotonic_ns() : 0;
    Result<int64_t> moved = int64_t{0};
    if (map) {
      const Mapping mapping(target.descriptor, window, write ? Mapping::Use::write : Mapping::Use::read);
      const bool mapped = mapping.valid() && (own_pages || mapping.populate_present(window));
      moved =
          access_window(target, memory, batch, window, write, mapped ? &mapping : nullptr, own_pages, block);
    } else {
      moved = access_window(target, memory, batch, window, write, nullptr, own_pages, block);
    }
    if (!moved) return moved;
    if (use == UsePresent::measured && *moved > 0) choice.add(map, *moved, monotonic_ns() - begin);
    total += *moved;
  }
  return total;
}

}  // namespace weft::io
