// SPDX-License-Identifier: BSD-3-Clause
// Job: mpiexec's event loop. Serves PMI, follows the ranks through the sentinel, forwards signals, and
// decides when the job has failed and with which exit code.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mpiexec/input.hpp"
#include "mpiexec/output.hpp"
#include "mpiexec/plan.hpp"
#include "mpiexec/pmi_server.hpp"
#include "mpiexec/report.hpp"
#include "mpiexec/sentinel.hpp"

namespace weft::mpiexec {

class Job final : private PmiServer::Listener {
 public:
  /// The sentinel runs already; the references must outlive the job.
  Job(const std::vector<RankPlan>& plans, const std::vector<Channels>& channels, const std::string& job_id,
      SentinelHandle sentinel, TerminalInput& input, Output& output, double timeout);
  ~Job() override;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Opens what run() waits on.
  [[nodiscard]] Status open();
  /// Returns mpiexec's exit code when no process of the job is left and all output is forwarded.
  int run();
  /// Ends the job without the event loop, which cannot run; returns the exit code.
  int give_up(const Error& why);

 private:
  struct Rank {
    pid_t pid = -1;
    bool exited = false;
  };
  /// What an epoll event is about; ranks' PMI sockets are their rank.
  enum Source : int { control = -1, signals = -2, output = -3, terminal = -4, rank0_input = -5 };

  [[nodiscard]] bool watch(int fd, int source, unsigned events);
  void dispatch(int source);
  void on_event();
  void on_exit(int rank, int status);
  void on_signal(int signal);
  void on_sentinel_lost();
  void on_abort(int rank, int code, const std::string& message) override;
  void on_failure(int rank, const std::string& problem) override;
  /// What a rank's wait status that is not success means.
  [[nodiscard]] Failure failure_of(int rank, int status) const;
  /// Records the first failure and ends the job. Later ones are its consequences.
  void fail(Failure failure);
  void command(Command::Kind kind, int value = 0);
  void check_time();
  /// SIGTERM and SIGHUP: whatever ranks and readers do, mpiexec ends. Kills the job, then gives up its
  /// output.
  void escalate();
  void watch_terminal();
  [[nodiscard]] int patience() const;
  [[nodiscard]] pid_t pid_of(int rank) const { return ranks_[static_cast<size_t>(rank)].pid; }

  const std::vector<RankPlan>& plans_;
  const std::vector<Channels>& channels_;
  SentinelHandle sentinel_;
  TerminalInput& input_;
  Output& output_;
  PmiServer server_;
  std::vector<Rank> ranks_;
  size_t living_;
  int epoll_ = -1, signal_fd_ = -1;
  double timeout_, deadline_;
  double terminated_ = 0;  ///< when the first SIGTERM came
  double escalation_ = 0;  ///< when escalate() is due; 0: no SIGTERM or SIGHUP yet
  std::optional<Failure> failure_;
  bool ending_ = false;  ///< the sentinel was told to end everything
  bool gone_ = false;    ///< no process is left
  bool drained_ = false;
  bool terminal_watched_ = false, rank0_watched_ = false;
  std::set<int> forwarded_;  ///< signals the user sent
};

}  // namespace weft::mpiexec
