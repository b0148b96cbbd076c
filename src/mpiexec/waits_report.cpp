// SPDX-License-Identifier: BSD-3-Clause
// Waits: texts and conclusions.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "mpiexec/hosts.hpp"
#include "mpiexec/waits.hpp"

namespace weft::mpiexec {
namespace {

using wait_table::kAny;
using wait_table::What;
using State = RankState::State;

constexpr size_t kMaxListedRanks = 16, kMaxCycle = 8;

/// Around durations: ranks form a group whatever their durations. Text from ranks has no control characters.
constexpr char kMark = '\x1f';

std::string without_marks(std::string text) {
  std::erase(text, kMark);
  return text;
}

std::string without_durations(const std::string& text) {
  std::string rest;
  bool inside = false;
  for (const char c : text)
    if (c == kMark)
      inside = !inside;
    else if (!inside)
      rest += c;
  return rest;
}

std::string duration(double seconds) {
  char text[32];
  if (seconds < 600)
    snprintf(text, sizeof text, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  else
    snprintf(text, sizeof text, "%.0f min", seconds / 60);
  return kMark + std::string(text) + kMark;
}

/// Returns "rank 3" or "ranks 0-3, 7".
std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0, listed = 0; i < ranks.size(); ++listed) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last == i + 1) last = i;
    if (listed != 0) text += ", ";
    if (listed == kMaxListedRanks) return text + "...";
    text += std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string communicator(const Wait& wait) {
  if (wait.comm == "MPI_COMM_WORLD" || wait.comm == "MPI_COMM_SELF") return wait.comm;
  return (wait.comm.empty() ? "a communicator without name" : "\"" + wait.comm + "\"") + " (" +
         std::to_string(wait.comm_size) + " ranks)";
}

/// Returns true if the wait is for one process, which is of no rank of MPI_COMM_WORLD.
bool is_of_other_job(const Wait& wait) {
  return wait.peer != kAny && wait.peer_process < 0 && wait.comm_size > 0 && !wait.is_collective();
}

std::string peer_text(const Wait& wait) {
  if (wait.peer == kAny) return "any rank";
  std::string text = "rank " + std::to_string(wait.peer);
  if (wait.peer_process >= 0 && wait.peer_process != wait.peer)
    text += " (rank " + std::to_string(wait.peer_process) + " of MPI_COMM_WORLD)";
  return is_of_other_job(wait) ? text + " (of another job)" : text;
}

/// Returns "receive from rank 1, tag 77, count 1 (4 bytes)".
std::string operation(const Wait& wait) {
  const std::string peer = peer_text(wait);
  const std::string tag = wait.tag == kAny ? "any tag" : "tag " + std::to_string(wait.tag);
  const std::string size =
      ", count " + std::to_string(wait.count) + " (" + std::to_string(wait.bytes) + " bytes)";
  switch (wait.what) {
    case What::send:
      return "send to " + peer + ", " + tag + size;
    case What::receive:
      return "receive from " + peer + ", " + tag + size;
    case What::probe:
      return "message from " + peer + ", " + tag;
    case What::partitioned:
      return "partitioned operation with " + peer + ", " + tag + size;
    case What::collective:
      return "nonblocking " + wait.operation;
    case What::generalized:
      return "generalized request";
    case What::enqueued:
      return "enqueued operation";
    case What::window_lock:
      return "lock of rank " + std::to_string(wait.tag) +
             (wait.peer != kAny ? ", held exclusively by " + peer
              : wait.count != 0 ? ", held shared by " + std::to_string(wait.count) + " ranks"
                                : "");
    case What::window_post:
      return "MPI_Win_post of " + peer;
    case What::window_complete:
      return "MPI_Win_complete of " + std::to_string(wait.count) + " more ranks";
    case What::window_operations:
      return "completion of operations at " + peer;
    case What::window_notification:
      return "notification counter " + std::to_string(wait.tag);
    case What::other:
      break;
  }
  return "";
}

/// Returns "waits for rank 3", with the ranks in MPI_COMM_WORLD if they differ; empty: unknown or none.
std::string missing_text(const Wait& wait, const AllArrivals& all) {
  const std::vector<int> missing = all.at(wait.context).missing_of(wait);
  if (missing.empty()) return "";
  std::vector<int> world;
  for (const int rank : missing)
    if (const int process = wait.members[static_cast<size_t>(rank)]; process >= 0) world.push_back(process);
  const std::string text = "waits for " + ranks_text(missing);
  if (world == missing) return text;
  if (world.empty()) return text + " (of another job)";
  return text + " (" + ranks_text(world) + " of MPI_COMM_WORLD" +
         (world.size() < missing.size() ? ", others of another job)" : ")");
}

std::string describe_wait(const Wait& wait, const AllArrivals& all) {
  const std::string call = wait.call.empty() ? "a call" : wait.call;
  std::string text = wait.polls ? "polls " + call : call;
  if (wait.comm_size > 0) text += " on " + communicator(wait);
  text += (wait.polls ? " for " : " since ") + duration(wait.seconds);
  if (const std::string what = operation(wait); !what.empty()) text += ": " + what;
  if (wait.is_collective())
    if (const std::string missing = missing_text(wait, all); !missing.empty()) text += "; " + missing;
  return text;
}

std::string describe_rank(const RankState& rank, const AllArrivals& all) {
  const std::string last = rank.last_call.empty() ? "" : "; last call: " + rank.last_call;
  const std::string since = rank.seconds < 0 ? "" : " since " + duration(rank.seconds);
  switch (rank.state) {
    case State::ended:
      return "has ended";
    case State::left:
      return "has called MPI_Finalize";
    case State::inside:
      return "in " + (rank.last_call.empty() ? "an MPI call" : rank.last_call) + since + ", in progress";
    case State::outside:
      return "outside MPI" + since + (rank.process_state == 'R' ? ", running" : ", not running") + last;
    case State::waiting:
      break;
  }
  std::string text;
  for (const Wait& wait : rank.waits) {
    const char* name = rank.waits.size() == 1 ? "" : text.empty() ? "one thread: " : "; another: ";
    text += name + describe_wait(wait, all);
  }
  return text;
}

/// Returns true if a send to `receiver` and the wait of the receiver belong together.
bool matches(int sender_comm_rank, const Wait& send, const Wait& receive) {
  if (send.what != What::send || (receive.what != What::receive && receive.what != What::probe)) return false;
  return send.context == receive.context && (receive.peer == kAny || receive.peer == sender_comm_rank) &&
         (receive.tag == kAny || receive.tag == send.tag);
}

/// Finds cycles of ranks of which each can go on only after the next one.
class Deadlocks {
 public:
  Deadlocks(const JobState& job, const AllArrivals& all) : all_(all) {
    for (const RankState& rank : job.ranks)
      if (rank.state == State::waiting && rank.waits.size() == 1 && !rank.threaded &&
          !ends_otherwise(rank.waits[0]))
        stuck_[rank.rank] = &rank.waits[0];
  }
  /// Returns a text per cycle; cycles have no rank in common.
  std::vector<std::string> find() {
    std::vector<std::string> texts;
    for (const auto& [rank, wait] : stuck_) {
      path_.clear();
      if (visit(rank)) texts.push_back(describe());
    }
    return texts;
  }

