// SPDX-License-Identifier: BSD-3-Clause
// Waits: conclusions. A rank is blocked if none of its waits can end before a rank goes on that is blocked
// itself, or has left.
#include <algorithm>
#include <map>
#include <set>

#include "mpiexec/waits.hpp"
#include "mpiexec/waits_text.hpp"

namespace weft::mpiexec {
namespace {

using wait_table::kAny;
using wait_table::What;
using State = RankState::State;

constexpr size_t kMaxCycle = 8;

/// Returns true if a send to `receiver` and the wait of the receiver belong together.
bool matches(int sender_comm_rank, const Wait& send, const Wait& receive) {
  if (send.what != What::send || (receive.what != What::receive && receive.what != What::probe)) return false;
  return send.context == receive.context && send.queued == receive.queued &&
         (receive.peer == kAny || receive.peer == sender_comm_rank) &&
         (receive.tag == kAny || receive.tag == send.tag);
}

bool in_transfer(const Wait& one, const RankState& other) {
  return std::any_of(other.waits.begin(), other.waits.end(), [&](const Wait& wait) {
    return matches(one.comm_rank, one, wait) || matches(wait.comm_rank, wait, one);
  });
}

bool is_message(const Wait& wait) {
  return wait.what == What::send || wait.what == What::receive || wait.what == What::probe;
}

/// Whether a message of any rank of the communicator ends the wait.
bool is_for_any(const Wait& wait) {
  return (wait.what == What::receive || wait.what == What::probe) && wait.peer == kAny;
}

/// Whether the call ends with operations in streams of its own rank, whose waits are known.
bool is_for_own_stream(const RankState& rank, const Wait& wait) {
  const bool no_target = wait.what == What::enqueued || (wait.what == What::other && wait.comm_size == 0);
  return no_target && !wait.polls && !wait.queued && !wait.stream &&
         std::any_of(rank.waits.begin(), rank.waits.end(),
                     [](const Wait& other) { return other.queued || other.stream; });
}

/// Whether a rank that has not arrived in a collective arrives without a further call, since its stream waits
/// in none.
bool arrives(int rank, const Wait& wait, const AllArrivals& all) {
  if (!wait.is_collective()) return false;
  const Arrivals& arrivals = arrivals_at(wait, all);
  const auto member = std::find(wait.members.begin(), wait.members.end(), rank);
  const auto comm_rank = static_cast<int>(member - wait.members.begin());
  return member != wait.members.end() && arrivals.has_enqueued(comm_rank, wait) == true &&
         arrivals.waits_behind(comm_rank, wait).empty();
}

bool is_gone(const RankState& rank) { return rank.state == State::ended || rank.state == State::left; }

/// The ranks that can end a wait: all are needed, or for is_for_any() one is.
std::vector<int> others_of(const RankState& rank, const Wait& wait, const AllArrivals& all) {
  if (!is_for_any(wait)) return needed_by(wait, all);
  std::vector<int> others;
  for (const int member : wait.members)
    if (member != rank.rank) others.push_back(member);
  return others;
}

/// "rank 0 waits in MPI_Recv for rank 1", or "... for any rank".
std::string waits_in(int rank, const Wait& wait, const std::string& whom) {
  return (wait.queued || wait.stream ? "a stream of rank " : "rank ") + std::to_string(rank) + " waits in " +
         wait.call + " for " + whom;
}

/// "; rank 0 receives tag 1, but rank 1 sent tag 2"; empty: nothing is known.
std::string meant_text(int rank, const Wait& wait) {
  const std::string sent = unexpected_text(wait);
  if (sent.empty()) return "";
  const std::string tag = wait.tag == kAny ? "any tag" : "tag " + std::to_string(wait.tag);
  return "; rank " + std::to_string(rank) + " receives " + tag + ", but " + sent;
}

/// Finds ranks of which none can go on before another one of them does.
class Deadlocks {
 public:
  Deadlocks(const JobState& job, const AllArrivals& all) : all_(all) {
    for (const int rank : job.whole ? job.missing() : std::vector<int>()) gone_.insert(rank);
    for (const RankState& rank : job.ranks) {
      if (is_gone(rank)) gone_.insert(rank.rank);
      const bool ends = std::any_of(rank.waits.begin(), rank.waits.end(), ends_otherwise);
      if ((rank.state != State::waiting && !rank.only_queued()) || rank.waits.empty() || ends) continue;
      Blocked& blocked = blocked_[rank.rank];
      blocked.rank = &rank;
      for (const Wait& wait : rank.waits) {
        if (is_for_own_stream(rank, wait)) continue;
        blocked.waits.push_back(&wait);
        blocked.others.push_back(others_of(rank, wait, all));
      }
    }
    remove_all_that_can_go_on();
  }
  /// Returns a text per deadlock; deadlocks have no rank in common.
  std::vector<std::string> find() {
    std::vector<std::string> texts;
    for (const auto& [rank, state] : blocked_) {
      path_.clear();
      if (visit(rank)) texts.push_back(describe_cycle());
    }
    for (const auto& [rank, state] : blocked_)
      if (const std::set<int> set = closure(rank); !set.empty()) texts.push_back(describe_set(set));
    return texts;
  }

