// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/states.hpp"

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>

#include "launch/environment.hpp"
#include "mpiexec/counters.hpp"

namespace weft::mpiexec {
namespace {

constexpr char kRank[] = "rank", kWait[] = "wait", kGpu[] = "gpu", kCounter[] = "counter",
               kPending[] = "pending", kEnqueued[] = "enqueued";

/// A line of fields. Texts of ranks have no control characters (text_of).
class Line {
 public:
  explicit Line(const char* kind) : text_(kind) {}
  Line& operator<<(const std::string& field) {
    text_ += '\t' + field;
    return *this;
  }
  Line& operator<<(const char* field) { return *this << std::string(field); }
  template <class Number>
  requires std::is_arithmetic_v<Number> Line& operator<<(Number field) {
    return *this << std::to_string(field);
  }
  [[nodiscard]] std::string end() const { return text_ + "\n"; }

 private:
  std::string text_;
};

/// Reads the fields of a line; after the first wrong one good() is false.
class Fields {
 public:
  explicit Fields(std::string_view line) : rest_(line) {}
  [[nodiscard]] std::string_view word() {
    if (!more_) good_ = false;
    const size_t tab = rest_.find('\t');
    const std::string_view field = rest_.substr(0, tab);
    more_ = tab != rest_.npos;
    rest_.remove_prefix(more_ ? tab + 1 : rest_.size());
    return field;
  }
  void read(std::string& to) {
    to = word();
    for (char& c : to)  // of another host; control characters would act on the terminal
      if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void read(Number& to) {
    const std::string_view field = word();
    const auto done = std::from_chars(field.data(), field.data() + field.size(), to);
    good_ = good_ && done.ec == std::errc() && done.ptr == field.data() + field.size();
  }
  /// A number of [first, last].
  int number(int first, int last) {
    int value = first;
    read(value);
    good_ = good_ && value >= first && value <= last;
    return std::clamp(value, first, last);
  }
  bool flag() { return number(0, 1) != 0; }
  [[nodiscard]] bool more() const { return more_; }
  [[nodiscard]] bool good() const { return good_ && !more_; }

 private:
  std::string_view rest_;
  bool more_ = true, good_ = true;
};

std::string to_text(const Wait& wait) {
  Line line(kWait);
  line << static_cast<int>(wait.what) << wait.peer << wait.tag << wait.peer_process << int{wait.polls}
       << int{wait.queued} << wait.number << wait.count << wait.bytes << wait.context << wait.comm_rank
       << wait.comm_size << wait.seconds << wait.call << wait.operation << wait.comm
       << int{wait.stream.has_value()};
  if (wait.stream) line << *wait.stream;
  line << int{wait.unexpected.has_value()};
  if (wait.unexpected)
    line << wait.unexpected->source << wait.unexpected->tag << wait.unexpected->bytes
         << wait.unexpected->comm_size << wait.unexpected->comm;
  line << int{wait.of_world};
  for (const int member : wait.of_world ? std::vector<int>() : wait.members) line << member;
  return line.end();
}

std::string to_text(const CounterValue& counter) {
  static const char* const kinds[] = {"total", "level", "high water"};
  return (Line(kCounter) << counter.name << counter.value << counters::name_of(counter.unit)
                         << kinds[static_cast<size_t>(counter.kind) % std::size(kinds)])
      .end();
}

constexpr int kMaxWorld = 1 << 24;

bool parse_rank(Fields& fields, RankState& rank) {
  rank.state = static_cast<RankState::State>(fields.number(0, static_cast<int>(RankState::State::ended)));
  fields.read(rank.job);
  fields.read(rank.host);
  fields.read(rank.launcher);
  rank.size = fields.number(1, kMaxWorld);
  rank.rank = fields.number(0, rank.size - 1);
  rank.pid = fields.number(0, INT_MAX);
  rank.threaded = fields.flag();
  fields.read(rank.callers);
  fields.read(rank.threads);
  rank.process_state = static_cast<char>(fields.number(0, 127));
  fields.read(rank.seconds);
  rank.visible_gpus = fields.number(0, wait_table::kMaxGpus);
  fields.read(rank.last_call);
  return fields.good();
}

bool parse_wait(Fields& fields, Wait& wait) {
  wait.what = static_cast<wait_table::What>(
      fields.number(0, static_cast<int>(wait_table::What::window_notification)));
  fields.read(wait.peer);
  fields.read(wait.tag);
  fields.read(wait.peer_process);
  wait.polls = fields.flag();
  wait.queued = fields.flag();
  fields.read(wait.number);
  fields.read(wait.count);
  fields.read(wait.bytes);
  fields.read(wait.context);
  wait.comm_rank = fields.number(-1, kMaxWorld);
  wait.comm_size = fields.number(0, kMaxWorld);
  fields.read(wait.seconds);
  fields.read(wait.call);
  fields.read(wait.operation);
  fields.read(wait.comm);
  if (fields.flag()) fields.read(wait.stream.emplace());
  if (fields.flag()) {
    Wait::Unexpected& message = wait.unexpected.emplace();
    fields.read(message.source);
    fields.read(message.tag);
    fields.read(message.bytes);
    fields.read(message.comm_size);
    fields.read(message.comm);
  }
  wait.of_world = fields.flag();
  while (fields.more()) wait.members.push_back(fields.number(-1, kMaxWorld));
  if (wait.of_world && wait.comm_size <= static_cast<int>(kMaxTables))
    wait.members = members_of_world(wait.comm_size);
  return fields.good() && (wait.members.empty() || static_cast<int>(wait.members.size()) == wait.comm_size);
}

bool parse_gpu(Fields& fields, RankState::UsedGpu& gpu) {
  fields.read(gpu.number);
  fields.read(gpu.uuid);
  fields.read(gpu.pci);
  return fields.good();
}

bool parse_pending(Fields& fields, PendingCall& call) {
  fields.read(call.context);
  fields.read(call.number);
  fields.read(call.stream);
  call.comm_rank = fields.number(0, kMaxWorld);
  call.comm_size = fields.number(0, kMaxWorld);
  fields.read(call.call);
  fields.read(call.comm);
  return fields.good();
}

bool parse_enqueued(Fields& fields, EnqueuedCount& count) {
  fields.read(count.context);
  count.comm_rank = fields.number(0, kMaxWorld);
  fields.read(count.count);
  fields.read(count.captured);
  return fields.good();
}

/// Adds a line to the rank before it, or begins a rank.
bool parse_line(std::string_view line, std::vector<RankState>& ranks) {
  Fields fields(line);
  const std::string_view kind = fields.word();
  if (kind == kRank) return parse_rank(fields, ranks.emplace_back());
  if (ranks.empty()) return false;
  if (kind == kWait) return parse_wait(fields, ranks.back().waits.emplace_back());
  if (kind == kGpu) return parse_gpu(fields, ranks.back().gpus.emplace_back());
  if (kind == kPending) return parse_pending(fields, ranks.back().pending.emplace_back());
  if (kind == kEnqueued) return parse_enqueued(fields, ranks.back().enqueued.emplace_back());
  return kind == kCounter;
}

Result<std::string> read_standard_input() {
  std::string text;
  char bytes[65536];
  for (size_t n = 0; (n = std::fread(bytes, 1, sizeof bytes, stdin)) > 0;) text.append(bytes, n);
  if (std::ferror(stdin) != 0) return Error(Errc::other, "cannot read standard input");
  return text;
}

}  // namespace

std::vector<int> members_of_world(int size) {
  std::vector<int> members(static_cast<size_t>(std::max(0, size)));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

std::vector<int> JobState::missing() const {
  std::vector<int> found;
  int next = 0;
  for (const RankState& rank : ranks) {
    for (; next < rank.rank; ++next) found.push_back(next);
    next = rank.rank + 1;
  }
  for (const int size = ranks.empty() ? 0 : ranks.front().size; next < size; ++next) found.push_back(next);
  return found;
}

void join(JobState& job) {
  const auto is_before = [](const RankState& a, const RankState& b) {
    using State = RankState::State;
    return std::pair(a.rank, a.state == State::ended) < std::pair(b.rank, b.state == State::ended);
  };
  std::stable_sort(job.ranks.begin(), job.ranks.end(), is_before);
  const auto same = [](const RankState& a, const RankState& b) { return a.rank == b.rank; };
  job.ranks.erase(std::unique(job.ranks.begin(), job.ranks.end(), same), job.ranks.end());
}

std::string to_text(const RankState& rank) {
  Line line(kRank);
  line << static_cast<int>(rank.state) << rank.job << rank.host << rank.launcher << rank.size << rank.rank
       << rank.pid << int{rank.threaded} << rank.callers << rank.threads << int{rank.process_state}
       << rank.seconds << rank.visible_gpus << rank.last_call;
  std::string text = line.end();
  for (const Wait& wait : rank.waits) text += to_text(wait);
  for (const RankState::UsedGpu& gpu : rank.gpus)
    text += (Line(kGpu) << gpu.number << gpu.uuid << gpu.pci).end();
  for (const PendingCall& call : rank.pending)
    text += (Line(kPending) << call.context << call.number << call.stream << call.comm_rank << call.comm_size
                            << call.call << call.comm)
                .end();
  for (const EnqueuedCount& count : rank.enqueued)
    text += (Line(kEnqueued) << count.context << count.comm_rank << count.count << count.captured).end();
  return text;
}

Result<std::vector<JobState>> parse_states(const std::string& texts) {
  std::vector<RankState> ranks;
  bool titled = false;
  size_t number = 0;
  for (size_t begin = 0; begin < texts.size();) {
    const size_t end = std::min(texts.find('\n', begin), texts.size());
    const std::string_view line = std::string_view(texts).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line == kStatesTitle)
      titled = true;
    else if (!titled || !parse_line(line, ranks))
      return Error(Errc::arg, "line " + std::to_string(number) +
                                  " of the states is not of this version of Weft: is it the same on all "
                                  "hosts?");
  }
  std::map<std::string, JobState> jobs;
  for (RankState& rank : ranks) jobs[rank.job].ranks.push_back(std::move(rank));
  std::vector<JobState> found;
  for (auto& [id, job] : jobs) {
    join(job);
    found.push_back(std::move(job));
  }
  return found;
}

Result<int> collect(const std::string& what) {
  const size_t comma = what.rfind(',');
  const std::string job = what.substr(0, comma), more = comma == what.npos ? "" : what.substr(comma + 1);
  const bool ids = more == "ids";
  const auto process = launch::parse_int(job.c_str(), 1, INT_MAX);
  std::vector<JobState> jobs =
      process ? jobs_of_process(*process, !ids) : read_jobs(all_processes(), nullptr, !ids);
  if (!process && job != "all")
    std::erase_if(jobs, [&](const JobState& other) { return other.ranks[0].job != job; });
  std::string text = std::string(kStatesTitle) + "\n";
  for (const JobState& one : jobs)
    for (RankState rank : one.ranks) {
      if (ids) {
        rank.waits.clear();
        rank.pending.clear();
        rank.enqueued.clear();
      }
      text += to_text(rank);
      for (const CounterValue& counter : more == "counters" ? counters_of(rank.pid) : CounterValues())
        text += to_text(counter);
    }
  return print(text, 0);
}

Result<int> conclude(const std::string& how) {
  auto texts = read_standard_input();
  if (!texts) return std::move(texts).error();
  auto jobs = parse_states(*texts);
  if (!jobs) return std::move(jobs).error();
  for (JobState& job : *jobs) job.whole = how.find("whole") != how.npos;
  return print_jobs(*jobs, how.find("json") != how.npos);
}

}  // namespace weft::mpiexec
