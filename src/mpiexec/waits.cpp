// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/waits.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/stream_wait.hpp"
#include "launch/environment.hpp"
#include "mpiexec/counters.hpp"
#include "mpiexec/processes.hpp"
#include "mpiexec/queued.hpp"

namespace weft::mpiexec {
namespace {

using wait_table::Directory;
using wait_table::Record;
using wait_table::Table;

constexpr int kMaxTries = 100;  // a record that is being updated

uint64_t now_ns() { return static_cast<uint64_t>(now() * 1e9); }

char state_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char text[256] = {};
  if (fd >= 0) {
    (void)!::read(fd, text, sizeof text - 1);
    ::close(fd);
  }
  const char* end = std::strrchr(text, ')');
  return end != nullptr && end[1] != '\0' ? end[2] : 'X';
}

/// Number of threads of a process; 0: unknown.
int threads_of(pid_t pid) {
  std::error_code error;
  std::filesystem::directory_iterator tasks("/proc/" + std::to_string(pid) + "/task", error), end;
  int found = 0;
  for (; !error && tasks != end; tasks.increment(error)) ++found;
  return found;
}

Wait copy_of(const Record& record) {
  Wait wait{.what = record.what,
            .peer = record.peer,
            .tag = record.tag,
            .peer_process = record.peer_process,
            .polls = record.polls != 0,
            .queued = false,
            .number = 0,
            .count = record.count,
            .bytes = record.bytes,
            .context = record.context,
            .comm_rank = record.comm_rank,
            .comm_size = record.comm_size,
            .of_world = record.of_world != 0,
            .call = text_of(record.call),
            .operation = text_of(record.operation),
            .comm = text_of(record.comm),
            .stream = {},
            .members = {},
            .seconds = seconds_since(record.since.load()),
            .unexpected = {}};
  if (!wait.operation.empty() && wait.operation[0] == wait_table::kStreamMark) {
    wait.stream = std::strtoull(wait.operation.c_str() + 1, nullptr, 16);
    wait.operation.clear();
  }
  if (record.unexpected != 0)
    wait.unexpected = {record.unexpected_source, record.unexpected_tag, record.unexpected_bytes,
                       text_of(record.unexpected_comm), record.unexpected_comm_size};
  if (wait.of_world && wait.comm_size > 0 && wait.comm_size <= static_cast<int>(kMaxTables))
    wait.members = members_of_world(wait.comm_size);
  else if (record.members == wait.comm_size && record.members <= wait_table::kMaxMembers)
    wait.members.assign(record.member, record.member + std::max(0, record.members));
  return wait;
}

/// Returns true if the record is in use and its wait has lasted `shortest` ns: until the rank makes another
/// call. In a rank of several threads another thread may have made it, so a recent update counts there.
bool in_use(const Record& record, const Table& table, uint64_t shortest) {
  const uint64_t seen = record.seen.load(), now = now_ns();
  if (seen == 0 || now < record.since.load() + shortest) return false;
  if (now < seen + wait_table::kObsoleteNs) return true;
  if (record.calls.load() != table.calls.load()) return false;
  return record.polls != 0 || (table.call.load() & wait_table::kReturned) == 0;
}

/// Copies the record at `offset`. Returns false if its rank updates it all the time: a copy made meanwhile
/// may mix two waits, also if the version in the copy is even.
bool read_record(const Memory& memory, uint64_t offset, Record& record) {
  static_assert(offsetof(Record, version) == 0);
  for (int tries = 0; tries < kMaxTries; ++tries) {
    uint32_t before = 0, after = 0;
    if (!memory.read(before, offset) || !memory.read(record, offset)) return false;
    if (record.seen.load() == 0) return true;  // not in use
    if (before % 2 == 0 && memory.read(after, offset) && after == before) return true;
  }
  return false;
}

void read_used_gpus(const wait_table::Gpus& gpus, RankState& state) {
  if (gpus.known.load() == 0) return;
  state.visible_gpus = static_cast<int>(std::min<uint32_t>(gpus.visible, wait_table::kMaxGpus));
  for (int i = 0; i < state.visible_gpus; ++i) {
    if ((gpus.used.load() >> i & 1) == 0) continue;
    std::string uuid = "GPU-";
    for (size_t byte = 0; byte < sizeof gpus.gpu[i].uuid; ++byte) {
      char text[4];
      snprintf(text, sizeof text, "%02x", gpus.gpu[i].uuid[byte]);
      if (byte == 4 || byte == 6 || byte == 8 || byte == 10) uuid += '-';
      uuid += text;
    }
    state.gpus.push_back({i, uuid, text_of(gpus.gpu[i].pci)});
  }
}

RankState state_of(const Table& table, const Memory& memory, uint64_t offset, uint64_t shortest) {
  RankState state;
  state.rank = table.rank;
  state.size = table.size;
  state.pid = table.pid.load();
  state.threaded = table.threaded.load() != 0;
  state.callers = static_cast<int>(table.threads.load());
  if (state.threaded) state.threads = threads_of(state.pid);
  state.process_state = state_of(state.pid);
  state.last_call = name_at(state.pid, table.call.load() & ~wait_table::kReturned);
  read_used_gpus(table.gpus, state);
  if (table.activity() == table.observed.load()) state.seconds = seconds_since(table.observed_ns.load());
  for (int i = 0; i < wait_table::kRecords; ++i) {
    auto record = std::make_unique<Record>();
    const uint64_t at = offset + offsetof(Table, records) + static_cast<size_t>(i) * sizeof(Record);
    if (read_record(memory, at, *record) && in_use(*record, table, shortest))
      state.waits.push_back(copy_of(*record));
  }
  const auto of_threads =
      std::count_if(state.waits.begin(), state.waits.end(), [](const Wait& wait) { return !wait.queued; });
  if (of_threads > 1 && state.waits.front().polls && !state.threaded) state.waits.erase(state.waits.begin());
  using State = RankState::State;
  if (state.process_state == 'X' || state.process_state == 'Z')
    state.state = State::ended;
  else if (table.left.load() != 0)
    state.state = State::left;
  else if (of_threads != 0)
    state.state = State::waiting;
  else
    state.state = (table.call.load() & wait_table::kReturned) == 0 ? State::inside : State::outside;
  if (state.state == State::ended || state.state == State::left) state.waits.clear();
  return state;
}

/// Calls use(offset of a table) for each table of the memory; for none if it holds no wait tables of this
/// version.
template <class Use>
void for_each_table(const Memory& memory, Use&& use) {
  Directory directory{};
  if (!memory.read(directory, 0) || directory.magic.load() != wait_table::kMagic ||
      directory.table_bytes != sizeof(Table) || directory.ranks == 0 || directory.ranks > kMaxTables)
    return;
  const uint64_t end =
      directory.header_bytes + uint64_t{directory.ranks - 1} * directory.area_bytes + directory.table_offset;
  if (end + sizeof(Table) > static_cast<uint64_t>(memory.size)) return;
  for (uint32_t i = 0; i < directory.ranks; ++i)
    use(directory.header_bytes + uint64_t{i} * directory.area_bytes + directory.table_offset);
}

/// The ranks of one memory with the waits that have lasted `shortest` ns.
std::vector<RankState> read_memory(const Memory& memory, uint64_t shortest = wait_table::kMinWaitNs) {
  std::vector<RankState> ranks;
  auto table = std::make_unique<Table>();
  for_each_table(memory, [&](uint64_t offset) {
    if (memory.read(*table, offset) && table->pid.load() != 0)
      ranks.push_back(state_of(*table, memory, offset, shortest));
  });
  std::sort(ranks.begin(), ranks.end(), [](auto& a, auto& b) { return a.rank < b.rank; });
  return ranks;
}

/// The id of the job whose tables the memory holds; nullopt: it holds none, or all its processes have ended.
std::optional<std::string> job_of(const Memory& memory) {
  std::optional<std::string> found;
  for_each_table(memory, [&](uint64_t offset) {
    int32_t pid = 0;
    RankState rank;
    if (found || !memory.read(pid, offset + offsetof(Table, pid)) || pid == 0) return;
    rank.pid = pid;
    if (read_identity(rank)) found = rank.job;
  });
  return found;
}

/// Adds the identities of the ranks of one memory. Ranks that have ended are of the same job and host as
/// others.
void identify(std::vector<RankState>& ranks, const Memory& memory) {
  const RankState* known = nullptr;
  for (RankState& rank : ranks)
    if (rank.state != RankState::State::ended && read_identity(rank)) known = &rank;
  for (RankState& rank : ranks) {
    if (!rank.job.empty()) continue;
    rank.job = known != nullptr ? known->job : "unknown-" + std::to_string(memory.identity.second);
    if (known != nullptr) rank.host = known->host;
    if (known != nullptr) rank.launcher = known->launcher;
  }
}

/// The process id in the innermost namespace, which the process itself sees.
pid_t own_pid(pid_t pid) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> status(
      std::fopen(("/proc/" + std::to_string(pid) + "/status").c_str(), "re"), std::fclose);
  char line[256];
  while (status && std::fgets(line, sizeof line, status.get()) != nullptr) {
    if (std::strncmp(line, "NSpid:", 6) != 0) continue;
    const char* last = std::strrchr(line, '\t');
    return last != nullptr ? std::atoi(last) : pid;
  }
  return pid;
}

