// SPDX-License-Identifier: BSD-3-Clause
// Waits: texts.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <set>

#include "mpiexec/waits.hpp"
#include "mpiexec/waits_text.hpp"

namespace weft::mpiexec {
namespace {

using wait_table::kAny;
using wait_table::What;
using State = RankState::State;

constexpr size_t kMaxListedRanks = 16;

/// Around durations and streams: ranks form a group whatever their durations and streams. Text from ranks has
/// no control characters.
constexpr char kDuration = '\x1f', kStream = '\x1e';

/// The text with another one in place of each marked part.
std::string replaced(const std::string& text, char mark, const std::string& part) {
  std::string rest;
  bool inside = false;
  for (const char c : text) {
    if (c != mark && !inside) rest += c;
    if (c == mark && !inside) rest += part;
    if (c == mark) inside = !inside;
  }
  return rest;
}

std::string key_of(const std::string& text) { return replaced(replaced(text, kDuration, ""), kStream, ""); }

std::string marked_stream(const Wait& wait) { return kStream + wait.stream_text() + kStream; }

std::string duration(double seconds) {
  char text[32];
  if (seconds < 600)
    snprintf(text, sizeof text, seconds < 10 ? "%.1f s" : "%.0f s", seconds);
  else
    snprintf(text, sizeof text, "%.0f min", seconds / 60);
  return kDuration + std::string(text) + kDuration;
}

std::string communicator_text(const std::string& name, int size) {
  if (name == "MPI_COMM_WORLD" || name == "MPI_COMM_SELF") return name;
  return (name.empty() ? "a communicator without name" : "\"" + name + "\"") + " (" + std::to_string(size) +
         " ranks)";
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
             (wait.peer == kAny ? ""
              : wait.count == 0 ? ", held exclusively by " + peer
              : wait.count == 1
                  ? ", held shared by " + peer
                  : ", held shared by " + peer + " and " + std::to_string(wait.count - 1) + " more");
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
  const std::vector<int> missing = arrivals_at(wait, all).missing_of(wait);
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

/// "; rank 1 has not enqueued it", of the ranks that have not arrived in a collective; empty: unknown.
std::string enqueued_text(const Wait& wait, const AllArrivals& all) {
  const Arrivals& arrivals = arrivals_at(wait, all);
  std::map<std::string, std::vector<int>> states;
  for (const int rank : arrivals.missing_of(wait)) {
    const std::optional<bool> enqueued = arrivals.has_enqueued(rank, wait);
    if (!enqueued) continue;
    const std::string behind = arrivals.waits_behind(rank, wait);
    states[*enqueued ? " enqueued it" + (behind.empty() ? "" : " behind " + behind) : " not enqueued it"]
        .push_back(rank);
  }
  std::string text;
  for (const auto& [state, ranks] : states)
    text += "; " + ranks_text(ranks) + (ranks.size() == 1 ? " has" : " have") + state;
  return text;
}

std::string describe_wait(const Wait& wait, const AllArrivals& all) {
  const std::string call = wait.call.empty() ? "a call" : wait.call;
  std::string text = wait.stream   ? "in " + marked_stream(wait) + ": " + call
                     : wait.queued ? "in a stream: " + call
                     : wait.polls  ? "polls " + call
                                   : call;
  if (wait.comm_size > 0) text += " on " + communicator(wait);
  text += (wait.polls ? " for " : " since ") + duration(wait.seconds);
  if (const std::string what = operation(wait); !what.empty()) text += ": " + what;
  if (const std::string sent = unexpected_text(wait); !sent.empty())
    text += "; " + sent + " (unexpected, " + std::to_string(wait.unexpected->bytes) + " bytes)";
  if (wait.is_collective())
    if (const std::string missing = missing_text(wait, all); !missing.empty())
      text += "; " + missing + enqueued_text(wait, all);
  return text;
}

/// "; behind it: MPIX_Allreduce_enqueue on "halo" (2 ranks) and 3 more calls": calls of the stream of a wait.
std::string behind_text(const RankState& rank, const Wait& wait) {
  const PendingCall* first = nullptr;
  int n = 0;
  for (const PendingCall& call : rank.pending)
    if (wait.stream == call.stream && n++ == 0) first = &call;
  if (first == nullptr) return "";
  std::string text = "; behind it: " + (first->call.empty() ? "a call" : first->call) + " on " +
                     communicator_text(first->comm, first->comm_size);
  if (n > 1) text += " and " + std::to_string(n - 1) + (n == 2 ? " more call" : " more calls");
  return text;
}

/// "; in stream 0x7f5a10: MPIX_Recv_enqueue ...", for each operation that waits in a stream.
std::string queued_text(const RankState& rank, const AllArrivals& all) {
  std::string text;
  for (const Wait& wait : rank.waits)
    if (wait.queued) text += "; " + describe_wait(wait, all) + behind_text(rank, wait);
  return text;
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
      ", \"host\": " + json_text(rank.host) +
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
  text += ", \"in_stream\": " + std::string(wait->queued || wait->stream ? "true" : "false");
  text += ", \"stream\": " + (wait->stream ? json_text(wait->stream_text()) : std::string("null"));
  text += ", \"polls\": " + std::string(wait->polls ? "true" : "false");
  text += ", \"peer\": " + json_or_null(wait->peer, peer && wait->peer != kAny);
  text += ", \"tag\": " + json_or_null(wait->tag, peer && wait->tag != kAny);
  text += ", \"count\": " + (peer ? std::to_string(wait->count) : "null");
  text += ", \"bytes\": " + (peer ? std::to_string(wait->bytes) : "null");
  text += ", \"communicator\": " + json_text(wait->comm) +
          ", \"communicator_size\": " + std::to_string(wait->comm_size);
  text += ", \"waits_for\": [";
  if (wait->is_collective())
    for (const int missing : arrivals_at(*wait, all).missing_of(*wait))
      text += (text.back() == '[' ? "" : ", ") + std::to_string(missing);
  text += "], \"not_enqueued\": [";
  if (wait->is_collective())
    for (const int missing : arrivals_at(*wait, all).missing_of(*wait))
      if (arrivals_at(*wait, all).has_enqueued(missing, *wait) == false)
        text += (text.back() == '[' ? "" : ", ") + std::to_string(missing);
  text += "], \"unexpected\": ";
  if (!wait->unexpected) return text + "null}";
  const Wait::Unexpected& message = *wait->unexpected;
  return text + "{\"peer\": " + std::to_string(message.source) + ", \"tag\": " + std::to_string(message.tag) +
         ", \"bytes\": " + std::to_string(message.bytes) +
         ", \"communicator\": " + json_text(message.comm_size != 0 ? message.comm : wait->comm) + "}}";
}

}  // namespace

std::string without_marks(std::string text) {
  std::erase(text, kDuration);
  std::erase(text, kStream);
  return text;
}

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

std::string Wait::stream_text() const {
  constexpr uint64_t kPerThread = 2;  // CU_STREAM_PER_THREAD, the last default stream
  if (!stream) return "";
  if (*stream <= kPerThread) return "the default stream";
  char text[32];
  snprintf(text, sizeof text, "stream 0x%" PRIx64, *stream);
  return text;
}

std::string communicator(const Wait& wait) { return communicator_text(wait.comm, wait.comm_size); }

bool is_of_other_job(const Wait& wait) {
  return wait.peer != kAny && wait.peer_process < 0 && wait.comm_size > 0 && !wait.is_collective();
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
      return "outside MPI" + since + (rank.process_state == 'R' ? ", running" : ", not running") + last +
             queued_text(rank, all);
    case State::waiting:
      break;
  }
  std::string text;
  const auto threads =
      std::count_if(rank.waits.begin(), rank.waits.end(), [](const Wait& wait) { return !wait.queued; });
  for (const Wait& wait : rank.waits) {
    if (wait.queued) continue;
    const char* name = threads == 1 ? "" : text.empty() ? "one thread: " : "; another: ";
    text += name + describe_wait(wait, all) + behind_text(rank, wait);
  }
  return text + queued_text(rank, all);
}

std::string unexpected_text(const Wait& wait) {
  if (!wait.unexpected) return "";
  const Wait::Unexpected& message = *wait.unexpected;
  std::string text = "rank " + std::to_string(message.source) + " sent tag " + std::to_string(message.tag);
  if (message.comm_size == 0) return text;
  return text + " on " + communicator_text(message.comm, message.comm_size);
}

std::string json_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
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
    const std::string text = describe_rank(rank, all), key = key_of(text);
    const double seconds = rank.waits.empty() ? rank.seconds : rank.waits[0].seconds;
    auto found =
        std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return group.key == key; });
    if (found == groups.end()) found = groups.insert(groups.end(), {key, text, seconds, {}});
    if (seconds > found->seconds) found->text = text;
    found->seconds = std::max(found->seconds, seconds);
    found->members.push_back(&rank);
  }
  std::vector<std::string> lines;
  const bool several_hosts = std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& rank) {
    return rank.host != job.ranks[0].host;
  });
  for (const auto& [key, text, seconds, members] : groups) {
    std::vector<int> ranks;
    for (const RankState* member : members) ranks.push_back(member->rank);
    std::string name = ranks_text(ranks);
    if (members.size() == 1)
      name +=
          " (pid " + std::to_string(members[0]->pid) + (several_hosts ? " on " + members[0]->host : "") + ")";
    if (job.singleton())
      name = "a singleton (pid " + std::to_string(members[0]->pid) + ", the only rank of its job)";
    lines.push_back(name + ": " +
                    without_marks(members.size() == 1 ? text : replaced(text, kStream, "a stream")));
  }
  if (const std::vector<int> missing = job.missing(); !missing.empty())
    lines.push_back(job.whole ? ranks_text(missing) + ": " + kNotFound
                              : "the other " + std::to_string(missing.size()) +
                                    " ranks are on other hosts, or have not connected");
  for (auto& text : conclusions(job)) lines.push_back(std::move(text));
  return lines;
}

std::string to_json(const JobState& job) {
  const AllArrivals all = arrivals_of(job);
  std::string text = "{\"job\": " + json_text(job.ranks.front().job) +
                     ", \"pid\": " + std::to_string(job.ranks.front().pid) +
                     ", \"host\": " + json_text(job.ranks.front().host) +
                     ", \"size\": " + std::to_string(job.ranks.front().size) + ",\n \"ranks\": [";
  for (const RankState& rank : job.ranks) {
    if (rank.waits.empty()) text += (text.back() == '[' ? "\n  " : ",\n  ") + to_json(rank, nullptr, all);
    for (const Wait& wait : rank.waits)
      text += (text.back() == '[' ? "\n  " : ",\n  ") + to_json(rank, &wait, all);
  }
  text += "],\n \"conclusions\": [";
  for (const std::string& conclusion : conclusions(job))
    text += (text.back() == '[' ? "\n  " : ",\n  ") + json_text(conclusion);
  text += "],\n \"missing\": [";
  for (const int rank : job.missing()) text += (text.back() == '[' ? "" : ", ") + std::to_string(rank);
  return text + "]}";
}

}  // namespace weft::mpiexec
