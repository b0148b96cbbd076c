// SPDX-License-Identifier: BSD-3-Clause
#include "rma/kernel_queue.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/counters.hpp"
#include "core/progress_thread.hpp"
#include "core/remote_memory.hpp"
#include "device/remote_writes.hpp"
#include "device/stream_words.hpp"
#include "rma/messages.hpp"
#include "rma/window.hpp"

namespace weft::rma {
namespace {

namespace abi = device::abi;
using datatype::Basic;
using datatype::ReduceOp;

counters::Counter requested("window.kernel_requests", counters::Unit::events,
                            "Requests of kernels to targets of windows on other hosts");

/// Records taken in one poll, and bytes of their data, so that messages of peers are delivered in between.
constexpr int kMaxRecordsPerPoll = 64;
constexpr uint64_t kMaxBytesPerPoll = 8 * abi::Queue::kStageBytes;

static_assert(offsetof(abi::QueueRecord, signal) == abi::QueueRecord::kLastWord * sizeof(uint64_t));
static_assert(sizeof(abi::QueueRecord) == 64 && offsetof(abi::QueueReply, state) == sizeof(uint64_t));

constexpr size_t kReadWordBytes = 64;
constexpr size_t kPayloadBytes = abi::Queue::kRecords * abi::Queue::kPayloadBytes;
constexpr size_t kRecordBytes = abi::Queue::kRecords * sizeof(abi::QueueRecord);
constexpr size_t kReplyBytes = abi::Queue::kReplies * sizeof(abi::QueueReply);
constexpr size_t kAllStageBytes = abi::Queue::kStages * abi::Queue::kStageBytes;

Basic basic_of(const abi::QueueRecord& record) {
  switch (record.type) {
    case abi::QueueRecord::uint32:
      return Basic::uint32;
    case abi::QueueRecord::uint64:
      return Basic::uint64;
    case abi::QueueRecord::float32:
      return Basic::float32;
    default:
      return Basic::float64;
  }
}

device::Error error_of(const Status& outcome) {
  if (outcome.ok()) return device::Error::none;
  const Errc code = outcome.error().code();
  return code == Errc::proc_aborted || code == Errc::revoked ? device::Error::failed : device::Error::network;
}

}  // namespace

KernelQueue::KernelQueue(Window& window, const device::UserStream& gpu, abi::WindowStatus& status)
    : window_(window),
      gpu_(gpu),
      status_(status),
      unsent_(abi::Queue::kRecords),
      newest_(abi::Queue::kReplies),
      lanes_(window.peers.size()) {}

Result<std::unique_ptr<KernelQueue>> KernelQueue::create(Window& window, const device::UserStream& gpu,
                                                         abi::WindowStatus& status) {
  std::unique_ptr<KernelQueue> made(new KernelQueue(window, gpu, status));
  bool any_stages = false;
  for (size_t i = 0; i < window.peers.size(); ++i) {
    const core::ProcessId process = window.peers[i].process;
    if (window.instance.same_host(process)) continue;
    any_stages |= stages(window.peers[i]);
    if (window.instance.sender->max_message(process) < sizeof(KernelPutMessage) + abi::Queue::kPayloadBytes)
      return Error(Errc::unsupported, "the network sends no messages of " +
                                          std::to_string(abi::Queue::kPayloadBytes) + " bytes to rank " +
                                          std::to_string(i) + ": raise net.ofi_max_message_bytes");
  }
  constexpr size_t kQueueBytes = kPayloadBytes + kRecordBytes + kReplyBytes + kReadWordBytes;
  constexpr size_t kAllBytes = (kQueueBytes + kStagingBytes + 63) / 64 * 64;
  auto pinned = device::allocate_pinned(gpu, kAllBytes + (any_stages ? kAllStageBytes : 0));
  if (!pinned) return std::move(pinned).error();
  made->payload_ = static_cast<std::byte*>(*pinned);
  made->records_ = reinterpret_cast<Record*>(made->payload_ + kPayloadBytes);
  made->replies_ = reinterpret_cast<abi::QueueReply*>(made->payload_ + kPayloadBytes + kRecordBytes);
  made->read_word_ = reinterpret_cast<uint64_t*>(made->payload_ + kPayloadBytes + kRecordBytes + kReplyBytes);
  made->staging_ = made->payload_ + kQueueBytes;
  if (any_stages) made->stages_ = made->payload_ + kAllBytes;
  device::streams_may_wait(1);  // for this process: other threads must not wait for them under the lock
  Messages::of(window.instance).retired().add_queue();
  window.instance.add(*made);
  return made;
}

bool KernelQueue::stages(const Peer& target) {
  return target.memory != nullptr && target.memory->caps().put == transport::rma::Path::message;
}

KernelQueue::~KernelQueue() {
  if (record_ != nullptr) window_.instance.waits.withdraw(*record_);
  WEFT_ASSERT(requests_.live() == 0);
  if (payload_ == nullptr) return;
  if (auto& thread = window_.instance.progress_thread; counted_ && thread) thread->remove_kernel_queue();
  window_.instance.remove(*this);
  device::streams_may_wait(-1);
  Messages::of(window_.instance).retired().remove_queue();
  device::free_pinned(gpu_, payload_);
}

void KernelQueue::note_event() const {
  if (auto& thread = window_.instance.progress_thread; thread) thread->note_kernel_event();
}

abi::Queue KernelQueue::initial() const {
  abi::Queue queue{};
  queue.records = reinterpret_cast<uint64_t>(records_);
  queue.payload = reinterpret_cast<uint64_t>(payload_);
  queue.replies = reinterpret_cast<uint64_t>(replies_);
  queue.read = reinterpret_cast<uint64_t>(read_word_);
  queue.stages = reinterpret_cast<uint64_t>(stages_);
  return queue;
}

bool KernelQueue::written(uint64_t position) const {
  const uint32_t* const number = &records_[position % abi::Queue::kRecords].number;
  return __atomic_load_n(number, __ATOMIC_ACQUIRE) == static_cast<uint32_t>(position + 1);
}

bool KernelQueue::poll() {
  if (auto& thread = window_.instance.progress_thread; thread && !counted_) {  // it may start after the queue
    thread->add_kernel_queue();
    counted_ = true;
  }
  observe_waits();
  bool progressed = false;
  for (size_t rank = 0; backlogs_ != 0 && rank < lanes_.size(); ++rank)
    progressed |= send_backlog(static_cast<int>(rank));
  uint64_t bytes = 0;
  for (int i = 0; i < kMaxRecordsPerPoll && bytes < kMaxBytesPerPoll && written(taken_); ++i) {
    bytes += take(taken_++);
    free_records();
    progressed = true;
    note_event();
  }
  return progressed;
}

/// The data of a put: its payload or, if they are larger, its stage.
const std::byte* KernelQueue::data_of(const Record& record, uint64_t position) const {
  return record.bytes <= abi::Queue::kPayloadBytes
             ? payload_ + position % abi::Queue::kRecords * abi::Queue::kPayloadBytes
             : stages_ + position % abi::Queue::kStages * abi::Queue::kStageBytes;
}

/// Lets kernels write to the records, payloads and stages whose data are sent.
void KernelQueue::free_records() {
  const uint64_t before = read_;
  while (read_ != taken_ && unsent_[read_ % abi::Queue::kRecords] == 0) ++read_;
  if (read_ != before) __atomic_store_n(read_word_, read_, __ATOMIC_RELEASE);
}

/// Executes a record. Returns the bytes of its payload or stage.
uint64_t KernelQueue::take(uint64_t position) {
  const Record record = records_[position % abi::Queue::kRecords];
  requested.add();
  if (record.reply != 0) newest_[(record.reply - 1) % abi::Queue::kReplies] = record.reply;
  if (record.kind == Record::flush) {
    flush(record);
    return 0;
  }
  if (const Status can = usable(record.rank); !can.ok()) {
    if (record.reply != 0)
      reply(record.reply, 0, error_of(can));
    else
      report(record.rank, error_of(can));
    return 0;
  }
  if (record.kind == Record::put && record.address == 0) {
    send_put(record, data_of(record, position), position);
    return record.bytes;
  }
  if (record.kind == Record::put)
    put(record);
  else if (record.kind == Record::get)
    get(record);
  else
    update(record);
  return 0;
}

Status KernelQueue::usable(int rank) const {
  if (abandoned_) return Window::revoked_error();
  const core::ProcessId process = peer(rank).process;
  return window_.instance.failures.failed(process) ? Status(window_.instance.failures.error_of(process))
                                                   : Status();
}

Status KernelQueue::outcome_of(int rank) const {
  if (!lanes_[static_cast<size_t>(rank)].failed) return {};
  return Error(Errc::other, "rank " + std::to_string(rank) + " could not execute a put of a kernel");
}

KernelQueue::Request* KernelQueue::create(const Record& record, int rank) {
  Request* const request = requests_.create();
  WEFT_ASSERT(request != nullptr);  // at most kReplies and a flush of each rank
  request->done = [](transport::Completion& self, Status outcome) {
    auto& ended = static_cast<Request&>(self);
    ended.queue->finish(ended, std::move(outcome));
  };
  request->queue = this;
  request->number = ++created_;
  request->record = record;
  request->rank = rank;
  if (rank >= 0) ++lanes_[static_cast<size_t>(rank)].pending;
  return request;
}

void KernelQueue::finish(Request& request, Status outcome) {
  const Record record = request.record;
  if (request.rank >= 0) --lanes_[static_cast<size_t>(request.rank)].pending;
  if (request.operation != nullptr)
    std::memcpy(&request.value, request.operation->data.data(), request.operation->data.size());
  if (outcome.ok() && record.kind == Record::put && record.signal != 0) {  // the data are in place
    Record signal = record;
    signal.bytes = 0;
    send_put(signal, nullptr, 0);
  }
  if (outcome.ok() && request.flushes)
    outcome = device::flush_remote_writes(device::classify(reinterpret_cast<void*>(record.address)));
  const device::Error error = error_of(outcome);
  Request* const group = request.group;
  const uint64_t value = request.value;
  requests_.destroy(&request);
  if (group == nullptr) return reply(record.reply, value, error);
  if (error != device::Error::none && group->value == 0) group->value = static_cast<uint64_t>(error);
  if (--group->parts != 0) return;
  const auto first = static_cast<device::Error>(group->value);
  const uint64_t number = group->record.reply;
  requests_.destroy(group);
  reply(number, 0, first);
}

/// Answers a request, unless its thread has left and the slot has another owner.
void KernelQueue::reply(uint64_t number, uint64_t value, device::Error error) {
  if (number == 0) return;
  const size_t slot = (number - 1) % abi::Queue::kReplies;
  if (newest_[slot] != number) return;
  note_event();
  __atomic_store_n(&replies_[slot].value, value, __ATOMIC_RELAXED);
  __atomic_store_n(&replies_[slot].state, number << 8 | static_cast<uint64_t>(error), __ATOMIC_RELEASE);
}

/// Keeps the error of a request for which nobody waits, unless there is an earlier one.
void KernelQueue::report(int rank, device::Error error) {
  if (__atomic_load_n(&status_.error, __ATOMIC_ACQUIRE) != 0) return;
  __atomic_store_n(&status_.rank, rank, __ATOMIC_RELAXED);
  __atomic_store_n(&status_.counter, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&status_.error, static_cast<uint32_t>(error), __ATOMIC_RELEASE);
}

void KernelQueue::issued(Request& request, Result<transport::rma::Issued> outcome) {
  if (!outcome)
    finish(request, std::move(outcome).error());
  else if (*outcome == transport::rma::Issued::complete)
    finish(request, {});
}

/// A put from its buffer, behind the messages before: puts of a scope stay in order.
void KernelQueue::put(const Record& record) {
  Request* const request = create(record, record.rank);
  Lane& lane = lanes_[static_cast<size_t>(record.rank)];
  if (lane.backlog.empty()) return start_put(*request);
  lane.backlog.push_back({{}, 0, nullptr, 0, 0, request});
}

void KernelQueue::start_put(Request& request) {
  const Record& record = request.record;
  Peer& to = peer(record.rank);
  const auto address = reinterpret_cast<std::byte*>(record.address);
  const transport::Buffer from{address, record.bytes, device::classify(address)};
  count_move(true, record.bytes);
  issued(request, window_.rma().put(*to.memory, to.offset + record.offset, from, &request));
}

void KernelQueue::get(const Record& record) {
  Request* const request = create(record, record.rank);
  Peer& from = peer(record.rank);
  transport::Buffer to{reinterpret_cast<std::byte*>(&request->value), record.bytes, {}};
  if (record.address != 0) {
    to.address = reinterpret_cast<std::byte*>(record.address);
    to.memory = device::classify(to.address);
    request->flushes = device::order_of_remote_writes(to.memory) == device::RemoteWrites::flushed;
  }
  count_move(false, record.bytes);
  issued(*request, window_.rma().get(*from.memory, from.offset + record.offset, to, request));
}

/// An atomic operation, which the target executes as it does those of MPI.
void KernelQueue::update(const Record& record) {
  Request* const request = create(record, record.rank);
  const bool swap = record.kind == Record::compare_swap;
  const Basic basic = basic_of(record);
  const auto bytes = static_cast<uint64_t>(datatype::traits_of(basic).size);
  count_accumulate(bytes);
  request->operation = new Operation(window_, peer(record.rank), nullptr);
  request->operation->data.resize(bytes);
  request->operation->ended = request;
  const auto op = static_cast<uint8_t>(record.kind == Record::add ? ReduceOp::sum : ReduceOp::replace);
  Messages::of(window_.instance)
      .send_atomic(*request->operation, record.offset, reinterpret_cast<const std::byte*>(&record.operand),
                   swap ? reinterpret_cast<const std::byte*>(&record.compare) : nullptr,
                   swap ? AccumulateMessage::kCompareSwap : op, basic);
}

void KernelQueue::flush(const Record& record) {
  if (record.rank >= 0) return flush_rank(record.rank, nullptr, record.reply);
  Request* const group = create(record, -1);
  group->parts = 1;
  for (size_t rank = 0; rank < lanes_.size(); ++rank)
    if (lanes_[rank].unflushed() || lanes_[rank].failed) {
      ++group->parts;
      flush_rank(static_cast<int>(rank), group, 0);
    }
  if (--group->parts != 0) return;
  const auto first = static_cast<device::Error>(group->value);
  requests_.destroy(group);
  reply(record.reply, 0, first);
}

/// Asks a rank to answer behind all messages to it. Other requests are complete before a kernel can flush.
void KernelQueue::flush_rank(int rank, Request* group, uint64_t number) {
  Record record{};
  record.kind = Record::flush;
  record.rank = rank;
  record.reply = number;
  Request* const request = create(record, rank);
  request->group = group;
  if (Status can = usable(rank); !can.ok()) return finish(*request, std::move(can));
  Lane& lane = lanes_[static_cast<size_t>(rank)];
  if (!lane.unflushed()) return finish(*request, outcome_of(rank));
  request->flush = lane.flush;
  request->confirms = lane.sent;
  if (lane.asked == lane.sent) return;  // that message is in flight
  request->flush = lane.flush = ++flushes_;
  lane.asked = lane.sent;
  const KernelFlushMessage message{WindowHandler::kernel_flush, 0, 0, {}, window_.comm->id, request->flush};
  send(rank, std::as_bytes(std::span(&message, 1)));
}

template <class Matches>
KernelQueue::Request* KernelQueue::find(Matches&& matches) {
  Request* found = nullptr;
  requests_.for_each([&](Request& request) {
    if (matches(request)) found = &request;
  });
  return found;
}

void KernelQueue::flushed(int rank, uint64_t number, bool failed) {
  Lane& lane = lanes_[static_cast<size_t>(rank)];
  std::vector<Request*> ended;
  requests_.for_each([&](Request& request) {
    if (request.rank == rank && request.flush == number) ended.push_back(&request);
  });
  if (!ended.empty()) lane.failed |= failed;
  for (Request* request : ended) {
    lane.confirmed = std::max(lane.confirmed, request->confirms);
    finish(*request, outcome_of(rank));
  }
}

Status KernelQueue::settle(int rank) {
  const Lane& lane = lanes_[static_cast<size_t>(rank)];
  uint64_t end = taken_;  // of the records that kernels have written up to now
  while (written(end)) ++end;
  wait_for(rank, [&] { return taken_ >= end; });
  const uint64_t last = created_;
  const auto is_earlier = [&](const Request& request) {
    return request.rank == rank && request.number <= last;
  };
  wait_for(rank, [&] { return lane.pending == 0 || find(is_earlier) == nullptr; });
  if (lane.unflushed() && usable(rank).ok()) {
    flush_rank(rank, nullptr, 0);
    const uint64_t flush = created_;
    wait_for(rank, [&] {
      return find([&](const Request& request) { return request.number == flush; }) == nullptr;
    });
  }
  Status can = usable(rank);
  return can.ok() ? outcome_of(rank) : std::move(can);
}

template <class Done>
void KernelQueue::wait_for(int rank, Done&& done) {
  const core::Operands event = window_.operations_at(peer(rank));
  core::wait_until(window_.instance, [&] { return done() || !usable(rank).ok(); },
                   {nullptr, &event, window_.comm.get()});
}

void KernelQueue::lose(int rank, const Error& why) {
  Lane& lane = lanes_[static_cast<size_t>(rank)];
  std::vector<Request*> ended;  // the layers below end the others
  while (!lane.backlog.empty())
    if (Request* const put = drop_first(lane); put != nullptr) ended.push_back(put);
  free_records();
  requests_.for_each([&](Request& request) {
    if (request.rank == rank && request.flush != 0) ended.push_back(&request);
  });
  for (Request* request : ended) finish(*request, why.copy());
}

void KernelQueue::abandon(const Error& why) {
  abandoned_ = true;
  for (size_t rank = 0; rank < lanes_.size(); ++rank) lose(static_cast<int>(rank), why);
}

}  // namespace weft::rma