/// The processes with a table in each memory. Memories of many ranks are looked through once.
class Owners {
 public:
  const std::set<pid_t>& of(const Memory& memory) {
    const auto [found, is_new] = by_memory_.try_emplace(memory.identity);
    if (is_new)
      for_each_table(memory, [&](uint64_t offset) {
        int32_t owner = 0;
        if (memory.read(owner, offset + offsetof(Table, pid)) && owner != 0) found->second.insert(owner);
      });
    return found->second;
  }

 private:
  std::map<std::pair<dev_t, ino_t>, std::set<pid_t>> by_memory_;
};

/// Memories with wait tables that the process holds open: its own only, not those of jobs to which it is
/// connected. If none has its table yet, all.
std::vector<Memory> memories_of(pid_t pid, Owners& owners) {
  const pid_t self = own_pid(pid);
  bool found_own = false;
  std::vector<Memory> found =
      open_memories(pid, {wait_table::kSharedName, wait_table::kPrivateName},
                    [&](const Memory& memory) { return found_own = owners.of(memory).contains(self); });
  if (found_own) found.erase(found.begin(), found.end() - 1);
  return found;
}

}  // namespace

std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  while (const dirent* entry = proc ? ::readdir(proc.get()) : nullptr)
    if (auto pid = launch::parse_int(entry->d_name, 1, INT_MAX); pid) found.push_back(*pid);
  return found;
}

