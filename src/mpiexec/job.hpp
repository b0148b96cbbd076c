// SPDX-License-Identifier: BSD-3-Clause
// Job: mpiexec's event loop. Serves PMI, receives the supervisor's events, forwards signals, detects failures
// and determines the exit code.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mpiexec/input.hpp"
#include "mpiexec/options.hpp"
#include "mpiexec/output.hpp"
#include "mpiexec/plan.hpp"
#include "mpiexec/pmi_server.hpp"
#include "mpiexec/report.hpp"
#include "mpiexec/supervisor.hpp"

namespace weft::mpiexec {

class Job final : private PmiServer::Listener {
 public:
  /// The supervisor is already running; the references must outlive the job.
  Job(const std::vector<RankPlan>& plans, const std::vector<Channels>& channels, const std::string& job_id,
      SupervisorHandle supervisor, TerminalInput& input, Output& output, const Options& options);
  ~Job() override;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Opens the descriptors of the event loop. Call once, before run() and after Output::start().
  [[nodiscard]] Status open();
  /// Returns mpiexec's exit code after all processes of the job have exited and all output is forwarded.
  int run();
  /// Prints `cause` and terminates the job without the event loop; returns mpiexec's exit code.
  int shut_down(const Error& cause);

 private:
  struct Rank {
    pid_t pid = -1;
    bool exited = false;
    std::string other_mpi{};  ///< path of another MPI's library that it has loaded
  };
  /// Source of an epoll event; a value >= 0 is the rank whose PMI socket is readable.
  enum Source : int { control = -1, signals = -2, output = -3, terminal = -4, rank0_input = -5 };

  /// Adds a descriptor to the event loop. Returns false and sets errno on failure.
  [[nodiscard]] bool watch(int fd, int source, unsigned events);
  void dispatch(int source);
  void on_supervisor_event();
  /// `independent`: the rank was not ended by the supervisor.
  void on_exit(int rank, int status, bool independent);
  /// Returns the process groups of the ranks.
  [[nodiscard]] std::vector<pid_t> groups() const;
  void on_signal(int signal);
  void on_supervisor_lost();
  void on_abort(int rank, int code, const std::string& message) override;
  void on_failure(int rank, const std::string& problem) override;
  /// Describes the failure of a rank that exited with the wait status `status`.
  [[nodiscard]] Failure failure_of(int rank, int status) const;
  /// Records the first failure and terminates the job. Later failures are consequences and are ignored.
  void fail(Failure failure);
  /// Handles the failure of one rank, which ends the job unless it shall continue (--continue-on-failure).
  void fail_rank(int rank, Failure failure);
  void command(Command::Kind kind, int value = 0);
  /// Prints what each rank waits for.
  void print_waits() const;
  [[nodiscard]] bool any_rank_handles(int signal) const;
  /// Looks for another MPI in the ranks that have not called MPI_Init.
  void examine_ranks();
  /// Calls escalate() or terminates the job (--timeout) if the deadline has passed.
  void check_deadlines();
  /// Kills the job; if called again after all processes exited, exits without forwarding the remaining
  /// output. Ensures that mpiexec ends after SIGTERM and SIGHUP.
  void escalate();
  void watch_terminal();
  /// Returns the timeout of epoll_wait() in milliseconds; -1: none.
  [[nodiscard]] int poll_timeout_ms() const;
  [[nodiscard]] pid_t pid_of(int rank) const { return ranks_[static_cast<size_t>(rank)].pid; }

  const std::vector<RankPlan>& plans_;
  const std::vector<Channels>& channels_;
  SupervisorHandle supervisor_;
  TerminalInput& input_;
  Output& output_;
  PmiServer server_;
  std::vector<Rank> ranks_;
  size_t alive_;
  int epoll_ = -1, signal_fd_ = -1;
  bool continue_on_failure_;
  double timeout_, deadline_;
  double start_, examination_;  ///< start of the job; time of the next examine_ranks(), 0: none
  double first_sigterm_time_ = 0;
  double escalation_time_ = 0;  ///< time of the next escalate(); 0: no SIGTERM or SIGHUP received
  std::optional<Failure> failure_;
  bool terminating_ = false;  ///< the supervisor was commanded to finish, terminate or kill
  bool all_exited_ = false;   ///< no process of the job is left
  bool output_drained_ = false;
  bool terminal_watched_ = false, rank0_watched_ = false;
  std::set<int> forwarded_;  ///< signals received and forwarded to the ranks
};

}  // namespace weft::mpiexec