 private:
  /// Loops may do other things, and one of several requests may complete.
  static bool ends_otherwise(const Wait& wait) {
    return wait.polls || wait.call.starts_with("MPI_Waitany") || wait.call.starts_with("MPI_Waitsome");
  }
  [[nodiscard]] bool holds_up(const Wait& wait, int other) const {
    const auto found = blocked_.find(other);
    if (arrives(other, wait, all_)) return false;
    return found != blocked_.end() ? !in_transfer(wait, *found->second.rank) : gone_.contains(other);
  }
  /// A rank with, for each of its waits, the ranks that can end it.
  struct Blocked {
    const RankState* rank = nullptr;
    std::vector<const Wait*> waits;
    std::vector<std::vector<int>> others;
  };
  [[nodiscard]] bool is_blocked(const Blocked& blocked) const {
    for (size_t i = 0; i < blocked.others.size(); ++i) {
      const Wait& wait = *blocked.waits[i];
      const std::vector<int>& others = blocked.others[i];
      const auto holds = [&](int other) { return holds_up(wait, other); };
      const bool held = is_for_any(wait) ? !others.empty() && std::all_of(others.begin(), others.end(), holds)
                                         : std::any_of(others.begin(), others.end(), holds);
      if (!held) return false;
    }
    return true;
  }
  /// Removes the ranks of which a wait can end, then the ranks that only waited for these, and so on.
  void remove_all_that_can_go_on() {
    std::map<int, std::vector<int>> waiters;
    std::vector<int> open;
    for (const auto& [rank, blocked] : blocked_) {
      open.push_back(rank);
      for (const std::vector<int>& others : blocked.others)
        for (const int other : others) waiters[other].push_back(rank);
    }
    while (!open.empty()) {
      const int rank = open.back();
      open.pop_back();
      const auto found = blocked_.find(rank);
      if (found == blocked_.end() || is_blocked(found->second)) continue;
      blocked_.erase(found);
      const std::vector<int>& again = waiters[rank];
      open.insert(open.end(), again.begin(), again.end());
    }
  }
  /// One wait, for certain ranks.
  static bool is_simple(const Blocked& blocked) {
    return blocked.waits.size() == 1 && !is_for_any(*blocked.waits[0]);
  }

