// SPDX-License-Identifier: BSD-3-Clause
#include "io/independent/direct.hpp"

#include <algorithm>

#include "coll/schedule/call.hpp"
#include "io/backend/cufile_library.hpp"

namespace weft::io {
namespace {

constexpr int64_t kUnit = GpuFile::kAlignment;

int64_t round_down(int64_t value) { return value / kUnit * kUnit; }
int64_t round_up(int64_t value) { return round_down(value + kUnit - 1); }

/// The aligned bytes of a contiguous part of the file.
Range aligned_part(const IndependentAccess& access) {
  const int64_t at = access.view->position(access.stream);
  const int64_t first = round_up(at) - at;
  return {first, std::max(first, round_down(at + access.bytes) - at)};
}

/// Whether all runs in the file begin and end at multiples of the unit.
bool all_aligned(const IndependentAccess& access) {
  bool aligned = true;
  access.view->for_each_run(access.stream, access.bytes, [&](int64_t at, int64_t length) {
    aligned = at % kUnit == 0 && length % kUnit == 0;
    return aligned;
  });
  return aligned;
}

/// The block of a checked read, the first of the part: a write has written it already.
Status prepare(const IndependentAccess& access, const device::Memory& memory, int64_t offset) {
  return access.target.gpu.prepare(access.target.descriptor, memory, offset);
}

Status transfer(const IndependentAccess& access, const Range& part, const device::Memory& memory,
                int64_t& moved) {
  const GpuFile& gpu = access.target.gpu;
  const Descriptor& file = access.target.descriptor;
  Status outcome;
  access.view->for_each_run(access.stream + part.first, part.bytes(), [&](int64_t at, int64_t length) {
    void* const address = coll::advance(access.memory.address, part.first + moved);
    auto done = access.write ? gpu.write(file, address, memory, length, at)
                             : gpu.read(file, address, memory, length, at);
    if (!done) {
      outcome = std::move(done).error();
      return false;
    }
    moved += *done;
    return *done == length;
  });
  return outcome;
}

}  // namespace

Range direct_part(const IndependentAccess& access) {
  const int64_t least = GpuFile::least_bytes();
  if (least == 0 || access.bytes < least || !access.view->ordered(access.stream, access.bytes) ||
      !access.memory.type->contiguous() || access.target.atomic.load(std::memory_order_relaxed))
    return {};
  if (cufile::known_absent()) {
    GpuFile::refuse(cufile::library().why_not);
    return {};
  }
  Range part{0, access.bytes};
  if (access.view->adjacent(access.stream, access.bytes))
    part = aligned_part(access);
  else if (access.view->mean_run < kUnit || !all_aligned(access))
    part = {};
  const auto address =
      reinterpret_cast<uintptr_t>(access.memory.address) + static_cast<uintptr_t>(part.first);
  if (part.empty() || address % kUnit != 0) {
    GpuFile::refuse("the file offset or the address of an access is no multiple of 4096");
    return {};
  }
  // A new file system needs a block that has been written already.
  if (access.write && !GpuFile::proven(access.target.descriptor)) part.first += kUnit;
  return part;
}

Task access_direct(Operation& operation, const IndependentAccess& access, const Range& part, int64_t& moved) {
  const device::Memory memory = device::classify(access.memory.address);
  const bool proven = GpuFile::proven(access.target.descriptor);
  const int64_t block =
      access.view->position(access.stream + (access.write && !proven ? part.first - kUnit : part.first));
  if (access.write) access.target.dirty.store(true, std::memory_order_relaxed);
  FileJob job;
  job.submit(*access.target.pool, operation.instance, [&access, &part, &memory, &moved, block]() -> Status {
    WEFT_TRY(prepare(access, memory, block));
    return transfer(access, part, memory, moved);
  });
  Task finish = finish_job(operation, job);
  Status outcome = co_await finish;
  if (!outcome.ok() && outcome.error().code() == Errc::unsupported)
    GpuFile::refuse(outcome.error().message());
  co_return outcome;
}

}  // namespace weft::io
