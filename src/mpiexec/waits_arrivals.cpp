// SPDX-License-Identifier: BSD-3-Clause
// Waits: which ranks have arrived in a collective, and which have enqueued it.
#include <algorithm>
#include <iterator>

#include "mpiexec/waits.hpp"
#include "mpiexec/waits_text.hpp"

namespace weft::mpiexec {

using wait_table::What;

bool Wait::is_collective() const {
  if (comm_size == 0) return false;
  return what == What::collective || (what == What::other && call.find("uffer") == call.npos);
}

std::string Wait::collective() const {
  if (what == What::collective) return "a nonblocking " + operation;
  return call.ends_with("_c") ? call.substr(0, call.size() - 2) : call;
}

bool is_collective_call(const std::string& call) {
  static const char* const others[] = {"end",      "ecv",   "robe",    "Start", "Pready", "Put",  "Get",
                                       "cumulate", "Fetch", "Compare", "Win_",  "Wait",   "Test", "Cancel"};
  return std::none_of(std::begin(others), std::end(others),
                      [&](const char* part) { return call.find(part) != call.npos; });
}

const Wait* RankState::wait_in(uint64_t stream) const {
  const auto found =
      std::find_if(waits.begin(), waits.end(), [&](const Wait& wait) { return wait.stream == stream; });
  return found != waits.end() ? &*found : nullptr;
}

std::vector<int> Arrivals::missing_of(const Wait& wait) const {
  std::vector<int> missing;
  for (int i = 0; i < static_cast<int>(wait.members.size()); ++i) {
    const auto found = arrived.find(i);
    const bool here =
        found != arrived.end() && (wait.number == 0 || found->second == 0 || found->second >= wait.number);
    if (!here) missing.push_back(i);
  }
  return missing;
}

std::optional<bool> Arrivals::has_enqueued(int rank, const Wait& wait) const {
  const auto found = enqueuers.find(rank);
  if (found == enqueuers.end()) return {};
  if (!wait.queued) return found->second.behind.contains(0) ? std::optional(true) : std::nullopt;
  if (wait.number == 0 || found->second.captured != 0) return {};
  return found->second.count >= wait.number;
}

std::string Arrivals::waits_behind(int rank, const Wait& wait) const {
  const auto found = enqueuers.find(rank);
  if (found == enqueuers.end()) return "";
  const auto pending = found->second.behind.find(wait.queued ? wait.number : 0);
  return pending != found->second.behind.end() ? pending->second : "";
}

const Arrivals& arrivals_at(const Wait& wait, const AllArrivals& all) {
  return all.at({wait.context, wait.queued});
}

AllArrivals arrivals_of(const JobState& job) {
  AllArrivals all;
  for (const RankState& rank : job.ranks)
    for (const Wait& wait : rank.waits) {
      if (!wait.is_collective()) continue;
      Arrivals& arrivals = all[{wait.context, wait.queued}];
      if (arrivals.arrived.emplace(wait.comm_rank, wait.number).second)
        arrivals.calls[wait.collective()].push_back(wait.comm_rank);
    }
  for (auto& [key, arrivals] : all)
    for (auto& [call, ranks] : arrivals.calls) std::sort(ranks.begin(), ranks.end());
  for (const RankState& rank : job.ranks) {
    for (const EnqueuedCount& enqueued : rank.enqueued) {
      const auto found = all.find({enqueued.context, true});
      if (found == all.end()) continue;
      Arrivals::Enqueuer& enqueuer = found->second.enqueuers[enqueued.comm_rank];
      enqueuer.count = enqueued.count;
      enqueuer.captured = enqueued.captured;
    }
    for (const PendingCall& call : rank.pending) {
      const auto found = all.find({call.context, call.number != 0});
      if (found == all.end() || !is_collective_call(call.call)) continue;
      const Wait* const wait = rank.wait_in(call.stream);
      found->second.enqueuers[call.comm_rank].behind.emplace(call.number, wait == nullptr      ? ""
                                                                          : wait->call.empty() ? "a call"
                                                                                               : wait->call);
    }
  }
  return all;
}

std::vector<int> needed_by(const Wait& wait, const AllArrivals& all) {
  std::vector<int> ranks;
  if (wait.is_collective())
    for (const int missing : arrivals_at(wait, all).missing_of(wait)) {
      const int process = wait.members[static_cast<size_t>(missing)];
      ranks.push_back(process >= 0 ? process : kOtherJob);
    }
  else if (wait.peer_process >= 0)
    ranks.push_back(wait.peer_process);
  else if (is_of_other_job(wait))
    ranks.push_back(kOtherJob);
  return ranks;
}

}  // namespace weft::mpiexec
