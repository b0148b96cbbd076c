// SPDX-License-Identifier: BSD-3-Clause
// Revocations and failures spread from process to process. A revocation goes to the first live members at the
// distances 1, 2, 4, ... and on from there; again after each failure, so that a member that dies with its
// messages unsent cuts nobody off.
#include <utility>
#include <vector>

#include "ft/service.hpp"
#include "launch/launch.hpp"

namespace weft::ft {
void Service::spread(const Revoked& revoked) {
  const Members& members = revoked.members;
  const RevokeMessage message{MessageId::revoke, {}, revoked.context};
  std::vector<uint8_t> reached(members.processes.size());
  for (int distance = 1; distance < members.size(); distance *= 2) {
    int to = (members.rank + distance) % members.size();
    while (instance_.failures.failed(members.processes[static_cast<size_t>(to)]))
      to = (to + 1) % members.size();
    if (to == members.rank || std::exchange(reached[static_cast<size_t>(to)], uint8_t{1}) != 0) continue;
    instance_.sender->post(members.processes[static_cast<size_t>(to)], &message, sizeof message);
  }
}

/// The lowest live process of each host, by host number; kNoProcess: none.
std::vector<core::ProcessId> Service::reporters() const {
  std::vector<core::ProcessId> lowest;
  for (core::ProcessId process = 0; process < instance_.size; ++process) {
    const auto host = static_cast<size_t>(instance_.host_of(process));
    if (host >= lowest.size()) lowest.resize(host + 1, core::kNoProcess);
    if (lowest[host] == core::kNoProcess && !instance_.failures.failed(process)) lowest[host] = process;
  }
  return lowest;
}

/// The lowest live rank of a host reports a failure on it to the lowest live rank of each other host. If the
/// host has none, who learns of its last failure passes it on like a revocation, from host to host. A failure
/// elsewhere is also reported to the other ranks of this host, which may not use the network themselves.
void Service::tell_others(core::ProcessId failed) {
  if (instance_.network == nullptr || !launch::continues_on_failure() || failed >= instance_.size) return;
  const std::vector<core::ProcessId> lowest = reporters();
  const auto own = static_cast<size_t>(instance_.host), host = static_cast<size_t>(instance_.host_of(failed));
  if (host != own)
    for (core::ProcessId process = 0; process < instance_.size; ++process)
      if (process != instance_.self && instance_.same_host(process) && !instance_.failures.failed(process))
        tell(process, failed);
  if (host != own && lowest[host] != core::kNoProcess) {
    // Has that process died, too? Then this one notices it, and passes both on.
    if (!told_) instance_.network->watch(lowest[host]);
    return;
  }
  if (lowest[own] != instance_.self) return;
  std::vector<core::ProcessId> next;  // the live hosts behind this one, in a ring
  for (size_t i = 1; i < lowest.size(); ++i)
    if (const auto process = lowest[(own + i) % lowest.size()]; process != core::kNoProcess)
      next.push_back(process);
  for (size_t distance = 1; distance <= next.size(); distance += host == own ? 1 : distance)
    tell_of_host(next[distance - 1], failed);
}

/// Reports a failure with all earlier ones of its host, whose reporter may have died before its messages
/// left.
void Service::tell_of_host(core::ProcessId to, core::ProcessId failed) {
  tell(to, failed);
  for (core::ProcessId process = 0; process < instance_.size; ++process)
    if (process != failed && instance_.host_of(process) == instance_.host_of(failed) &&
        instance_.failures.failed(process))
      tell(to, process);
}

void Service::tell(core::ProcessId to, core::ProcessId failed) {
  const FailureMessage message{MessageId::failure, {}, failed};
  instance_.sender->post(to, &message, sizeof message);
}

}  // namespace weft::ft
