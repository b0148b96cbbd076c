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

#include "launch/environment.hpp"
#include "mpiexec/processes.hpp"

namespace weft::mpiexec {
namespace {

using wait_table::Directory;
using wait_table::Record;
using wait_table::Table;
using wait_table::What;

constexpr uint32_t kMaxRanks = 4096;
constexpr int kMaxTries = 100;  // a record that is being updated

uint64_t now_ns() { return static_cast<uint64_t>(now() * 1e9); }
double seconds_since(uint64_t ns) {
  return ns == 0 ? -1 : std::max(0.0, now() - static_cast<double>(ns) * 1e-9);
}

/// Name of the last MPI function that the process has called; empty if its memory cannot be read.
std::string string_at(pid_t pid, uint64_t address) {
  char text[sizeof Record::call] = {};
  iovec here{text, sizeof text - 1}, there{reinterpret_cast<void*>(address), sizeof text - 1};
  if (address == 0 || ::process_vm_readv(pid, &here, 1, &there, 1, 0) <= 0) return "";
  return std::strncmp(text, "MPI", 3) == 0 ? text_of(text) : "";
}

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
            .count = record.count,
            .bytes = record.bytes,
            .context = record.context,
            .comm_rank = record.comm_rank,
            .comm_size = record.comm_size,
            .call = text_of(record.call),
            .operation = text_of(record.operation),
            .comm = text_of(record.comm),
            .members = {},
            .seconds = seconds_since(record.since.load()),
            .unexpected = {}};
  if (record.unexpected != 0)
    wait.unexpected = {record.unexpected_source, record.unexpected_tag, record.unexpected_bytes,
                       text_of(record.unexpected_comm), record.unexpected_comm_size};
  if (record.of_world != 0 && wait.comm_size > 0 && wait.comm_size <= static_cast<int>(kMaxRanks))
    for (int i = 0; i < wait.comm_size; ++i) wait.members.push_back(i);
  else if (record.members == wait.comm_size && record.members <= wait_table::kMaxMembers)
    wait.members.assign(record.member, record.member + std::max(0, record.members));
  return wait;
}

/// Returns true if the record is in use and its wait has lasted `shortest` ns: polls last until the rank
/// makes another call.
bool in_use(const Record& record, const Table& table, uint64_t shortest) {
  const uint64_t seen = record.seen.load(), now = now_ns();
  if (seen == 0 || now < record.since.load() + shortest) return false;
  const bool recent = now < seen + wait_table::kObsoleteNs;
  return recent || (record.polls != 0 && record.calls.load() == table.calls.load());
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
  state.last_call = string_at(state.pid, table.call.load() & ~wait_table::kReturned);
  read_used_gpus(table.gpus, state);
  if (table.activity() == table.observed.load()) state.seconds = seconds_since(table.observed_ns.load());
  for (int i = 0; i < wait_table::kRecords; ++i) {
    auto record = std::make_unique<Record>();
    const uint64_t at = offset + offsetof(Table, records) + static_cast<size_t>(i) * sizeof(Record);
    if (read_record(memory, at, *record) && in_use(*record, table, shortest))
      state.waits.push_back(copy_of(*record));
  }
  if (state.waits.size() > 1 && state.waits.front().polls && !state.threaded)
    state.waits.erase(state.waits.begin());
  using State = RankState::State;
  if (state.process_state == 'X' || state.process_state == 'Z')
    state.state = State::ended;
  else if (table.left.load() != 0)
    state.state = State::left;
  else if (!state.waits.empty())
    state.state = State::waiting;
  else
    state.state = (table.call.load() & wait_table::kReturned) == 0 ? State::inside : State::outside;
  if (state.state != State::waiting) state.waits.clear();
  return state;
}

