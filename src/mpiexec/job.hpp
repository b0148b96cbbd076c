// SPDX-License-Identifier: BSD-3-Clause
// Job: mpiexec's event loop. Serves PMI, receives the supervisor's events, forwards signals, detects failures
// and determines the exit code.
#pragma once
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mpiexec/input.hpp"
#include "mpiexec/options.hpp"
#include "mpiexec/output.hpp"
#include "mpiexec/plan.hpp"
#include "mpiexec/pmi_listener.hpp"
#include "mpiexec/report.hpp"
#include "mpiexec/spawn_plan.hpp"
#include "mpiexec/supervisor.hpp"
#include "mpiexec/world.hpp"

namespace weft::mpiexec {

class Job final : private WorldListener {
 public:
  /// The first job. Without plans: the singleton at the only channel, which is served.
  struct First {
    std::vector<RankPlan> plans;
    std::vector<Channels> channels;
    std::string id;
    pid_t singleton = -1;  ///< pid of the singleton
  };
  /// The supervisor is already running; the references must outlive the job.
  Job(First first, SupervisorHandle supervisor, PmiListener& listener, TerminalInput& input, Output& output,
      const SpawnDefaults& defaults);
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
  /// Source of an epoll event; a value >= 0 is the process whose PMI socket is readable, plus kJoined for the
  /// socket of a process that has joined.
  enum Source : int64_t {
    control = -1,
    signals = -2,
    output = -3,
    terminal = -4,
    rank0_input = -5,
    name_requests = -6,
    join_requests = -7
  };
  static constexpr int64_t kJoined = int64_t{1} << 32;

  /// Adds a descriptor to the event loop. Returns false and sets errno on failure.
  [[nodiscard]] bool watch(int fd, int64_t source, unsigned events);
  void dispatch(int64_t source);
  void read_pmi(int process, PmiServer::Path path);
  /// Lets processes that have lost the descriptor of their rank be the rank.
  void join_processes();
  void on_supervisor_event();
  /// `independent`: the process was not ended by the supervisor.
  void on_exit(int process, int status, bool independent);
  /// Returns the process groups of the ranks.
  [[nodiscard]] std::vector<pid_t> groups() const;
  void on_signal(int signal);
  void on_supervisor_lost();
  void on_abort(int process, int code, const std::string& message) override;
  void on_failure(int process, const std::string& problem) override;
  void on_spawn(int process, launch::SpawnRequest request, launch::Values values) override;
  NameServer& names() override { return names_; }
  [[nodiscard]] WorldListener& listener() { return *this; }
  /// Starts a world for the process that asks for it.
  [[nodiscard]] Status start_world(int requester, const launch::SpawnRequest& request, launch::Values values);
  /// Passes processes to the supervisor, a few at a time.
  void start_processes();
  /// A process of a spawned world executes its program, or why it does not.
  void on_started(World& world, int process, const std::string& problem);
  /// Answers the requester of a spawned world.
  void reply(World& world);
  /// Kills the processes of a spawned job; their ends are no failures.
  void cancel(World& world);
  /// Notifies debuggers of all processes.
  void publish_worlds() const;
  /// Watches the sockets of published names.
  void watch_names();
  [[nodiscard]] Busy busy() const;
  /// The world of a process; null: it has ended.
  [[nodiscard]] World* world_of(int process);
  [[nodiscard]] World& first_world() { return *worlds_.front(); }
  /// Describes the failure of a process that exited with the wait status `status`.
  [[nodiscard]] Failure failure_of(const World& world, int process, int status) const;
  [[nodiscard]] static std::string gpu_hint_of(const World& world, int process);
  /// Records the first failure and terminates the job. Later failures are consequences and are ignored.
  void fail(Failure failure);
  /// Handles the failure of one rank, which ends the job unless it shall continue (--continue-on-failure).
  void fail_rank(World& world, int process, Failure failure);
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

  SupervisorHandle supervisor_;
  PmiListener& pmi_listener_;
  TerminalInput& input_;
  Output& output_;
  const SpawnDefaults& defaults_;
  NameServer names_;
  bool names_watched_ = false;
  std::list<std::unique_ptr<World>> worlds_;  // the first job, and spawned worlds with running processes
  int next_process_, next_world_ = 1;
  std::deque<int> to_start_;  // processes that the supervisor has not got yet
  int starting_ = 0;          // processes that it has not reported yet
  int alive_;                 // processes of all worlds
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
