// SPDX-License-Identifier: BSD-3-Clause
// Revocations and failures spread from process to process. A revocation goes to the first live members at the
// distances 1, 2, 4, ... and on from there; again after each failure, so that a member that dies with its
// messages unsent cuts nobody off.
#include <algorithm>
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

/// A failure on this host is reported to the lowest live rank of each other host, by the lowest live rank of
/// this one, with all earlier ones, whose reporter may have died before its messages left; a failure
/// elsewhere to the other ranks of this host, which may not use the network themselves.
void Service::tell_others(core::ProcessId failed) {
  if (instance_.network == nullptr || !launch::continues_on_failure() || failed >= instance_.size) return;
  const bool here = instance_.same_host(failed);
  std::vector<core::ProcessId> news{failed};
  for (core::ProcessId process = 0; here && process < instance_.size; ++process)
    if (process != failed && instance_.same_host(process) && instance_.failures.failed(process))
      news.push_back(process);
  std::vector<int> hosts{here ? instance_.host : -1};  // that know, or have been told
  for (core::ProcessId process = 0; process < instance_.size; ++process) {
    const int host = instance_.host_of(process);
    if (instance_.failures.failed(process)) continue;
    if (here && host == instance_.host && process < instance_.self) return;  // it reports
    if (process == instance_.self || here == (host == instance_.host)) continue;
    if (here) {
      if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) continue;
      hosts.push_back(host);
    }
    for (const core::ProcessId lost : news) {
      const FailureMessage message{MessageId::failure, {}, lost};
      instance_.sender->post(process, &message, sizeof message);
    }
  }
}

}  // namespace weft::ft