/// The ranks of one memory with the waits that have lasted `shortest` ns; none if it holds no wait tables of
/// this version.
std::vector<RankState> read_memory(const Memory& memory, uint64_t shortest = wait_table::kMinWaitNs) {
  Directory directory{};
  if (!memory.read(directory, 0) || directory.magic.load() != wait_table::kMagic ||
      directory.table_bytes != sizeof(Table) || directory.ranks == 0 || directory.ranks > kMaxRanks)
    return {};
  const uint64_t end =
      directory.header_bytes + uint64_t{directory.ranks - 1} * directory.area_bytes + directory.table_offset;
  if (end + sizeof(Table) > static_cast<uint64_t>(memory.size)) return {};
  std::vector<RankState> ranks;
  auto table = std::make_unique<Table>();
  for (uint32_t i = 0; i < directory.ranks; ++i) {
    const uint64_t offset =
        directory.header_bytes + uint64_t{i} * directory.area_bytes + directory.table_offset;
    if (memory.read(*table, offset) && table->pid.load() != 0)
      ranks.push_back(state_of(*table, memory, offset, shortest));
  }
  std::sort(ranks.begin(), ranks.end(), [](auto& a, auto& b) { return a.rank < b.rank; });
  return ranks;
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

/// Memories with wait tables that the process holds open: its own only, not those of jobs to which it is
/// connected. If none has its table yet, all.
std::vector<Memory> memories_of(pid_t pid) {
  std::vector<Memory> found = open_memories(pid, {wait_table::kSharedName, wait_table::kPrivateName});
  if (found.size() < 2) return found;
  const auto is_own = [self = own_pid(pid)](const RankState& rank) { return rank.pid == self; };
  std::vector<Memory> own;
  for (Memory& memory : found) {
    const std::vector<RankState> ranks = read_memory(memory);
    if (std::any_of(ranks.begin(), ranks.end(), is_own)) own.push_back(std::move(memory));
  }
  return own.empty() ? std::move(found) : std::move(own);
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
  std::vector<Memory> found;
  std::string jobs;
  for (const pid_t one : processes) {
    for (Memory& memory : memories_of(one)) {
      const auto same = [&](const Memory& other) { return other.identity == memory.identity; };
      const std::vector<RankState> ranks = read_memory(memory);
      if (ranks.empty() || std::any_of(found.begin(), found.end(), same)) continue;
      if (one == process) return std::make_unique<WatchedJob>(std::move(memory));
      jobs +=
          "\n  weft top " + std::to_string(one) + ": a job of " + std::to_string(ranks[0].size) + " ranks";
      found.push_back(std::move(memory));
    }
  }
  if (found.size() > 1)
    return Error(Errc::arg, "process " + std::to_string(process) +
                                " has started several jobs (MPI_Comm_spawn), or ranks that share no memory: "
                                "specify a process of one of them:" +
                                jobs);
  if (found.size() == 1) return std::make_unique<WatchedJob>(std::move(found[0]));
  return Error(Errc::arg, "process " + std::to_string(process) +
                              " is not a rank of a job of this user, and has started none: specify a process "
                              "of the program, or its mpiexec");
}

JobState WatchedJob::read() const { return {read_memory(memory_, 0)}; }

std::vector<JobState> read_jobs(const std::vector<pid_t>& processes, std::string* unreadable) {
  std::map<std::pair<dev_t, ino_t>, JobState> jobs;
  for (const pid_t process : processes) {
    for (const Memory& memory : memories_of(process)) {
      if (jobs.contains(memory.identity)) continue;
      std::vector<RankState> ranks = read_memory(memory);
      if (ranks.empty() && unreadable != nullptr)
        *unreadable =
            "process " + std::to_string(process) +
            " has memory of Weft's name, but it is not (yet) initialized, or of another version of Weft";
      if (!ranks.empty()) jobs[memory.identity].ranks = std::move(ranks);
    }
  }
  std::vector<JobState> found;
  for (auto& [identity, job] : jobs) found.push_back(std::move(job));
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.ranks[0].pid < b.ranks[0].pid; });
  return found;
}

Result<int> print_waits(pid_t process, bool json) {
  std::string unreadable;
  std::vector<JobState> jobs =
      read_jobs(process != 0 ? std::vector<pid_t>{process} : all_processes(), &unreadable);
  if (jobs.empty() && process != 0)
    return Error(Errc::arg, "process " + std::to_string(process) + " is not a rank of a job of this user" +
                                (unreadable.empty() ? "" : " (" + unreadable + ")") +
                                ": specify the process of the program itself, not of mpiexec or a shell");
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
  bool waits = false;
  std::string text;
  for (const JobState& job : jobs) {
    for (const RankState& rank : job.ranks) waits |= !rank.waits.empty();
    if (json) text += (text.empty() ? "[" : ",\n") + to_json(job);
    for (const std::string& line : json ? std::vector<std::string>() : describe(job)) text += line + "\n";
  }
  if (json) text = jobs.size() == 1 ? text.substr(1) + "\n" : text + "]\n";
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    return Error(Errc::other, "cannot write standard output");
  return waits ? 1 : 0;
}

}  // namespace weft::mpiexec
