// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/queued.hpp"

#include <sys/uio.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "base/queued_table.hpp"
#include "mpiexec/processes.hpp"

namespace weft::mpiexec {
namespace {

using queued_table::Collective;
using queued_table::HostCall;
using queued_table::kCaptured;
using queued_table::kCapturedCollectives;
using queued_table::kCollectives;
using queued_table::kHostCalls;
using queued_table::kMaxOperations;
using queued_table::Operation;
using queued_table::Queue;

constexpr int kMaxQueues = 128;  // of a rank; a changing list may have a loop

bool read_from(pid_t pid, uint64_t address, void* to, size_t bytes) {
  iovec here{to, bytes}, there{reinterpret_cast<void*>(address), bytes};
  return ::process_vm_readv(pid, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

/// The state of a communicator at one moment.
struct Look {
  Queue queue;
  std::array<Operation, kMaxOperations> operations;
  std::array<uint32_t, kMaxOperations> beats;
  std::array<Collective, kCollectives + kCapturedCollectives> collectives;
  uint64_t collective_beat = 0;

  [[nodiscard]] bool read(pid_t pid, uint64_t address) {
    return read_from(pid, address, &queue, sizeof queue) && queue.magic == queued_table::kMagic &&
           queue.count <= kMaxOperations &&
           read_from(pid, queue.operations, operations.data(), queue.count * sizeof(Operation)) &&
           read_from(pid, queue.beats, beats.data(), queue.count * sizeof(uint32_t)) &&
           read_from(pid, queue.collectives, collectives.data(), sizeof collectives) &&
           (queue.collective_beat == 0 ||
            read_from(pid, queue.collective_beat, &collective_beat, sizeof collective_beat));
  }
  /// The id of the collective in which a kernel waits, if the beat has changed since `before`.
  [[nodiscard]] std::optional<uint32_t> waiting_since(const Look& before) const {
    const auto id = static_cast<uint32_t>(collective_beat >> 32);
    if (collective_beat == before.collective_beat || id != before.collective_beat >> 32) return {};
    return id;
  }
  /// The number of a collective outside of captures.
  [[nodiscard]] uint64_t number_of(uint32_t id) const {
    const uint64_t last = queue.enqueued.load();
    return last - ((last - id) & (kCaptured - 1));
  }
  /// The description of a collective; null: it has been overwritten by that of a later one.
  [[nodiscard]] const Collective* find(uint32_t id) const {
    const uint32_t number = id & (kCaptured - 1);
    const Collective& at = collectives[(id & kCaptured) != 0 ? kCollectives + number % kCapturedCollectives
                                                             : number % kCollectives];
    return at.since.load() != 0 && at.id == id ? &at : nullptr;
  }
  /// Time of the oldest description of a collective of this kind; 0: there is none.
  [[nodiscard]] uint64_t oldest(bool captured) const {
    uint64_t found = 0;
    for (const Collective& at : collectives) {
      const uint64_t since = at.since.load();
      if (since != 0 && ((at.id & kCaptured) != 0) == captured && (found == 0 || since < found))
        found = since;
    }
    return found;
  }
};

Wait wait_on(const Queue& queue) {
  Wait wait{};
  wait.peer_process = -1;
  wait.queued = true;
  wait.context = queue.context;
  wait.comm_rank = queue.comm_rank;
  wait.comm_size = queue.comm_size;
  wait.of_world = queue.of_world != 0;
  wait.comm = text_of(queue.comm);
  if (wait.of_world && queue.comm_size > 0 && queue.comm_size <= static_cast<int>(kMaxTables))
    wait.members = members_of_world(queue.comm_size);
  else if (queue.members == queue.comm_size && queue.members <= wait_table::kMaxMembers)
    wait.members.assign(queue.member, queue.member + std::max(0, queue.members));
  return wait;
}

Wait wait_of(const Queue& queue, const Operation& operation, pid_t pid) {
  Wait wait = wait_on(queue);
  wait.what = operation.what;
  wait.peer = operation.peer;
  wait.tag = operation.tag;
  wait.peer_process = operation.peer_process;
  wait.count = wait.bytes = operation.bytes;  // of MPI_BYTE
  wait.call = name_at(pid, operation.call);
  wait.stream = operation.stream;
  wait.seconds = seconds_since(operation.since.load());
  return wait;
}

Wait wait_of(const Look& look, uint32_t id, pid_t pid) {
  const bool captured = (id & kCaptured) != 0;
  const Collective* const known = look.find(id);
  Wait wait = wait_on(look.queue);
  wait.what = wait_table::What::other;  // as blocking collectives
  wait.number = captured || look.queue.captured.load() != 0 ? 0 : look.number_of(id);
  wait.call = known != nullptr ? name_at(pid, known->call)
              : captured       ? "a captured collective"
                               : "a collective";
  if (known != nullptr) wait.stream = known->stream;
  wait.seconds = seconds_since(known != nullptr ? known->since.load() : look.oldest(captured));
  return wait;
}

/// The calls of a stream that the host executes.
struct HostLook {
  queued_table::HostCalls queue;
  std::array<HostCall, kHostCalls> calls;
  [[nodiscard]] bool read(pid_t pid, uint64_t address) {
    return read_from(pid, address, &queue, sizeof queue) && queue.magic == queued_table::kCallsMagic &&
           queue.last.load() - queue.first.load() <= kHostCalls &&
           read_from(pid, queue.calls, calls.data(), sizeof calls);
  }
};

/// The queues that a rank has published.
struct Looks {
  std::vector<std::pair<uint64_t, std::unique_ptr<Look>>> queues;  // with their addresses
  std::vector<uint64_t> host_calls;                                // addresses
  [[nodiscard]] bool empty() const { return queues.empty() && host_calls.empty(); }
};

Looks look_at(const RankState& rank) {
  Looks found;
  queued_table::Head head{};
  int n = 0;
  for (uint64_t address = rank.queues; address != 0 && n < kMaxQueues; address = head.next, ++n) {
    if (!read_from(rank.pid, address, &head, sizeof head)) break;
    if (head.magic == queued_table::kCallsMagic) {
      found.host_calls.push_back(address);
      continue;
    }
    auto look = std::make_unique<Look>();
    if (!look->read(rank.pid, address)) break;
    found.queues.emplace_back(address, std::move(look));
  }
  return found;
}

/// Reads a rank for the second time: its waits in streams, and the calls behind them.
class SecondLook {
 public:
  SecondLook(RankState& rank, const Looks& before) : rank_(rank) {
    for (const auto& [address, first] : before.queues) add_waits(address, *first);
    for (const uint64_t address : before.host_calls) add_host_calls(address);
    for (const auto& look : looks_) add_pending(*look);
  }

 private:
  void add_waits(uint64_t address, const Look& before) {
    auto now = std::make_unique<Look>();
    if (!now->read(rank_.pid, address)) return;
    for (uint32_t i = 0; i < std::min(before.queue.count, now->queue.count); ++i) {
      const uint64_t since = now->operations[i].since.load();
      if (since == 0 || since != before.operations[i].since.load() || before.beats[i] == now->beats[i])
        continue;
      rank_.waits.push_back(wait_of(now->queue, now->operations[i], rank_.pid));
      reach(now->operations[i].stream, since);
    }
    if (const auto id = now->waiting_since(before)) {
      rank_.waits.push_back(wait_of(*now, *id, rank_.pid));
      if (const Collective* known = now->find(*id)) reach(known->stream, known->since.load());
    }
    if (now->queue.collective_beat != 0)
      rank_.enqueued.push_back(
          {now->queue.context, now->queue.comm_rank, now->queue.enqueued.load(), now->queue.captured.load()});
    looks_.push_back(std::move(now));
  }

  void add_host_calls(uint64_t address) {
    auto look = std::make_unique<HostLook>();
    if (!look->read(rank_.pid, address)) return;
    for (uint64_t n = look->queue.first.load(); n < look->queue.last.load(); ++n) {
      const HostCall& call = look->calls[n % kHostCalls];
      if (call.since.load() == 0) continue;
      if (call.begun.load() != 0)
        reach(look->queue.stream, call.since.load());
      else
        rank_.pending.push_back({call.context, 0, look->queue.stream, call.comm_rank, call.comm_size,
                                 name_at(rank_.pid, call.call), text_of(call.comm)});
    }
  }

  /// The collectives enqueued after the call that their stream has reached. Captured ones have no order.
  void add_pending(const Look& look) {
    const uint64_t last = look.queue.enqueued.load();
    for (uint64_t n = last < kCollectives ? 1 : last - kCollectives + 1; n <= last; ++n) {
      const Collective* const at = look.find(static_cast<uint32_t>(n % kCaptured));
      if (at == nullptr) continue;
      const auto reached = reached_.find(at->stream);
      if (reached == reached_.end() || at->since.load() <= reached->second) continue;
      rank_.pending.push_back({look.queue.context, n, at->stream, look.queue.comm_rank, look.queue.comm_size,
                               name_at(rank_.pid, at->call), text_of(look.queue.comm)});
    }
  }

  void reach(uint64_t stream, uint64_t since) {
    uint64_t& reached = reached_[stream];
    reached = std::max(reached, since);
  }

  RankState& rank_;
  std::vector<std::unique_ptr<Look>> looks_;
  std::map<uint64_t, uint64_t>
      reached_;  // by stream: the time of the last call that it is known to have reached
};

}  // namespace

std::string name_at(pid_t pid, uint64_t address) {
  char text[sizeof wait_table::Record::call] = {};
  if (address == 0) return "";
  iovec here{text, sizeof text - 1}, there{reinterpret_cast<void*>(address), sizeof text - 1};
  if (::process_vm_readv(pid, &here, 1, &there, 1, 0) <= 0) return "";
  return std::strncmp(text, "MPI", 3) == 0 ? text_of(text) : "";
}

double seconds_since(uint64_t ns) {
  return ns == 0 ? -1 : std::max(0.0, now() - static_cast<double>(ns) * 1e-9);
}

void add_queued(std::vector<JobState>& jobs) {
  std::vector<std::pair<RankState*, Looks>> found;
  for (JobState& job : jobs)
    for (RankState& rank : job.ranks)
      if (Looks looks = look_at(rank); !looks.empty()) found.emplace_back(&rank, std::move(looks));
  if (std::any_of(found.begin(), found.end(), [](const auto& one) { return !one.second.queues.empty(); })) {
    const timespec pause{0, static_cast<long>(queued_table::kBeatNs)};
    ::nanosleep(&pause, nullptr);
  }
  for (const auto& [rank, looks] : found) SecondLook(*rank, looks);
}

}  // namespace weft::mpiexec