 private:
  /// Loops may do other things, and one of several requests may complete.
  static bool ends_otherwise(const Wait& wait) {
    return wait.polls || wait.call.starts_with("MPI_Waitany") || wait.call.starts_with("MPI_Waitsome");
  }
  [[nodiscard]] bool in_transfer(const Wait& one, const Wait& other) const {
    return matches(one.comm_rank, one, other) || matches(other.comm_rank, other, one);
  }
  bool visit(int rank) {
    const auto found = stuck_.find(rank);
    if (found == stuck_.end() || finished_.contains(rank)) return false;
    if (const auto on_path = std::find(path_.begin(), path_.end(), rank); on_path != path_.end()) {
      path_.erase(path_.begin(), on_path);
      finished_.insert(path_.begin(), path_.end());
      return true;
    }
    path_.push_back(rank);
    for (const int next : needed_by(*found->second, all_)) {
      const auto peer = stuck_.find(next);
      if (peer == stuck_.end() || in_transfer(*found->second, *peer->second)) continue;
      if (visit(next)) return true;
    }
    finished_.insert(rank);
    path_.pop_back();
    return false;
  }
  [[nodiscard]] std::string hint() const {
    if (path_.size() != 2) return "";
    const Wait &one = *stuck_.at(path_[0]), &other = *stuck_.at(path_[1]);
    if (one.what == What::send && other.what == What::send) return ": both send, neither receives";
    if (one.what == What::receive && other.what == What::receive) return ": both receive, neither sends";
    if (one.is_collective() || other.is_collective()) return "";
    if (one.context != other.context) return ": the communicators differ";
    return one.tag != other.tag && one.tag != kAny && other.tag != kAny
               ? ": the tags differ (" + std::to_string(one.tag) + " and " + std::to_string(other.tag) + ")"
               : "";
  }
  [[nodiscard]] std::string describe() const {
    std::string text = "deadlock: ";
    if (path_.size() == 1)
      return text + "rank " + std::to_string(path_[0]) + " waits in " + stuck_.at(path_[0])->call +
             " for itself";
    for (size_t i = 0; i < path_.size() && i < kMaxCycle; ++i)
      text += (i == 0 ? "rank " : ", rank ") + std::to_string(path_[i]) + " waits in " +
              stuck_.at(path_[i])->call + " for rank " + std::to_string(path_[(i + 1) % path_.size()]);
    if (path_.size() > kMaxCycle) text += ", ... (a cycle of " + std::to_string(path_.size()) + " ranks)";
    return text + hint();
  }