Result<std::unique_ptr<WatchedJob>> WatchedJob::open(pid_t process) {
  std::vector<pid_t> processes = descendants(process);
  processes.insert(processes.begin(), process);
  Owners owners;
  std::map<std::string, std::string> found;  // text, by job
  for (const pid_t one : processes)
    for (const Memory& memory : memories_of(one, owners)) {
      const std::optional<std::string> job = job_of(memory);
      if (job && one == process) return open(*job);
      if (!job) continue;
      const std::vector<RankState> ranks = read_memory(memory);
      found.emplace(*job, "\n  weft top " + std::to_string(one) + ": a job of " +
                              std::to_string(ranks.empty() ? 0 : ranks[0].size) + " ranks");
    }
  if (found.size() > 1) {
    std::string jobs;
    for (const auto& [job, text] : found) jobs += text;
    return Error(Errc::arg,
                 "process " + std::to_string(process) +
                     " has started several jobs (MPI_Comm_spawn): specify a process of one of them:" + jobs);
  }
  if (found.size() == 1) return open(found.begin()->first);
  return Error(Errc::arg, "process " + std::to_string(process) +
                              " is not a rank of a job of this user, and has started none: specify a process "
                              "of the program, or its mpiexec");
}

Result<std::unique_ptr<WatchedJob>> WatchedJob::open(const std::string& job) {
  Owners owners;
  std::set<std::pair<dev_t, ino_t>> seen;
  std::vector<Memory> memories;
  for (const pid_t process : all_processes())
    for (Memory& memory : memories_of(process, owners))
      if (seen.insert(memory.identity).second && job_of(memory) == job) memories.push_back(std::move(memory));
  if (memories.empty()) return Error(Errc::arg, "no job '" + job + "' of this user on this host");
  return std::make_unique<WatchedJob>(std::move(memories));
}

JobState WatchedJob::read(bool with_queued) const {
  JobState job;
  for (const Memory& memory : memories_) {
    std::vector<RankState> ranks = read_memory(memory, 0);
    if (with_queued) identify(ranks, memory);
    for (RankState& rank : ranks) job.ranks.push_back(std::move(rank));
  }
  join(job);
  if (!with_queued) return job;
  std::vector<JobState> jobs{std::move(job)};
  add_queued(jobs);
  return std::move(jobs[0]);
}

