// SPDX-License-Identifier: BSD-3-Clause
// Two-phase collective accesses. Aggregators access windows of the file through two buffers: the exchange of
// one round overlaps with the file access of another. A rank that has an error goes on with the rounds, so
// that no other rank waits for ever; all ranks report errors of aggregators.
#include <algorithm>
#include <limits>
#include <optional>

#include "io/backend/error.hpp"
#include "io/collective/exchange.hpp"
#include "io/independent/resident.hpp"
#include "io/independent/staged.hpp"

namespace weft::io {
namespace {

constexpr int64_t kReadGapBytes = 64 << 10;  // gaps up to this size are read

Status write_ranges(Target& target, const std::vector<Range>& ranges, const std::byte* buffer,
                    int64_t origin) {
  target.dirty.store(true, std::memory_order_relaxed);
  for (const Range& range : ranges)
    WEFT_TRY(target.descriptor.write(buffer + (range.first - origin), range.bytes(), range.first));
  return {};
}

/// Sets `end` to the end of the file if the read reaches it.
Status read_ranges(Target& target, const std::vector<Range>& ranges, std::byte* buffer, int64_t origin,
                   int64_t& end) {
  for (const Range& range : ranges) {
    auto read = target.descriptor.read(buffer + (range.first - origin), range.bytes(), range.first);
    if (!read) return std::move(read).error();
    if (*read == range.bytes()) continue;
    end = range.first + *read;
    break;
  }
  return {};
}

/// Gathers the accesses of all ranks. Fails on all ranks if one cannot make its access.
Task gather_records(Operation& operation, const CollectiveAccess& access, bool write,
                    std::vector<AccessRecord>& records) {
  AccessRecord mine{};
  mine.failure = failure_code(access.admitted);
  if (access.admitted.ok()) {
    mine = record_of(*access.view, access.stream, access.bytes);
    if (write && may_write_resident(access.target, *access.view, access.stream, access.bytes))
      mine.resident = 1;
  }
  records.resize(static_cast<size_t>(access.comm.size()));
  Collective gather(
      coll::record_call(coll::Collective::allgather, access.comm, &mine, records.data(), sizeof mine),
      operation.next_tag());
  co_await gather;
  WEFT_CO_TRY(gather.take());
  const auto failed = [](const AccessRecord& record) { return record.failure != 0; };
  if (std::none_of(records.begin(), records.end(), failed)) co_return Status();
  std::vector<int64_t> codes;
  for (const AccessRecord& record : records) codes.push_back(record.failure);
  co_return agree(access.admitted.ok() ? Status() : access.admitted.error().copy(), codes,
                  access.target.descriptor.path());
}

/// Exchanges the outcomes of all ranks: the data is in the file when all ranks have reported success.
Task agree(Operation& operation, const CollectiveAccess& access, Status own) {
  const int64_t mine = failure_code(own);
  std::vector<int64_t> codes(static_cast<size_t>(access.comm.size()));
  Collective gather(
      coll::record_call(coll::Collective::allgather, access.comm, &mine, codes.data(), sizeof mine),
      operation.next_tag());
  co_await gather;
  Status gathered = gather.take();
  if (!gathered.ok()) co_return own.ok() ? std::move(gathered) : std::move(own);
  co_return io::agree(std::move(own), codes, access.target.descriptor.path());
}

IndependentAccess independent(const CollectiveAccess& access, bool write) {
  return {access.target, access.view, access.stream, access.memory, access.bytes, write};
}

/// The steps before the rounds. Without aggregators, each rank accesses the file itself here, and `plan`
/// stays empty.
Task begin_collective(Operation& operation, const CollectiveAccess& access, bool write,
                      std::optional<Plan>& plan) {
  co_await operation.turn();
  std::vector<AccessRecord> records;
  Task gather = gather_records(operation, access, write, records);
  WEFT_CO_TRY(co_await gather);
  const Target& target = access.target;
  const bool one_cache = access.hosts == 1 && target.mappable;
  if (target.atomic.load(std::memory_order_relaxed) ||
      !use_aggregators(records, target.hints, write, one_cache)) {
    Task task = access_independent(operation, independent(access, write));
    Status own = co_await task;
    Task agreement = agree(operation, access, std::move(own));
    co_return co_await agreement;
  }
  plan.emplace(std::move(records), target.hints, access.aggregator_order, access.hosts);
  co_return Status();
}

}  // namespace

Task write_collective(Operation& operation, CollectiveAccess access) {
  std::optional<Plan> planned;
  Task begin = begin_collective(operation, access, true, planned);
  Status begun = co_await begin;
  if (!planned) co_return begun;
  const Plan& plan = *planned;
  const int tag = operation.next_tag();
  FileJob jobs[2];
  Status outcome;
  const auto keep = [&outcome](Status status) {
    if (outcome.ok()) outcome = std::move(status);
  };
  for (int64_t i = 0; i < plan.rounds; ++i) {
    Round round(access, plan, i, tag);
    Task pieces = round.exchange_pieces();
    keep(co_await pieces);
    FileJob& job = jobs[i % 2];
    Task previous = finish_job(operation, job);
    keep(co_await previous);
    std::byte* const buffer = round.aggregates() ? access.buffers.get(i, plan.window_bytes) : nullptr;
    round.move_to(buffer);
    co_await round.receives;
    round.keep(round.receives.take());
    co_await round.sends;
    round.keep(round.sends.take());
    keep(std::move(round.outcome));
    if (!round.aggregates() || !outcome.ok()) continue;
    job.submit(*access.target.pool, operation.instance,
               [&target = access.target, ranges = round.ranges(0), buffer, origin = round.window.first] {
                 return write_ranges(target, ranges, buffer, origin);
               });
  }
  for (FileJob& job : jobs) {
    Task last = finish_job(operation, job);
    keep(co_await last);
  }
  operation.completion.bytes = static_cast<uint64_t>(access.bytes);
  Task agreement = agree(operation, access, std::move(outcome));
  co_return co_await agreement;
}

namespace {

/// A round of a read: the aggregator's file access is in flight between the exchange of pieces and of data.
struct ReadRound {
  ReadRound(const CollectiveAccess& access, const Plan& plan, int64_t index, int tag)
      : round(access, plan, index, tag) {}
  Round round;
  std::byte* buffer = nullptr;
  int64_t end = std::numeric_limits<int64_t>::max();
  FileJob job;
};

Task begin_read(Operation& operation, const CollectiveAccess& access, const Plan& plan, int64_t index,
                ReadRound& read) {
  Task pieces = read.round.exchange_pieces();
  WEFT_CO_TRY(co_await pieces);
  if (!read.round.aggregates()) co_return Status();
  read.buffer = access.buffers.get(index, plan.window_bytes);
  read.job.submit(*access.target.pool, operation.instance,
                  [&read, &target = access.target, ranges = read.round.ranges(kReadGapBytes),
                   origin = read.round.window.first] {
                    return read_ranges(target, ranges, read.buffer, origin, read.end);
                  });
  co_return Status();
}

/// Moves the data of a round to the ranks; adds the bytes that this rank has got to `bytes`.
Task end_read(Operation& operation, ReadRound& read, int64_t& bytes) {
  Task file = finish_job(operation, read.job);
  Status from_file = co_await file;
  const bool failed = !from_file.ok();
  Round& round = read.round;
  round.keep(std::move(from_file));
  round.move_from(read.buffer, read.end, failed);
  co_await round.replies;
  if (Status replied = round.replies.take(); !replied.ok()) {
    round.keep(std::move(replied));
    for (Round::OwnPart& part : round.own)
      if (part.reply.end == 0) part.reply.failed = 1;  // of a rank that has failed
  }
  bytes += round.receive_data();
  co_await round.receives;
  round.keep(round.receives.take());
  co_await round.sends;
  round.keep(round.sends.take());
  co_return std::move(round.outcome);
}

}  // namespace

Task read_collective(Operation& operation, CollectiveAccess access) {
  std::optional<Plan> planned;
  Task begin = begin_collective(operation, access, false, planned);
  Status begun = co_await begin;
  if (!planned) co_return begun;
  const Plan& plan = *planned;
  const int tag = operation.next_tag();
  int64_t bytes = 0;
  Status outcome;
  const auto keep = [&outcome](Status status) {
    if (outcome.ok()) outcome = std::move(status);
  };
  std::unique_ptr<ReadRound> current, next;
  for (int64_t i = 0; i <= plan.rounds; ++i) {
    if (i < plan.rounds) {
      next = std::make_unique<ReadRound>(access, plan, i, tag);
      Task exchange = begin_read(operation, access, plan, i, *next);
      keep(co_await exchange);
    }
    if (current != nullptr) {
      Task end = end_read(operation, *current, bytes);
      keep(co_await end);
    }
    current = std::move(next);
  }
  operation.completion.bytes = static_cast<uint64_t>(bytes);
  Task agreement = agree(operation, access, std::move(outcome));
  co_return co_await agreement;
}

}  // namespace weft::io
