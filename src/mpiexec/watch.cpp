// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/watch.hpp"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "base/json.hpp"
#include "mpiexec/counters.hpp"
#include "mpiexec/gpus.hpp"
#include "mpiexec/processes.hpp"
#include "mpiexec/states.hpp"

namespace weft::mpiexec {
namespace {

using State = RankState::State;

constexpr double kSampleSeconds = 0.01;
constexpr char kSampleUsage[] = "--sample takes JOB,SECONDS,SAMPLES";

/// The counters of one process as a JSON object.
class Counters {
 public:
  explicit Counters(pid_t pid) : memories_(open_counters(pid)) {}
  [[nodiscard]] std::string to_json() const {
    std::string text = "{";
    for (const CounterValue& counter : read_counters(memories_))
      text += (text.size() > 1 ? ", " : "") + json_text(counter.name) + ": " + std::to_string(counter.value);
    return text + "}";
  }

 private:
  std::vector<Memory> memories_;
};

/// Finds the ranks at the ends of the chains of waits.
class Chains {
 public:
  explicit Chains(const JobState& job) : all_(arrivals_of(job)) {
    for (const RankState& rank : job.ranks) ranks_[rank.rank] = &rank;
  }
  [[nodiscard]] std::set<int> ends_of(int rank) {
    ends_.clear();
    visited_ = {rank};
    follow(rank);
    if (!ends_.empty() || !ranks_.contains(rank)) return ends_;
    // The ranks wait for each other, or for any rank.
    for (const Wait& wait : ranks_.at(rank)->waits) {
      for (const int next : needed_by(wait, all_)) ends_.insert(next);
      if (wait.peer == wait_table::kAny && needed_by(wait, all_).empty() &&
          (wait.what == wait_table::What::receive || wait.what == wait_table::What::probe))
        ends_.insert(kAnyRank);
    }
    return ends_;
  }

 private:
  void follow(int rank) {
    const auto found = ranks_.find(rank);
    if (found == ranks_.end()) return static_cast<void>(ends_.insert(rank));  // of another host
    const RankState& state = *found->second;
    if (state.state == State::inside) return;  // makes progress, or its wait is short
    if (state.state != State::waiting) return static_cast<void>(ends_.insert(rank));
    for (const Wait& wait : state.waits)
      for (const int next : needed_by(wait, all_))
        if (visited_.insert(next).second) follow(next);
  }
  const AllArrivals all_;
  std::map<int, const RankState*> ranks_;
  std::set<int> ends_, visited_;
};

std::string name_of(int cause) {
  if (cause >= 0) return std::to_string(cause);
  return cause == kOtherJob ? "another job" : cause == kAnyRank ? "any rank" : "unknown";
}

std::string number(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.4f", value);
  return text;
}

class Watch {
 public:
  Watch(const WatchedJob& job, bool with_states) : job_(job), with_states_(with_states) {}

  /// Adds `seconds` in which the ranks did what they do now. Returns false if the job has ended.
  bool sample(double seconds) {
    state_ = job_.read();
    const auto delaying = delaying_ranks(state_);
    total_ += seconds;
    bool running = false;
    for (const RankState& rank : state_.ranks) {
      Shares& shares = shares_[rank.rank];
      running |= rank.state != State::ended;
      if (rank.state == State::inside || rank.state == State::waiting) shares.inside += seconds;
      if (rank.state != State::waiting) continue;
      shares.waiting += seconds;
      const auto found = delaying.find(rank.rank);
      if (found == delaying.end() || found->second.empty()) {
        shares.delays[-1] += seconds;
        continue;
      }
      const double part = seconds / static_cast<double>(found->second.size());
      for (const int cause : found->second) {
        shares.delays[cause] += part;
        if (cause != kAnyRank) shares_[cause].delaying += part;
      }
    }
    return running;
  }

  /// A line of JSON; begins a new interval.
  [[nodiscard]] std::string report() {
    static const char* const states[] = {"outside MPI", "inside MPI", "waiting", "left MPI", "ended"};
    state_ = job_.read(true);
    const AllArrivals all = arrivals_of(state_);
    std::string text = "{\"seconds\": " + number(total_) +
                       ", \"size\": " + std::to_string(state_.ranks.empty() ? 0 : state_.ranks[0].size) +
                       ", \"ranks\": [";
    for (const RankState& rank : state_.ranks) {
      const Shares& shares = shares_[rank.rank];
      text += (text.back() == '[' ? "" : ", ") + std::string("{\"rank\": ") + std::to_string(rank.rank) +
              ", \"pid\": " + std::to_string(rank.pid) + ", \"host\": " + json_text(rank.host) +
              ", \"state\": " + json_text(states[static_cast<int>(rank.state)]) +
              ", \"call\": " + json_text(rank.waits.empty() ? rank.last_call : rank.waits[0].call) +
              ", \"inside\": " + share(shares.inside) + ", \"waiting\": " + share(shares.waiting) +
              ", \"delaying\": " + share(shares.delaying) + ", \"waits_for\": {";
      for (const auto& [cause, seconds] : shares.delays)
        text += (text.back() == '{' ? "\"" : ", \"") + name_of(cause) + "\": " + share(seconds);
      auto& counters = counters_[rank.pid];
      if (counters == nullptr) counters = std::make_unique<Counters>(rank.pid);
      text += "}, \"streams\": " + streams_of(rank, all) + ", \"gpus\": " + gpus_of(rank) +
              ", \"counters\": " + counters->to_json() + "}";
    }
    text += "], \"conclusions\": [";
    for (const std::string& conclusion : conclusions(lasting(total_)))
      text += (text.back() == '[' ? "" : ", ") + json_text(conclusion);
    text += "]";
    if (with_states_) {
      std::string states = std::string(kStatesTitle) + "\n";
      for (const RankState& rank : lasting(total_).ranks) states += to_text(rank);
      text += ", \"states\": " + json_string(states);
    }
    shares_.clear();
    total_ = 0;
    return text + "}\n";
  }