std::vector<JobState> read_jobs(const std::vector<pid_t>& processes, std::string* unreadable,
                                bool with_queued) {
  Owners owners;
  std::set<std::pair<dev_t, ino_t>> seen;
  std::map<std::string, JobState> jobs;
  for (const pid_t process : processes) {
    for (const Memory& memory : memories_of(process, owners)) {
      if (!seen.insert(memory.identity).second) continue;
      std::vector<RankState> ranks = read_memory(memory);
      identify(ranks, memory);
      if (ranks.empty() && unreadable != nullptr)
        *unreadable =
            "process " + std::to_string(process) +
            " has memory of Weft's name, but it is not (yet) initialized, or of another version of Weft";
      for (RankState& rank : ranks) jobs[rank.job].ranks.push_back(std::move(rank));
    }
  }
  std::vector<JobState> found;
  for (auto& [id, job] : jobs) {
    join(job);
    found.push_back(std::move(job));
  }
  if (with_queued) add_queued(found);
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.ranks[0].pid < b.ranks[0].pid; });
  return found;
}

std::vector<JobState> jobs_of_process(pid_t process, bool with_queued) {
  std::vector<JobState> own = read_jobs({process}, nullptr, false);
  if (own.empty()) own = read_jobs(descendants(process), nullptr, false);
  std::set<std::string> ids;
  for (const JobState& job : own) ids.insert(job.ranks[0].job);
  const auto is_complete = [](const JobState& job) { return job.missing().empty(); };
  if (!std::all_of(own.begin(), own.end(), is_complete)) {  // others are of other fake hosts
    own = read_jobs(all_processes(), nullptr, false);
    std::erase_if(own, [&](const JobState& job) { return !ids.contains(job.ranks[0].job); });
  }
  if (with_queued) add_queued(own);
  return own;
}

Result<int> print_waits(pid_t process, bool json) {
  std::string unreadable;
  std::vector<JobState> jobs;
  if (process == 0)
    jobs = read_jobs(all_processes(), &unreadable);
  else
    jobs = jobs_of_process(process);
  if (jobs.empty() && process != 0) {
    static_cast<void>(read_jobs({process}, &unreadable, false));
    return Error(Errc::arg, "process " + std::to_string(process) + " is not a rank of a job of this user" +
                                (unreadable.empty() ? "" : " (" + unreadable + ")") +
                                ", and has started none: specify a process of the program, or its mpiexec");
  }
  const auto is_singleton = [](const JobState& job) { return job.singleton(); };
  const auto alone = std::count_if(jobs.begin(), jobs.end(), is_singleton);
  if (jobs.empty())
    return Error(Errc::arg, "no running job of this user on this host" +
                                (unreadable.empty() ? "" : " (" + unreadable + ")") +
                                ": specify the process of a rank, `weft hang PID`");
  if (static_cast<size_t>(alone) < jobs.size()) std::erase_if(jobs, is_singleton);
  if (jobs.size() > 1 && !jobs.front().singleton()) {
    std::string pids;
    for (const JobState& job : jobs) pids += (pids.empty() ? "" : ", ") + std::to_string(job.ranks[0].pid);
    return Error(Errc::arg, std::to_string(jobs.size()) +
                                " jobs run here: specify a process of one of them, `weft hang PID`: " + pids);
  }
  return print_jobs(jobs, json);
}

Result<int> print_jobs(const std::vector<JobState>& jobs, bool json) {
  bool waits = false;
  std::string text;
  for (const JobState& job : jobs) {
    for (const RankState& rank : job.ranks) waits |= !rank.waits.empty();
    if (json) text += (text.empty() ? "[" : ",\n") + to_json(job);
    for (const std::string& line : json ? std::vector<std::string>() : describe(job)) text += line + "\n";
  }
  if (json) text = jobs.size() == 1 ? text.substr(1) + "\n" : (text.empty() ? "[" : text) + "]\n";
  return print(text, waits ? 1 : 0);
}

Result<int> print(const std::string& text, int exit_code) {
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    return Error(Errc::other, "cannot write standard output");
  return exit_code;
}

}  // namespace weft::mpiexec