  const AllArrivals& all_;
  std::map<int, const Wait*> stuck_;  // by rank in MPI_COMM_WORLD
  std::set<int> finished_;
  std::vector<int> path_;
};

std::vector<std::string> mismatches(const JobState& job, const AllArrivals& all) {
  std::vector<std::string> texts;
  std::set<uint64_t> done;
  for (const RankState& rank : job.ranks)
    for (const Wait& wait : rank.waits) {
      if (!wait.is_collective() || wait.members.size() < 2 || !done.insert(wait.context).second) continue;
      const Arrivals& arrivals = all.at(wait.context);
      if (!arrivals.missing_of(wait).empty()) continue;
      std::string calls;
      for (const auto& [call, ranks] : arrivals.calls)
        calls += (calls.empty() ? "" : ", ") + ranks_text(ranks) + " in " + call;
      if (arrivals.calls.size() > 1)
        texts.push_back("mismatched collectives on " + communicator(wait) + ": " + calls);
      else
        texts.push_back("all ranks of " + communicator(wait) + " are in " + arrivals.calls.begin()->first +
                        ": if this lasts, their roots or counts differ (WEFT_CHECK=on compares them)");
    }
  return texts;
}

/// Waits for ranks that will not come.
std::vector<std::string> lost(const JobState& job, const AllArrivals& all) {
  std::map<int, const RankState*> gone;
  for (const RankState& rank : job.ranks)
    if (rank.state == State::ended || rank.state == State::left) gone[rank.rank] = &rank;
  std::vector<std::string> texts;
  for (const RankState& rank : job.ranks) {
    if (gone.empty() || rank.waits.size() != 1) continue;
    const Wait& wait = rank.waits[0];
    for (const int peer : needed_by(wait, all))
      if (gone.contains(peer))
        texts.push_back("rank " + std::to_string(rank.rank) + " waits in " + wait.call + " for rank " +
                        std::to_string(peer) + ", which " + without_marks(describe_rank(*gone[peer], all)));
  }
  return texts;
}

std::string json_or_null(int value, bool known) { return known ? std::to_string(value) : "null"; }

std::string to_json(const RankState& rank, const Wait* wait, const AllArrivals& all) {
  static const char* const states[] = {"outside MPI", "inside MPI", "waiting", "left MPI", "ended"};
  static const char* const kinds[] = {"",
                                      "send",
                                      "receive",
                                      "probe",
                                      "nonblocking collective",
                                      "generalized request",
                                      "partitioned operation",
                                      "enqueued operation",
                                      "lock of a window",
                                      "MPI_Win_post",
                                      "MPI_Win_complete",
                                      "operations of a window",
                                      "notification"};
  char seconds[32];
  snprintf(seconds, sizeof seconds, "%.3f", std::max(0.0, wait != nullptr ? wait->seconds : rank.seconds));
  std::string text =
      "{\"rank\": " + std::to_string(rank.rank) + ", \"pid\": " + std::to_string(rank.pid) +
      ", \"state\": " + json_text(states[static_cast<int>(rank.state)]) +
      ", \"call\": " + json_text(wait != nullptr ? wait->call : rank.last_call) +
      ", \"seconds\": " + seconds + ", \"text\": " +
      json_text(without_marks(wait != nullptr ? describe_wait(*wait, all) : describe_rank(rank, all)));
  if (wait == nullptr) return text + "}";
  const bool peer = wait->what == What::send || wait->what == What::receive || wait->what == What::probe ||
                    wait->what == What::partitioned || wait->what == What::window_lock ||
                    wait->what == What::window_post || wait->what == What::window_operations;
  text += ", \"what\": " + json_text(wait->is_collective() && wait->what == What::other
                                         ? "collective"
                                         : kinds[static_cast<size_t>(wait->what) % std::size(kinds)]);
  text += ", \"polls\": " + std::string(wait->polls ? "true" : "false");
  text += ", \"peer\": " + json_or_null(wait->peer, peer && wait->peer != kAny);
  text += ", \"tag\": " + json_or_null(wait->tag, peer && wait->tag != kAny);
  text += ", \"count\": " + (peer ? std::to_string(wait->count) : "null");
  text += ", \"bytes\": " + (peer ? std::to_string(wait->bytes) : "null");
  text += ", \"communicator\": " + json_text(wait->comm) +
          ", \"communicator_size\": " + std::to_string(wait->comm_size);
  text += ", \"waits_for\": [";
  if (wait->is_collective())
    for (const int missing : all.at(wait->context).missing_of(*wait))
      text += (text.back() == '[' ? "" : ", ") + std::to_string(missing);
  return text + "]}";
}

}  // namespace