 private:
  /// The GPU streams of a rank that wait for or in an MPI call. The peer, and the ranks that have not arrived
  /// in a collective, are ranks of MPI_COMM_WORLD; ranks that are not watched are left out.
  [[nodiscard]] std::string streams_of(const RankState& rank, const AllArrivals& all) const {
    std::string text = "[";
    for (const Wait& wait : rank.waits) {
      if (!wait.stream) continue;
      text += (text.size() > 1 ? ", " : "") + std::string("{\"stream\": ") + json_text(wait.stream_text()) +
              ", \"call\": " + json_text(wait.call) + ", \"communicator\": " + json_text(wait.comm) +
              ", \"peer\": " + (wait.peer_process >= 0 ? std::to_string(wait.peer_process) : "null") +
              ", \"missing\": [";
      for (const int other : wait.is_collective() ? needed_by(wait, all) : std::vector<int>())
        if (std::any_of(state_.ranks.begin(), state_.ranks.end(),
                        [&](const RankState& seen) { return seen.rank == other; }))
          text += (text.back() == '[' ? "" : ", ") + std::to_string(other);
      text += "], \"seconds\": " + number(wait.seconds) + "}";
    }
    return text + "]";
  }
  /// The GPUs that a rank uses, with their distances from the CPUs on which it may run; -1: unknown.
  [[nodiscard]] std::string gpus_of(const RankState& rank) {
    if (rank.gpus.empty()) return "[]";
    if (!topology_) topology_ = read_topology({}, allowed_cpus());
    std::string text = "[";
    for (const RankState::UsedGpu& used : rank.gpus) {
      VisibleGpu gpu{std::to_string(used.number)};
      for (const Gpu& known : topology_->gpus)
        if (known.address == used.pci) gpu.gpu = known;
      const int distance = gpu_distances({gpu}, *topology_, launch::allowed_cpus(rank.pid))[0];
      text += (text.size() > 1 ? ", " : "") + std::string("{\"number\": ") + gpu.entry +
              ", \"uuid\": " + json_text(used.uuid) + ", \"pci\": " + json_text(used.pci) +
              ", \"visible\": " + std::to_string(rank.visible_gpus) +
              ", \"numa_distance\": " + std::to_string(distance) + "}";
    }
    return text + "]";
  }
  /// The job without waits that have begun in the last `seconds`.
  [[nodiscard]] JobState lasting(double seconds) const {
    JobState job = state_;
    for (RankState& rank : job.ranks)
      std::erase_if(rank.waits, [&](const Wait& wait) { return wait.seconds < seconds; });
    return job;
  }
  [[nodiscard]] std::string share(double seconds) const { return number(total_ > 0 ? seconds / total_ : 0); }
  const WatchedJob& job_;
  const bool with_states_;
  JobState state_;
  std::map<int, Shares> shares_;
  std::map<pid_t, std::unique_ptr<Counters>> counters_;
  std::optional<Topology> topology_;
  double total_ = 0;
};

void sleep_for(double seconds) {
  const timespec pause{static_cast<time_t>(seconds),
                       static_cast<long>((seconds - std::floor(seconds)) * 1e9)};
  ::nanosleep(&pause, nullptr);
}

}  // namespace

std::map<int, std::vector<int>> delaying_ranks(const JobState& job) {
  Chains chains(job);
  std::map<int, std::vector<int>> found;
  for (const RankState& rank : job.ranks) {
    if (rank.state != State::waiting) continue;
    const std::set<int> ends = chains.ends_of(rank.rank);
    found[rank.rank].assign(ends.begin(), ends.end());
  }
  return found;
}

namespace {

Result<int> run_watch(const WatchedJob& job, double seconds, int samples, bool with_states) {
  Watch sampler(job, with_states);
  bool running = true;
  for (int i = 0; running && (samples == 0 || i < samples); ++i) {
    const double end = now() + seconds;
    double last = now();
    do {
      sleep_for(std::min(kSampleSeconds, std::max(0.0, end - last)));
      const double current = now();
      running = sampler.sample(current - last);
      last = current;
    } while (running && last < end);
    if (auto printed = print(sampler.report(), 0); !printed) return printed;
  }
  return 0;
}

}  // namespace

Result<int> watch(pid_t process, double seconds, int samples) {
  auto job = WatchedJob::open(process);
  if (!job) return std::move(job).error();
  return run_watch(**job, seconds, samples, false);
}

Result<int> sample(const std::string& what) {
  const size_t last = what.rfind(','), end = last == what.npos ? last : what.rfind(',', last - 1);
  if (end == what.npos) return Error(Errc::arg, kSampleUsage);
  std::istringstream words(what.substr(end + 1));
  double seconds = 0;
  char comma = 0;
  int samples = 0;
  if (!(words >> seconds >> comma >> samples) || !(seconds > 0 && seconds <= 3600) || samples < 0)
    return Error(Errc::arg, kSampleUsage);
  auto job = WatchedJob::open(what.substr(0, end));
  if (!job) return std::move(job).error();
  return run_watch(**job, seconds, samples, true);
}

}  // namespace weft::mpiexec
