// SPDX-License-Identifier: BSD-3-Clause
// Part of weft_device.cuh: requests of kernels to the CPU, for targets on other hosts. A thread reserves a
// record only if the ring has a free one, so a thread that leaves (time limit, failure) leaves no gap. It
// waits for nothing but the CPU, which never waits for a kernel.
#ifndef WEFT_DEVICE_QUEUE_CUH
#define WEFT_DEVICE_QUEUE_CUH

#include "weft_device_base.cuh"

namespace weft {
namespace device {
namespace detail {

WEFT_DEVICE_FUNCTION abi::WindowStatus* status_of(const abi::WindowTable* table) {
  return reinterpret_cast<abi::WindowStatus*>(table->status);
}
WEFT_DEVICE_FUNCTION abi::Queue* queue_of(const abi::WindowTable* table) {
  return reinterpret_cast<abi::Queue*>(table->queue);
}
WEFT_DEVICE_FUNCTION uint64_t load_acquire(const uint64_t* word) {
  return load_acquire(reinterpret_cast<uint64_t>(word));
}

/// Whether the CPU can access the memory, too: not shared or local memory.
WEFT_DEVICE_FUNCTION bool reached_by_host(const void* address) {
#ifdef __CUDACC__
  return __isGlobal(address) != 0;
#else
  return address != nullptr;
#endif
}

/// For a thread that has waited since `begin_ns`: the error that ends its wait, if there is one.
WEFT_DEVICE_SLOW_PATH Error end_of_wait(const abi::WindowTable* table, uint64_t begin_ns, int rank,
                                        uint32_t notification) {
  abi::WindowStatus* const status = status_of(table);
  pause();
  volatile abi::WindowStatus& observed = *status;
  observed.waiting_rank = rank;
  observed.waiting_counter = notification;
  observed.waits = observed.waits + 1;
  if (load_volatile(&status->cancelled) != 0)
    return report(Thread(), status, Error::failed, rank, notification);
  if (load_volatile(&status->error) != 0) return Error::failed;
  if (table->timeout_ns != 0 && now_ns() - begin_ns > table->timeout_ns)
    return report(Thread(), status, Error::timeout, rank, notification);
  return Error::none;
}

/// Reserves a record; its position.
WEFT_DEVICE_FUNCTION Error reserve_record(const abi::WindowTable* table, int rank, uint64_t& position) {
  abi::Queue& queue = *queue_of(table);
  uint64_t begin = 0;
  for (uint32_t polls = 0;; ++polls) {
    position = load_acquire(&queue.written);
    if (position - load_acquire(&queue.read_seen) < abi::Queue::kRecords) {
      if (compare_and_store(&queue.written, position, position + 1)) return Error::none;
      continue;
    }
    store_release(reinterpret_cast<uint64_t>(&queue.read_seen), load_acquire(queue.read));
    if (begin == 0) begin = now_ns();
    if (polls % kPollsBetweenChecks != kPollsBetweenChecks - 1) continue;
    const Error error = end_of_wait(table, begin, rank, 0);
    if (error != Error::none) return error;
  }
}

/// Reserves a record whose stage is free; returns false if there is none, or a process of the window has
/// ended: a put from its buffer tells whether the target has.
WEFT_DEVICE_FUNCTION bool reserve_stage(const abi::WindowTable* table, uint64_t& position) {
  abi::Queue& queue = *queue_of(table);
  if (load_volatile(&status_of(table)->cancelled) != 0) return false;
  for (bool looked = false;;) {
    position = load_acquire(&queue.written);
    if (position - load_acquire(&queue.read_seen) < abi::Queue::kStages) {
      if (compare_and_store(&queue.written, position, position + 1)) return true;
    } else if (looked) {
      return false;
    } else {
      store_release(reinterpret_cast<uint64_t>(&queue.read_seen), load_acquire(queue.read));
      looked = true;
    }
  }
}

/// Reserves a reply; its number.
WEFT_DEVICE_FUNCTION Error reserve_reply(const abi::WindowTable* table, int rank, uint64_t& number) {
  abi::Queue& queue = *queue_of(table);
  uint64_t begin = 0;
  for (uint32_t polls = 0;; ++polls) {
    const uint64_t taken = load_acquire(&queue.replies_taken);
    number = taken + 1;
    if (number <= load_acquire(&queue.released[taken % abi::Queue::kReplies]) + abi::Queue::kReplies) {
      if (compare_and_store(&queue.replies_taken, taken, number)) return Error::none;
      continue;
    }
    if (begin == 0) begin = now_ns();
    if (polls % kPollsBetweenChecks != kPollsBetweenChecks - 1) continue;
    const Error error = end_of_wait(table, begin, rank, 0);
    if (error != Error::none) return error;
  }
}

/// Publishes a record, behind all earlier accesses of the thread and of threads it has synchronised with.
WEFT_DEVICE_FUNCTION void publish(const abi::Queue& queue, uint64_t position,
                                  const abi::QueueRecord& record) {
  constexpr int kWords = sizeof(abi::QueueRecord) / sizeof(uint64_t), kLast = abi::QueueRecord::kLastWord;
  uint64_t words[kWords];
  memcpy(words, &record, sizeof record);
  const uint64_t at = queue.records + position % abi::Queue::kRecords * sizeof(abi::QueueRecord);
  auto* const to = reinterpret_cast<volatile uint64_t*>(at);
  for (int i = 0; i < kWords; ++i)
    if (i != kLast) to[i] = words[i];
  const uint64_t number = static_cast<uint32_t>(position + 1);
  store_release(at + kLast * sizeof(uint64_t), record.signal | number << 32);
}

/// post() returns this if no stage is free.
constexpr Error kNoStage = static_cast<Error>(255);

/// Posts a record with the data of a put, for which nobody waits. `staged`: in the record's stage, without
/// waiting for one; else as its payload.
template <class Scope>
WEFT_DEVICE_FUNCTION Error post(Scope scope, const abi::WindowTable* table, const abi::QueueRecord& record,
                                const void* data, bool staged) {
  constexpr uint64_t kNoPosition = ~uint64_t{0} - 255;
  uint64_t position = 0;
  if (scope.index() == 0) {
    Error error = Error::none;
    if (!staged)
      error = reserve_record(table, record.rank, position);
    else if (!reserve_stage(table, position))
      error = kNoStage;
    if (error != Error::none) position = kNoPosition + static_cast<uint64_t>(error);
  }
  position = broadcast(scope, position);
  if (position >= kNoPosition) return static_cast<Error>(position - kNoPosition);
  const abi::Queue& queue = *queue_of(table);
  const uint64_t to = staged ? queue.stages + position % abi::Queue::kStages * abi::Queue::kStageBytes
                             : queue.payload + position % abi::Queue::kRecords * abi::Queue::kPayloadBytes;
  copy(scope, to, reinterpret_cast<uint64_t>(data), record.bytes);
  scope.sync();
  if (scope.index() == 0) publish(queue, position, record);
  return Error::none;
}

/// Posts a record without payload and waits for the reply: one thread.
WEFT_DEVICE_FUNCTION Error request(const abi::WindowTable* table, abi::QueueRecord record, uint64_t& value) {
  abi::Queue& queue = *queue_of(table);
  Error error = reserve_reply(table, record.rank, record.reply);
  if (error != Error::none) return error;
  uint64_t position = 0, state = 0;
  const uint64_t slot = (record.reply - 1) % abi::Queue::kReplies;
  const uint64_t reply = queue.replies + slot * sizeof(abi::QueueReply);
  error = reserve_record(table, record.rank, position);
  if (error == Error::none) {
    publish(queue, position, record);
    const uint64_t begin = now_ns();
    for (uint32_t polls = 1;; ++polls) {
      state = load_acquire(reply + sizeof(uint64_t));
      if (state >> 8 == record.reply) break;
      if (polls % kPollsBetweenChecks != 0) continue;
      error = end_of_wait(table, begin, record.rank, 0);
      if (error != Error::none) break;
    }
  }
  if (error == Error::none) {
    value = *reinterpret_cast<const volatile uint64_t*>(reply);
    error = static_cast<Error>(state & 255);
    if (error != Error::none) (void)report(Thread(), status_of(table), error, record.rank, 0);
  }
  store_release(reinterpret_cast<uint64_t>(&queue.released[slot]), record.reply);
  return error;
}

/// The same, with the outcome for all threads of the scope.
template <class Scope>
WEFT_DEVICE_FUNCTION Error request(Scope scope, const abi::WindowTable* table,
                                   const abi::QueueRecord& record) {
  scope.sync();
  uint64_t outcome = 0, value = 0;
  if (scope.index() == 0) outcome = static_cast<uint64_t>(request(table, record, value));
  return static_cast<Error>(broadcast(scope, outcome));
}

/// Whether the scope may put data for a rank into stages: not with few threads, which need longer than the
/// CPU and a copy engine.
template <class Scope>
WEFT_DEVICE_FUNCTION bool uses_stages(Scope scope, const abi::WindowTable* table, int rank) {
#ifdef __CUDACC__
  if (scope.count() < 128) return false;
#else
  (void)scope;
#endif
  return reinterpret_cast<const abi::WindowPeer*>(table + 1)[rank].remote == abi::WindowPeer::by_stages;
}

/// Puts to another host, then adds 1 to word `signal - 1` there, unless `signal` is 0. Small data travel in
/// records, larger ones in stages while any are free. The rest is put from its buffer, and ends when it is
/// complete at the target.
template <class Scope>
WEFT_DEVICE_SLOW_PATH Error put_remote(Scope scope, const abi::WindowTable* table, int rank, uint64_t offset,
                                       const void* from, uint64_t bytes, uint32_t signal) {
  constexpr uint64_t kPart = abi::Queue::kPayloadBytes, kStage = abi::Queue::kStageBytes;
  if (bytes == 0 && signal == 0) return Error::none;
  abi::QueueRecord record{};
  record.kind = abi::QueueRecord::put;
  record.rank = rank;
  bool staged = bytes > kPart && uses_stages(scope, table, rank);
  for (uint64_t at = 0;;) {
    const uint64_t left = bytes - at;
    const char* const data = static_cast<const char*>(from) + at;
    const bool large = left > kPart;
    record.offset = offset + at;
    if (large && !staged && reached_by_host(data)) {
      record.address = reinterpret_cast<uint64_t>(data);
      record.bytes = left;
      record.signal = signal;
      return request(scope, table, record);
    }
    const uint64_t most = large && staged ? kStage : kPart;
    record.bytes = left < most ? left : most;
    record.signal = left <= most ? signal : 0;
    const Error error = post(scope, table, record, data, large && staged);
    if (error == kNoStage) {
      staged = false;
      continue;
    }
    at += record.bytes;
    if (error != Error::none || at == bytes) return error;
  }
}

/// Gets from another host: up to 8 bytes, and into memory that only the kernel can access, in replies.
template <class Scope>
WEFT_DEVICE_SLOW_PATH Error get_remote(Scope scope, const abi::WindowTable* table, int rank, uint64_t offset,
                                       void* to, uint64_t bytes) {
  if (bytes == 0) return Error::none;
  abi::QueueRecord record{};
  record.kind = abi::QueueRecord::get;
  record.rank = rank;
  if (bytes > sizeof(uint64_t) && reached_by_host(to)) {
    record.address = reinterpret_cast<uint64_t>(to);
    record.bytes = bytes;
    record.offset = offset;
    return request(scope, table, record);
  }
  scope.sync();
  uint64_t outcome = 0;
  for (uint64_t at = 0; scope.index() == 0 && at < bytes && outcome == 0; at += sizeof(uint64_t)) {
    uint64_t value = 0;
    record.offset = offset + at;
    record.bytes = bytes - at < sizeof value ? bytes - at : sizeof value;
    outcome = static_cast<uint64_t>(request(table, record, value));
    if (outcome == 0) memcpy(static_cast<char*>(to) + at, &value, record.bytes);
  }
  return static_cast<Error>(broadcast(scope, outcome));
}

/// Executes an atomic operation of one thread on another host; the element before, 0 after an error.
WEFT_DEVICE_SLOW_PATH uint64_t atomic_remote(const abi::WindowTable* table, int rank, uint64_t offset,
                                             abi::QueueRecord::Kind kind, abi::QueueRecord::Type type,
                                             uint64_t operand, uint64_t compare) {
  abi::QueueRecord record{};
  record.kind = kind;
  record.type = type;
  record.rank = rank;
  record.offset = offset;
  record.operand = operand;
  record.compare = compare;
  uint64_t before = 0;
  return request(table, record, before) == Error::none ? before : 0;
}

/// Waits until all that this GPU has put into the window of a rank of another host (-1: of all) is there.
template <class Scope>
WEFT_DEVICE_SLOW_PATH Error flush_remote(Scope scope, const abi::WindowTable* table, int rank) {
  abi::QueueRecord record{};
  record.kind = abi::QueueRecord::flush;
  record.rank = rank;
  return request(scope, table, record);
}

}  // namespace detail
}  // namespace device
}  // namespace weft
#endif  // WEFT_DEVICE_QUEUE_CUH