  /// Searches for a cycle of simple waits. Afterwards `path_` is the cycle.
  bool visit(int rank) {
    const auto found = blocked_.find(rank);
    if (found == blocked_.end() || !is_simple(found->second) || finished_.contains(rank)) return false;
    if (const auto on_path = std::find(path_.begin(), path_.end(), rank); on_path != path_.end()) {
      path_.erase(path_.begin(), on_path);
      finished_.insert(path_.begin(), path_.end());
      reported_.insert(path_.begin(), path_.end());
      return true;
    }
    path_.push_back(rank);
    for (const int next : found->second.others[0])
      if (holds_up(wait_of(rank), next) && visit(next)) return true;
    finished_.insert(rank);
    path_.pop_back();
    return false;
  }
  /// All blocked ranks for which a rank waits, directly or not. Empty if they are reported already, or if
  /// only ranks that have left are missing.
  std::set<int> closure(int first) {
    std::set<int> found{first};
    std::vector<int> open{first};
    bool waits_for_gone = false;
    while (!open.empty()) {
      const Blocked& blocked = blocked_.at(open.back());
      open.pop_back();
      if (reported_.contains(blocked.rank->rank)) return {};
      for (size_t i = 0; i < blocked.others.size(); ++i)
        for (const int other : blocked.others[i]) {
          if (!holds_up(*blocked.waits[i], other)) continue;
          waits_for_gone |= gone_.contains(other);
          if (blocked_.contains(other) && found.insert(other).second) open.push_back(other);
        }
    }
    if (waits_for_gone || (found.size() == 1 && !needs_itself(first))) return {};
    reported_.insert(found.begin(), found.end());
    return found;
  }
  [[nodiscard]] bool needs_itself(int rank) const {
    const Blocked& state = blocked_.at(rank);
    for (size_t i = 0; i < state.others.size(); ++i)
      if (!is_for_any(*state.waits[i]) &&
          std::find(state.others[i].begin(), state.others[i].end(), rank) != state.others[i].end())
        return true;
    return false;
  }
  [[nodiscard]] const Wait& wait_of(int rank) const { return *blocked_.at(rank).waits[0]; }

  [[nodiscard]] std::string hint() const {
    if (path_.size() != 2) return "";
    const Wait &one = wait_of(path_[0]), &other = wait_of(path_[1]);
    if (one.what == What::send && other.what == What::send) return ": both send, neither receives";
    if (one.what == What::receive && other.what == What::receive && meant_text(0, one).empty() &&
        meant_text(0, other).empty())
      return ": both receive, neither sends";
    if (one.is_collective() && other.is_collective() && one.context != other.context)
      return ": on different communicators (" + communicator(one) + " and " + communicator(other) + ")";
    if (!is_message(one) || !is_message(other)) return "";
    if (one.context != other.context) return ": the communicators differ";
    return one.what != other.what && one.tag != other.tag && one.tag != kAny && other.tag != kAny
               ? ": the tags differ (" + std::to_string(one.tag) + " and " + std::to_string(other.tag) + ")"
               : "";
  }
  /// "deadlock: ", or "possible deadlock: " if other threads may go on.
  template <class Ranks>
  [[nodiscard]] std::string title(const Ranks& ranks, std::string& doubt) const {
    std::vector<int> threaded, outside;
    for (const int rank : ranks) {
      if (blocked_.at(rank).rank->only_queued())
        outside.push_back(rank);
      else if (blocked_.at(rank).rank->may_go_on())
        threaded.push_back(rank);
    }
    std::sort(threaded.begin(), threaded.end());
    std::sort(outside.begin(), outside.end());
    if (threaded.empty() && outside.empty()) return "deadlock: ";
    doubt = " (unless ";
    if (!threaded.empty()) doubt += "another thread of " + ranks_text(threaded) + " goes on";
    if (!outside.empty())
      doubt += (threaded.empty() ? "" : ", or ") + ranks_text(outside) + ", outside of MPI, " +
               (outside.size() == 1 ? "does not wait for its stream" : "do not wait for their streams");
    doubt += ")";
    return "possible deadlock: ";
  }
  [[nodiscard]] std::string describe_cycle() const {
    std::string doubt, text = title(path_, doubt);
    if (path_.size() == 1) return text + waits_in(path_[0], wait_of(path_[0]), "itself") + doubt;
    for (size_t i = 0; i < path_.size() && i < kMaxCycle; ++i)
      text += (i == 0 ? "" : ", ") +
              waits_in(path_[i], wait_of(path_[i]), "rank " + std::to_string(path_[(i + 1) % path_.size()]));
    if (path_.size() > kMaxCycle) text += ", ... (a cycle of " + std::to_string(path_.size()) + " ranks)";
    if (const std::string known = hint(); !known.empty()) return text + known + doubt;
    for (size_t i = 0; i < path_.size() && i < kMaxCycle; ++i)
      text += meant_text(path_[i], wait_of(path_[i]));
    return text + doubt;
  }
  [[nodiscard]] std::string describe_set(const std::set<int>& ranks) const {
    std::string doubt, text = title(ranks, doubt) + ranks_text({ranks.begin(), ranks.end()}) + ": ", meant;
    size_t listed = 0;
    for (const int rank : ranks)
      for (size_t i = 0; i < blocked_.at(rank).waits.size(); ++i) {
        if (++listed > kMaxCycle) continue;
        const Wait& wait = *blocked_.at(rank).waits[i];
        const std::string whom = is_for_any(wait) ? "any rank" : ranks_text(blocked_.at(rank).others[i]);
        text += (listed == 1 ? "" : ", ") + waits_in(rank, wait, whom);
        meant += meant_text(rank, wait);
      }
    if (listed > kMaxCycle) text += ", ... (" + std::to_string(listed) + " waits)";
    return text + meant + doubt;
  }

