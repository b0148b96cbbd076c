// SPDX-License-Identifier: BSD-3-Clause
// Launch: rank, size and local ranks of a process at start-up, and the key-value exchange of the job.
// Threading: calls on one Exchange are serialised by the caller.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace weft::launch {

/// The job from the view of this process. Constant after connect().
struct Job {
  int rank = 0;
  int size = 1;
  std::string id;  ///< unique among the running jobs of these hosts; at most 64 bytes under Weft's mpiexec
  int local_rank = 0;    ///< rank among the processes of this host
  int local_size = 1;    ///< processes of this job on this host
  int machine_size = 0;  ///< with fake hosts: processes of this job on the machine, else 0
  /// Host number of every rank; equal numbers mean the same host. Empty: unknown.
  std::vector<int> host_of_rank;
  bool singleton = false;        ///< started without a launcher
  int program = -1;              ///< index of this process's program in an MPMD job; -1: unknown
  int program_size = 0;          ///< processes started for that program; 0: unknown
  std::string launcher;          ///< "weft mpiexec", "hydra", "slurm", "prrte", "pmi-1", "pmix", "singleton"
  std::string launcher_version;  ///< version and interface, for humans

  /// Returns whether two ranks share a host; an empty host_of_rank means that all do.
  [[nodiscard]] bool same_host(int a, int b) const {
    return host_of_rank.empty() ||
           host_of_rank[static_cast<size_t>(a)] == host_of_rank[static_cast<size_t>(b)];
  }
};

/// Name-value pairs, such as the keys of an info object.
using Values = std::vector<std::pair<std::string, std::string>>;

/// One program that a running process starts: a new job consists of the processes of one or more.
struct SpawnProgram {
  std::string command;
  std::vector<std::string> arguments;  ///< without the command
  int processes = 1;
  Values info;  ///< of MPI_Comm_spawn: host, wdir, path, ...; interpreted by the launcher
};
struct SpawnRequest {
  std::vector<SpawnProgram> programs;
  std::string parent_value;  ///< read by the processes of the new job
  std::string directory;     ///< current directory of the requesting process, the default for the new ones
};
/// The launcher's answer.
struct Spawned {
  std::vector<bool> started;  ///< by process of the new job, in rank order; empty: none is
  std::string problem;        ///< why a process was not started; empty: all are
  std::vector<int> pids;      ///< of the started processes, in rank order; empty: unknown
};

/// Key-value exchange of the processes of a job. Keys: at most 48 characters of [A-Za-z0-9._-]. Values: any
/// bytes, any length (long values are split), typically some hundred bytes.
class Exchange {
 public:
  virtual ~Exchange() = default;
  [[nodiscard]] virtual const Job& job() const = 0;
  /// Publishes a value. A key may be put once per job; convention: "<subject>.<rank>".
  [[nodiscard]] virtual Status put(std::string_view key, std::string_view value) = 0;
  /// Returns the value that process `owner` put before share(). Launchers that query the owner on demand wait
  /// for up to launch.get_timeout_s seconds. Errc::arg: no such key.
  [[nodiscard]] virtual Result<std::string> get(std::string_view key, int owner) = 0;
  /// Collective: makes all earlier puts readable. Returns at once, without messages to other hosts, if get()
  /// queries the owner on demand; otherwise a fence. Not a barrier.
  [[nodiscard]] virtual Status share() { return fence(); }
  /// Collective: a barrier of the job that includes share().
  [[nodiscard]] virtual Status fence() = 0;
  /// Requests the launcher to end all processes of the job; returns at once. The caller then calls
  /// _exit(code).
  virtual void abort(int code, std::string_view message) = 0;
  /// Returns true if the launcher prints the message of abort(); otherwise the caller prints it.
  [[nodiscard]] virtual bool abort_is_reported() const { return false; }
  /// Asks the launcher to start a job whose processes connect to this one, and waits until they are started
  /// or none is. Errors (Errc::spawn): this launcher starts no further processes, or cannot be reached.
  [[nodiscard]] virtual Result<Spawned> spawn(const SpawnRequest& request);
  /// The value that the process which spawned this job has passed to it; none: this job was not spawned.
  [[nodiscard]] virtual std::optional<std::string> parent_value() { return std::nullopt; }
  /// Name service. Errc::service: the launcher has none. Errc::name: a name is (publish), or is not
  /// (unpublish, lookup) published. Names have at most kMaxServiceName bytes.
  [[nodiscard]] virtual Status publish(std::string_view name, std::string_view port);
  [[nodiscard]] virtual Status unpublish(std::string_view name);
  [[nodiscard]] virtual Result<std::string> lookup(std::string_view name);
  /// Number of processes that the launcher expects to run in all, with further processes that may be spawned.
  [[nodiscard]] virtual int universe_size() { return job().size; }
  /// Leaves the job; a process that exits without it counts as failed. Only job() may be called afterwards.
  [[nodiscard]] virtual Status finalize() = 0;
  /// Rank of a process that the launcher knows to have ended without finalize(); nullopt: none, or unknown.
  [[nodiscard]] virtual std::optional<int> dead_process() { return std::nullopt; }
};

/// Finds the launcher in the environment and connects to it; without a launcher: rank 0 of 1.
/// Variables that imply further processes without a reachable launcher are an error.
[[nodiscard]] Result<std::unique_ptr<Exchange>> connect();

/// Returns whether the other processes of the job go on after one has ended.
[[nodiscard]] bool continues_on_failure();
/// From now on they do: a process may leave the job alone.
void continue_on_failure();

/// Removes the launcher's variables from the environment, so that an MPI program started by this process is a
/// separate job. Call once, after connect() and while the process is single-threaded.
void scrub_environment();

}  // namespace weft::launch
