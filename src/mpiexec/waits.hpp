// SPDX-License-Identifier: BSD-3-Clause
// Waits: what the ranks of running jobs on this host do in MPI, read from their wait tables
// (base/wait_table.hpp) without stopping them. Needs no permission beyond that of the ranks' user.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/wait_table.hpp"
#include "mpiexec/memory.hpp"

namespace weft::mpiexec {

/// Ranks of a communicator or tables in a memory, at most.
inline constexpr uint32_t kMaxTables = 4096;
/// Returns 0, 1, ... size - 1.
[[nodiscard]] std::vector<int> members_of_world(int size);

/// A wait of one thread; the fields are those of wait_table::Record.
struct Wait {
  wait_table::What what;
  int peer, tag, peer_process;
  bool polls;
  bool queued;  ///< of an operation in a GPU stream, whatever the rank's threads do
  /// Of a collective that kernels execute: its number on the communicator, from 1 on. 0: unknown, as of
  /// captured ones.
  uint64_t number = 0;
  uint64_t count, bytes, context;
  int comm_rank, comm_size;
  bool of_world;  ///< ranks of the communicator are those of MPI_COMM_WORLD
  std::string call, operation, comm;
  std::optional<uint64_t> stream;  ///< handle of the GPU stream that waits for the call, or in it
  std::vector<int> members;        ///< ranks of the communicator in MPI_COMM_WORLD; empty: unknown
  double seconds;
  /// An unexpected message that a receive or probe may have been meant for.
  struct Unexpected {
    int source, tag;
    uint64_t bytes;
    std::string comm;
    int comm_size;  ///< 0: of the same communicator
  };
  std::optional<Unexpected> unexpected;

  /// Returns true if the wait ends only when all ranks of the communicator have called.
  [[nodiscard]] bool is_collective() const;
  /// Returns "stream 0x7f5a10" or "the default stream"; empty: no stream waits for the call.
  [[nodiscard]] std::string stream_text() const;
  /// Returns what ranks in the same collective have in common, such as "MPI_Barrier".
  [[nodiscard]] std::string collective() const;
};

/// A call that a rank has enqueued and its stream has not reached. `number`: as in Wait; 0: of a call that
/// the host executes.
struct PendingCall {
  uint64_t context, number, stream;
  int comm_rank, comm_size;
  std::string call, comm;
};

/// The collectives that a rank has enqueued on a communicator whose kernels execute them.
struct EnqueuedCount {
  uint64_t context;
  int comm_rank;
  uint64_t count, captured;
};

/// One rank with its waits: one, or those of several threads.
struct RankState {
  enum class State { outside, inside, waiting, left, ended };
  State state = State::outside;
  std::string job, host, launcher;  ///< as in counter_table::Directory; empty: unknown
  int rank = 0, size = 1;           ///< in MPI_COMM_WORLD
  pid_t pid = 0;
  bool threaded = false;     ///< several threads may call MPI
  int callers = 0;           ///< threaded: threads that have called MPI so far
  int threads = 0;           ///< threads of the process; 0: unknown
  char process_state = '?';  ///< as in /proc/PID/stat
  std::string last_call;     ///< last MPI function called; empty: unknown
  double seconds = -1;       ///< outside: since the last call; negative: unknown
  std::vector<Wait> waits;
  uint64_t queues = 0;               ///< counter_table::Directory::queues
  std::vector<PendingCall> pending;  ///< in call order of each stream or communicator
  std::vector<EnqueuedCount> enqueued;
  /// A GPU that the rank has used in MPI calls.
  struct UsedGpu {
    int number;  ///< device in the rank
    std::string uuid, pci;
  };
  std::vector<UsedGpu> gpus;
  int visible_gpus = 0;  ///< GPUs that the rank sees; 0 for a rank that has used none

