// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/queued.hpp"

#include <sys/uio.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/queued_table.hpp"
#include "mpiexec/processes.hpp"

namespace weft::mpiexec {
namespace {

using queued_table::kMaxOperations;
using queued_table::Operation;
using queued_table::Queue;

constexpr int kMaxQueues = 64;  // of a rank; a changing list may have a loop

bool read_from(pid_t pid, uint64_t address, void* to, size_t bytes) {
  iovec here{to, bytes}, there{reinterpret_cast<void*>(address), bytes};
  return ::process_vm_readv(pid, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes);
}

/// The state of a communicator at one moment.
struct Look {
  Queue queue;
  std::array<Operation, kMaxOperations> operations;
  std::array<uint32_t, kMaxOperations> beats;

  [[nodiscard]] bool read(pid_t pid, uint64_t address) {
    return read_from(pid, address, &queue, sizeof queue) && queue.magic == queued_table::kMagic &&
           queue.count <= kMaxOperations &&
           read_from(pid, queue.operations, operations.data(), queue.count * sizeof(Operation)) &&
           read_from(pid, queue.beats, beats.data(), queue.count * sizeof(uint32_t));
  }
};

Wait wait_of(const Look& look, const Operation& operation, pid_t pid) {
  const Queue& queue = look.queue;
  Wait wait{};
  wait.what = operation.what;
  wait.peer = operation.peer;
  wait.tag = operation.tag;
  wait.peer_process = operation.peer_process;
  wait.queued = true;
  wait.count = wait.bytes = operation.bytes;  // of MPI_BYTE
  wait.context = queue.context;
  wait.comm_rank = queue.comm_rank;
  wait.comm_size = queue.comm_size;
  wait.of_world = queue.of_world != 0;
  wait.call = name_at(pid, operation.call);
  wait.comm = text_of(queue.comm);
  wait.seconds = seconds_since(operation.since.load());
  if (wait.of_world && queue.comm_size > 0 && queue.comm_size <= static_cast<int>(kMaxTables))
    wait.members = members_of_world(queue.comm_size);
  else if (queue.members == queue.comm_size && queue.members <= wait_table::kMaxMembers)
    wait.members.assign(queue.member, queue.member + std::max(0, queue.members));
  return wait;
}

/// The communicators of a rank, with their addresses.
using Looks = std::vector<std::pair<uint64_t, std::unique_ptr<Look>>>;

Looks look_at(const RankState& rank) {
  Looks found;
  for (uint64_t address = rank.queues; address != 0 && found.size() < kMaxQueues;) {
    auto look = std::make_unique<Look>();
    if (!look->read(rank.pid, address)) break;
    const uint64_t next = look->queue.next;
    found.emplace_back(address, std::move(look));
    address = next;
  }
  return found;
}

void add_waits(RankState& rank, uint64_t address, const Look& before) {
  auto now = std::make_unique<Look>();
  if (!now->read(rank.pid, address)) return;
  for (uint32_t i = 0; i < std::min(before.queue.count, now->queue.count); ++i) {
    const uint64_t since = now->operations[i].since.load();
    if (since != 0 && since == before.operations[i].since.load() && before.beats[i] != now->beats[i])
      rank.waits.push_back(wait_of(*now, now->operations[i], rank.pid));
  }
}

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
  if (found.empty()) return;
  const timespec pause{0, static_cast<long>(queued_table::kBeatNs)};
  ::nanosleep(&pause, nullptr);
  for (const auto& [rank, looks] : found)
    for (const auto& [address, before] : looks) add_waits(*rank, address, *before);
}

}  // namespace weft::mpiexec