  const AllArrivals& all_;
  std::map<int, Blocked> blocked_;  // by rank in MPI_COMM_WORLD
  std::set<int> gone_, finished_, reported_;
  std::vector<int> path_;
};

std::vector<std::string> mismatches(const JobState& job, const AllArrivals& all) {
  std::vector<std::string> texts;
  std::set<std::pair<uint64_t, bool>> done;
  for (const RankState& rank : job.ranks)
    for (const Wait& wait : rank.waits) {
      if (!wait.is_collective() || wait.members.size() < 2 ||
          !done.insert({wait.context, wait.queued}).second)
        continue;
      const Arrivals& arrivals = arrivals_at(wait, all);
      const auto is_other = [&](const auto& arrived) { return arrived.second != wait.number; };
      if (!arrivals.missing_of(wait).empty() ||
          std::any_of(arrivals.arrived.begin(), arrivals.arrived.end(), is_other))
        continue;
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
  std::map<int, std::string> gone;  // with what has become of them
  for (const RankState& rank : job.ranks)
    if (is_gone(rank)) gone[rank.rank] = without_marks(describe_rank(rank, all));
  for (const int rank : job.whole ? job.missing() : std::vector<int>())
    gone[rank] = std::string("was ") + kNotFound;
  std::vector<std::string> texts;
  if (gone.empty()) return texts;
  for (const RankState& rank : job.ranks)
    for (const Wait& wait : rank.waits) {
      const std::vector<int> others = others_of(rank, wait, all);
      if (is_for_any(wait)) {
        const auto is_lost = [&](int other) { return gone.contains(other); };
        if (!others.empty() && std::all_of(others.begin(), others.end(), is_lost))
          texts.push_back(waits_in(rank.rank, wait, "any rank") + ", and all others have left MPI" +
                          meant_text(rank.rank, wait));
        continue;
      }
      for (const int peer : others)
        if (gone.contains(peer))
          texts.push_back(waits_in(rank.rank, wait, "rank " + std::to_string(peer)) + ", which " +
                          gone[peer] + meant_text(rank.rank, wait));
    }
  return texts;
}

}  // namespace

bool RankState::may_go_on() const {
  const auto stuck = static_cast<int>(
      std::count_if(waits.begin(), waits.end(), [](const Wait& wait) { return !wait.queued; }));
  return threaded && callers > stuck && (threads == 0 || threads > stuck);
}

std::vector<std::string> conclusions(const JobState& job) {
  const AllArrivals all = arrivals_of(job);
  std::vector<std::string> texts = Deadlocks(job, all).find();
  for (auto& text : mismatches(job, all)) texts.push_back(std::move(text));
  for (auto& text : lost(job, all)) texts.push_back(std::move(text));
  return texts;
}

}  // namespace weft::mpiexec
