// SPDX-License-Identifier: BSD-3-Clause
// Launch: what a process knows at start (rank, size, neighbours on its host) and a key-value exchange.
// Threading: calls on one Exchange are serialised by the caller.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace weft::launch {

/// The job as this process sees it. Constant once connect() has returned.
struct Job {
  int rank = 0;
  int size = 1;
  std::string id;        ///< unique among the jobs alive on these hosts; at most 64 bytes under our mpiexec
  int local_rank = 0;    ///< rank among the processes of this host
  int local_size = 1;    ///< processes of this job on this host
  int machine_size = 0;  ///< with fake hosts: processes of this job on the machine; else 0
  /// Host number of every rank (equal number, same host). Empty: the launcher did not say.
  std::vector<int> host_of_rank;
  bool singleton = false;  ///< started without a launcher
  int program = -1;  ///< which of the job's programs this process runs, from 0; -1: the launcher did not say
  int program_size = 0;          ///< processes started for that program; 0: the launcher did not say
  std::string launcher;          ///< "weft mpiexec", "hydra", "slurm", "prrte", "pmi-1", "pmix", "singleton"
  std::string launcher_version;  ///< what is known of its version and interface, for a human

  /// Whether two ranks share a host. A launcher that does not say where the ranks are has one host, or the
  /// job cannot be wired up.
  [[nodiscard]] bool same_host(int a, int b) const {
    return host_of_rank.empty() ||
           host_of_rank[static_cast<size_t>(a)] == host_of_rank[static_cast<size_t>(b)];
  }
};

/// Small values shared by the processes of a job. Keys: at most 48 of [A-Za-z0-9._-]; values: any bytes, any
/// length (long ones are split); meant for some hundred bytes.
class Exchange {
 public:
  virtual ~Exchange() = default;
  [[nodiscard]] virtual const Job& job() const = 0;
  /// Publishes a value. A key is put once in a job; convention: "<what>.<rank>".
  [[nodiscard]] virtual Status put(std::string_view key, std::string_view value) = 0;
  /// Reads what process `owner` put before share(). A launcher that asks the owner on demand waits for it,
  /// for launch.get_timeout seconds at most. Errc::arg: nobody put it.
  [[nodiscard]] virtual Result<std::string> get(std::string_view key, int owner) = 0;
  /// Collective: what was put before it is readable after it. Returns at once where get() asks the owner on
  /// demand, which costs no message to the other hosts; else it is a fence. It is no barrier.
  [[nodiscard]] virtual Status share() { return fence(); }
  /// Collective: a barrier of the job, and what share() does.
  [[nodiscard]] virtual Status fence() = 0;
  /// Asks the launcher to end all processes of the job; returns at once, the caller then leaves by
  /// _exit(code).
  virtual void abort(int code, std::string_view message) = 0;
  /// True when the launcher prints abort's message itself; else the caller does.
  [[nodiscard]] virtual bool abort_is_reported() const { return false; }
  /// Says goodbye: leaving without it is a failure of the job. Only job() may be called afterwards.
  [[nodiscard]] virtual Status finalize() = 0;
};

/// Finds the launcher in the environment and connects to it; without one: rank 0 of 1.
/// Variables that promise more processes while there is no way to reach them are an error.
[[nodiscard]] Result<std::unique_ptr<Exchange>> connect();

/// Removes the launcher's variables from the environment, so that an MPI program started by this process is a
/// job of its own. Call once, after connect() and while the process has one thread.
void scrub_environment();

}  // namespace weft::launch
