// SPDX-License-Identifier: BSD-3-Clause
#include "core/waits.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cinttypes>
#include <cstdio>

#include "base/assert.hpp"
#include "base/counters.hpp"
#include "base/stream_wait.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "core/wait_communicator.hpp"
#include "transport/shm/shm.hpp"

namespace weft::core {
namespace {

using wait_table::Record;
using wait_table::What;

constexpr uint64_t kObservationIntervalNs = 100'000'000;
constexpr uint64_t kFreshNs = 300'000'000;  // age of a wait that goes on; a rank looks at least every 100 ms
constexpr int kFirstWait = 1;               // record of a wait; record 0 is that of polls
// The search for a message that a receive may have been meant for walks the unexpected queue: late, and
// seldom.
constexpr uint64_t kFirstLookNs = 40'000'000, kLookIntervalNs = 50'000'000;
static_assert(kFirstLookNs < wait_table::kMinWaitNs);

using counters::Unit;
counters::Counter late_senders("p2p.late_sender_time", Unit::nanoseconds,
                               "Time in which receives and probes have waited for a message");
counters::Counter late_receivers("p2p.late_receiver_time", Unit::nanoseconds,
                                 "Time in which sends have waited for their receiver");
counters::Counter in_collectives("coll.wait_time", Unit::nanoseconds,
                                 "Time in which collectives have waited for other processes");
counters::Counter at_windows("window.wait_time", Unit::nanoseconds,
                             "Time in which calls on windows have waited for other processes");
counters::Counter elsewhere("core.wait_time", Unit::nanoseconds,
                            "Time in which other calls have waited, such as those of several requests");

/// The counter of a wait.
counters::Counter& waiting_time(const Operands& operands, const Communicator* comm) {
  switch (operands.what) {
    case What::send:
      return late_receivers;
    case What::receive:
    case What::probe:
      return late_senders;
    case What::collective:
      return in_collectives;
    case What::window_lock:
    case What::window_post:
    case What::window_complete:
    case What::window_operations:
    case What::window_notification:
      return at_windows;
    case What::other:
      return comm != nullptr ? in_collectives : elsewhere;
    case What::generalized:
    case What::partitioned:
    case What::enqueued:
      break;
  }
  return elsewhere;
}

template <size_t N>
void copy(char (&to)[N], const char* from) {
  std::snprintf(to, N, "%s", from != nullptr ? from : "");
}

/// Whether to search for a message that the receive may have been meant for.
bool is_time_to_look(const Record& record, uint64_t now) {
  return now - record.since.load(std::memory_order_relaxed) >= kFirstLookNs &&
         now - record.looked >= kLookIntervalNs;
}

/// The event that a wait is for. `comm`: of the call; becomes that of the event.
Operands operands_of(const WaitTarget& target, const Communicator*& comm) {
  if (target.request != nullptr) {
    const Operands operands = target.request->operands();
    // A message of a blocking collective may belong to a communicator that the program does not know.
    if (operands.what != What::other || comm == nullptr) comm = target.request->comm;
    return operands;
  }
  if (target.operands == nullptr) return {};
  comm = target.comm;
  return *target.operands;
}

}  // namespace

int world_rank(const Communicator& comm, int rank) {
  const ProcessId process = comm.process(rank);
  return process < comm.instance.size ? static_cast<int>(process) : -1;
}

void describe_communicator(Record& record, const Communicator* comm) {
  record.context = comm != nullptr ? comm->id : 0;
  record.comm_rank = comm != nullptr ? comm->rank() : -1;
  record.comm_size = comm != nullptr ? comm->size() : 0;
  record.members = record.of_world = 0;
  copy(record.comm, comm != nullptr ? comm->name.c_str() : "");
  if (comm == nullptr || comm->inter()) return;
  if (record.comm_size <= wait_table::kMaxMembers) {
    record.members = record.comm_size;
    for (int i = 0; i < record.members; ++i) record.member[i] = world_rank(*comm, i);
  }
  record.of_world = static_cast<uint32_t>(record.comm_size) == comm->instance.size;
  for (int i = 0; i < record.comm_size && record.of_world != 0; ++i)
    if (world_rank(*comm, i) != i) record.of_world = 0;
}

constinit thread_local bool WaitPublisher::thread_counted = false;

WaitPublisher::~WaitPublisher() {
  if (private_ != nullptr) ::munmap(private_, sizeof *private_);
  if (memory_ >= 0) ::close(memory_);
}

void WaitPublisher::count(const MpiCall& call, const WaitTarget& target, uint64_t ns) {
  Operands operands;
  if (target.request != nullptr)
    operands = target.request->operands();
  else if (target.operands != nullptr)
    operands = *target.operands;
  waiting_time(operands, call.comm).add(ns);
}

// Without memory for the table nothing is published, and `weft hang` does not find the process.
void WaitPublisher::open(wait_table::Table* table, int rank, int size) {
  if (table == nullptr) {
    memory_ = ::memfd_create(wait_table::kPrivateName, MFD_CLOEXEC);
    if (memory_ < 0 || ::ftruncate(memory_, sizeof(wait_table::PrivateTable)) != 0) return;
    void* base =
        ::mmap(nullptr, sizeof(wait_table::PrivateTable), PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);
    if (base == MAP_FAILED) return;
    private_ = static_cast<wait_table::PrivateTable*>(base);
    table = &private_->table;
    wait_table::describe(private_->directory, 1, 0, sizeof *private_,
                         offsetof(wait_table::PrivateTable, table));
  }
  table->calls.store(table_->calls.load(std::memory_order_relaxed), std::memory_order_relaxed);
  table->call.store(table_->call.load(std::memory_order_relaxed), std::memory_order_relaxed);
  table->left.store(table_->left.load(std::memory_order_relaxed), std::memory_order_relaxed);
  table->threaded.store(table_->threaded.load(std::memory_order_relaxed), std::memory_order_relaxed);
  table->threads.store(table_->threads.load(std::memory_order_relaxed), std::memory_order_relaxed);
  counters::publish();
  table_->pid.store(0, std::memory_order_relaxed);  // readers skip the former table
  table_ = table;
  used_ = 1;
  table_->rank = rank;
  table_->size = size;
  table_->pid.store(::getpid(), std::memory_order_release);
}

void WaitPublisher::fill(Record& record, const MpiCall& call, const WaitTarget& target, uint64_t since,
                         uint64_t now) const {
  const uint32_t version = record.version.load(std::memory_order_relaxed);
  WEFT_ASSERT(version % 2 == 0);  // W1
  record.version.store(version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const Communicator* comm = call.comm;
  const Operands operands = operands_of(target, comm);
  record.what = operands.what;
  record.peer = operands.rank < 0 ? wait_table::kAny : operands.rank;
  record.tag = operands.tag < 0 ? wait_table::kAny : operands.tag;
  record.count = static_cast<uint64_t>(operands.count);
  record.bytes = operands.bytes;
  const bool has_peer = comm != nullptr && operands.what != What::other && operands.rank >= 0;
  record.peer_process = has_peer ? world_rank(*comm, operands.rank) : -1;
  copy(record.call, reinterpret_cast<const char*>(call.name & ~wait_table::kReturned));
  copy(record.operation, operands.operation);
  const StreamWait* const stream = StreamWait::current();
  if (stream != nullptr && operands.operation == nullptr)
    std::snprintf(record.operation, sizeof record.operation, "%c%" PRIx64, wait_table::kStreamMark,
                  stream->stream);
  describe_communicator(record, comm);
  if (record.since.load(std::memory_order_relaxed) != since) record.looked = record.unexpected = 0;
  record.since.store(since, std::memory_order_relaxed);
  look_for_similar(record, operands, comm, now);
  record.version.store(version + 2, std::memory_order_release);
}

/// The caller has made `record.version` odd.
void WaitPublisher::look_for_similar(Record& record, const Operands& wanted, const Communicator* comm,
                                     uint64_t now) const {
  if (!is_time_to_look(record, now)) return;
  SimilarMessage found;
  const bool receives = wanted.what == What::receive || wanted.what == What::probe;
  record.looked = now;
  record.unexpected =
      receives && comm != nullptr && find_similar_ != nullptr && find_similar_(wanted, *comm, found);
  if (record.unexpected == 0) return;
  record.unexpected_source = found.source;
  record.unexpected_tag = found.tag;
  record.unexpected_bytes = found.bytes;
  record.unexpected_comm_size = found.comm == comm ? 0 : found.comm->remote_size();
  copy(record.unexpected_comm, found.comm == comm ? "" : found.comm->name.c_str());
}

void WaitPublisher::publish(Record*& record, const MpiCall& call, const WaitTarget& target, uint64_t since,
                            uint64_t now) {
  if (record == nullptr) {
    const auto free = static_cast<unsigned>(std::countr_one(used_));
    if (free >= wait_table::kRecords) return;  // of the waits of many threads, some are shown
    used_ |= 1u << free;
    record = &table_->records[free];
    record->polls = 0;
    // For readers: the wait lasts while the rank is in this call, also if it gets no core to update `seen`.
    record->calls.store(table_->calls.load(std::memory_order_relaxed), std::memory_order_relaxed);
    fill(*record, call, target, since, now);
  } else if (is_time_to_look(*record, now)) {
    fill(*record, call, target, since, now);  // the holder of a lock may be known now
  }
  record->seen.store(now, std::memory_order_release);
}

void WaitPublisher::withdraw(Record& record) {
  record.seen.store(0, std::memory_order_release);
  for (int i = 0; i < wait_table::kRecords; ++i)  // none, if open() came meanwhile
    if (&record == &table_->records[i]) used_ &= ~(1u << i);
}

void WaitPublisher::publish_poll(const WaitTarget& target, uint64_t now) {
  if (polls_since_ns_ == 0) polls_since_ns_ = now;
  if (now - polls_since_ns_ < wait_table::kPublishNs) return;
  Record& record = table_->records[0];
  record.polls = 1;
  fill(record, current(), target, polls_since_ns_, now);
  record.seen.store(now, std::memory_order_release);
}

// The first rank of the host that waits does it for all: the work of many waiting ranks would grow with the
// square of their number.
void WaitPublisher::observe(const transport::shm::Shm& shm, uint64_t now) {
  if (now < next_observation_ns_) return;
  next_observation_ns_ = now + kObservationIntervalNs;
  for (const transport::Peer peer : shm.members()) {
    const wait_table::Table& other = shm.wait_table(peer);
    if (&other == table_) break;
    if (other.records[kFirstWait].seen.load(std::memory_order_relaxed) + kFreshNs > now) return;
  }
  for (const transport::Peer peer : shm.members()) {
    wait_table::Table& other = shm.wait_table(peer);
    const uint64_t activity = other.activity();
    if (other.observed.load(std::memory_order_relaxed) == activity) continue;
    other.observed_ns.store(now, std::memory_order_relaxed);
    other.observed.store(activity, std::memory_order_release);
  }
}

}  // namespace weft::core