bool Wait::is_collective() const {
  if (comm_size == 0) return false;
  return what == What::collective || (what == What::other && call.find("uffer") == call.npos);
}

std::string Wait::collective() const {
  if (what == What::collective) return "a nonblocking " + operation;
  return call.ends_with("_c") ? call.substr(0, call.size() - 2) : call;
}

std::string json_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::vector<int> Arrivals::missing_of(const Wait& wait) const {
  std::vector<int> missing;
  for (int i = 0; i < static_cast<int>(wait.members.size()); ++i)
    if (!arrived.contains(i)) missing.push_back(i);
  return missing;
}

AllArrivals arrivals_of(const JobState& job) {
  AllArrivals all;
  for (const RankState& rank : job.ranks)
    for (const Wait& wait : rank.waits)
      if (wait.is_collective() && all[wait.context].arrived.insert(wait.comm_rank).second)
        all[wait.context].calls[wait.collective()].push_back(wait.comm_rank);
  for (auto& [context, arrivals] : all)
    for (auto& [call, ranks] : arrivals.calls) std::sort(ranks.begin(), ranks.end());
  return all;
}

std::vector<int> needed_by(const Wait& wait, const AllArrivals& all) {
  std::vector<int> ranks;
  if (wait.is_collective())
    for (const int missing : all.at(wait.context).missing_of(wait)) {
      const int process = wait.members[static_cast<size_t>(missing)];
      ranks.push_back(process >= 0 ? process : kOtherJob);
    }
  else if (wait.peer_process >= 0)
    ranks.push_back(wait.peer_process);
  else if (is_of_other_job(wait))
    ranks.push_back(kOtherJob);
  return ranks;
}

std::vector<std::string> conclusions(const JobState& job) {
  const AllArrivals all = arrivals_of(job);
  std::vector<std::string> texts = Deadlocks(job, all).find();
  for (auto& text : mismatches(job, all)) texts.push_back(std::move(text));
  for (auto& text : lost(job, all)) texts.push_back(std::move(text));
  return texts;
}

std::vector<std::string> describe(const JobState& job) {
  struct Group {
    std::string key, text;  // of the longest wait
    double seconds;
    std::vector<const RankState*> members;
  };
  const AllArrivals all = arrivals_of(job);
  std::vector<Group> groups;  // in the order of their first ranks
  for (const RankState& rank : job.ranks) {
    const std::string text = describe_rank(rank, all), key = without_durations(text);
    const double seconds = rank.waits.empty() ? rank.seconds : rank.waits[0].seconds;
    auto found =
        std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return group.key == key; });
    if (found == groups.end()) found = groups.insert(groups.end(), {key, text, seconds, {}});
    if (seconds > found->seconds) found->text = text;
    found->seconds = std::max(found->seconds, seconds);
    found->members.push_back(&rank);
  }
  std::vector<std::string> lines;
  for (const auto& [key, text, seconds, members] : groups) {
    std::vector<int> ranks;
    for (const RankState* member : members) ranks.push_back(member->rank);
    std::string name = ranks_text(ranks);
    if (members.size() == 1) name += " (pid " + std::to_string(members[0]->pid) + ")";
    if (job.singleton())
      name = "a singleton (pid " + std::to_string(members[0]->pid) + ", the only rank of its job)";
    lines.push_back(name + ": " + without_marks(text));
  }
  if (!job.singleton() && static_cast<int>(job.ranks.size()) < job.ranks.front().size)
    lines.push_back("the other " +
                    std::to_string(job.ranks.front().size - static_cast<int>(job.ranks.size())) +
                    " ranks are on other hosts, or have not connected");
  for (auto& text : conclusions(job)) lines.push_back(std::move(text));
  return lines;
}

std::string to_json(const JobState& job) {
  const AllArrivals all = arrivals_of(job);
  std::string text = "{\"pid\": " + std::to_string(job.ranks.front().pid) +
                     ", \"host\": " + json_text(host_name()) +
                     ", \"size\": " + std::to_string(job.ranks.front().size) + ",\n \"ranks\": [";
  for (const RankState& rank : job.ranks) {
    if (rank.waits.empty()) text += (text.back() == '[' ? "\n  " : ",\n  ") + to_json(rank, nullptr, all);
    for (const Wait& wait : rank.waits)
      text += (text.back() == '[' ? "\n  " : ",\n  ") + to_json(rank, &wait, all);
  }
  text += "],\n \"conclusions\": [";
  for (const std::string& conclusion : conclusions(job))
    text += (text.back() == '[' ? "\n  " : ",\n  ") + json_text(conclusion);
  return text + "]}";
}

}  // namespace weft::mpiexec