  /// Returns true if a thread that does not wait may call MPI.
  [[nodiscard]] bool may_go_on() const;
  /// Returns true if the rank is outside of MPI, and operations in its GPU streams wait.
  [[nodiscard]] bool only_queued() const { return state == State::outside && !waits.empty(); }
  /// Returns the wait in a stream; null: none is known.
  [[nodiscard]] const Wait* wait_in(uint64_t stream) const;
};

/// The ranks of one job that were found, by rank.
struct JobState {
  std::vector<RankState> ranks;
  bool whole = false;  ///< they were looked for on all hosts of the job
  /// Returns the ranks that were not found.
  [[nodiscard]] std::vector<int> missing() const;
  [[nodiscard]] bool singleton() const { return ranks.size() == 1 && ranks.front().size == 1; }
};

/// A job that is read again and again.
class WatchedJob {
 public:
  explicit WatchedJob(Memory memory) { memories_.push_back(std::move(memory)); }
  explicit WatchedJob(std::vector<Memory> memories) : memories_(std::move(memories)) {}
  /// The job of a process, or of one of its descendants.
  [[nodiscard]] static Result<std::unique_ptr<WatchedJob>> open(pid_t process);
  /// The job of this id; its ranks on this machine.
  [[nodiscard]] static Result<std::unique_ptr<WatchedJob>> open(const std::string& job);
  /// Also returns waits that have just been published; `with_queued`: and the identities of the ranks, and
  /// the waits of their GPU streams (add_queued).
  [[nodiscard]] JobState read(bool with_queued = false) const;

 private:
  std::vector<Memory> memories_;  // one for each fake host, else one
};

/// The ranks that wait in collectives of one communicator. All ranks are ranks in the communicator.
struct Arrivals {
  std::map<int, uint64_t> arrived;                ///< Wait::number by rank
  std::map<std::string, std::vector<int>> calls;  ///< ranks by collective
  /// A rank with the collectives that it has enqueued.
  struct Enqueuer {
    uint64_t count = 0, captured = 0;  ///< as in EnqueuedCount
    std::map<uint64_t, std::string>
        behind;  ///< calls that a stream has not reached: the call that it waits in
  };
  std::map<int, Enqueuer> enqueuers;
  [[nodiscard]] std::vector<int> missing_of(const Wait& wait) const;
  /// Whether a rank has enqueued the collective of a wait; nullopt: unknown.
  [[nodiscard]] std::optional<bool> has_enqueued(int rank, const Wait& wait) const;
  /// The call in whose wait the stream of a rank is that will execute the collective; empty: none is known.
  [[nodiscard]] std::string waits_behind(int rank, const Wait& wait) const;
};
/// By communicator id, and whether kernels execute the collectives: these are not matched with others.
using AllArrivals = std::map<std::pair<uint64_t, bool>, Arrivals>;
[[nodiscard]] AllArrivals arrivals_of(const JobState& job);
[[nodiscard]] const Arrivals& arrivals_at(const Wait& wait, const AllArrivals& all);
/// In place of the rank of a process that is in another MPI_COMM_WORLD.
inline constexpr int kOtherJob = -2;
/// The same for a wait that a message of any rank ends.
inline constexpr int kAnyRank = -3;
/// Returns the ranks in MPI_COMM_WORLD without which the wait does not end, or kOtherJob.
[[nodiscard]] std::vector<int> needed_by(const Wait& wait, const AllArrivals& all);

/// Returns the jobs to which the processes belong, each with its ranks in memories of these processes.
/// `unreadable` gets a reason if a process has memory of Weft's name that is no wait table of this version.
/// `with_queued`: also the waits of GPU streams (add_queued).
[[nodiscard]] std::vector<JobState> read_jobs(const std::vector<pid_t>& processes,
                                              std::string* unreadable = nullptr, bool with_queued = true);
/// Returns the jobs of one process, or of its descendants if it is no rank, with their ranks in the memories
/// of all processes of this machine.
[[nodiscard]] std::vector<JobState> jobs_of_process(pid_t process, bool with_queued = true);
/// Returns all processes of this host.
[[nodiscard]] std::vector<pid_t> all_processes();

/// Makes the ranks of several hosts one job: sorted, each once.
void join(JobState& job);

/// Lines of text: one per rank or group of ranks in the same state, then conclusions such as a deadlock.
[[nodiscard]] std::vector<std::string> describe(const JobState& job);
/// Returns only the conclusions.
[[nodiscard]] std::vector<std::string> conclusions(const JobState& job);
[[nodiscard]] std::string to_json(const JobState& job);
/// The text in quotes. It has no control characters (text_of).
[[nodiscard]] std::string json_text(const std::string& text);

/// `mpiexec --waits`: prints the job of a process, or, if it is 0, the only job of the user on this host, and
/// the singletons if there is no other. Returns the exit code: 0: no rank waits; 1: some wait.
[[nodiscard]] Result<int> print_waits(pid_t process, bool json);
/// The same for jobs that have been read.
[[nodiscard]] Result<int> print_jobs(const std::vector<JobState>& jobs, bool json);
/// Writes to standard output; returns `exit_code`.
[[nodiscard]] Result<int> print(const std::string& text, int exit_code);

}  // namespace weft::mpiexec
