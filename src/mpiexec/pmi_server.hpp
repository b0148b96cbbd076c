// SPDX-License-Identifier: BSD-3-Clause
// PMI server: the launcher's side of PMI-1. Implements the job's key-value space, barrier and name service,
// and records whether each rank has initialized or finalized PMI. One process at a time is a rank.
#pragma once
#include <sys/types.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "launch/launch.hpp"
#include "launch/pmi/spawn.hpp"
#include "launch/pmi/wire.hpp"
#include "mpiexec/name_server.hpp"

namespace weft::mpiexec {

class PmiServer {
 public:
  /// PMI state of a rank.
  enum class Stage { not_initialized, initialized, finalized };
  /// Connections of a rank: the socket that its processes inherit, and the one of a process that has lost it.
  enum Path : int { inherited, joined };

  /// Receives events that concern the whole job.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_abort(int rank, int code, const std::string& message) = 0;
    /// The rank violated the protocol, or the job cannot make progress; `problem` describes how.
    virtual void on_failure(int rank, const std::string& problem) = 0;
    /// The rank requests a job whose processes read `values`; answered by reply_spawn().
    virtual void on_spawn(int rank, launch::SpawnRequest request, launch::Values values) = 0;
    [[nodiscard]] virtual NameServer& names() = 0;
  };

  /// `fds`: the socket of each rank, owned by the caller, who calls read() when a socket is readable.
  /// `programs`: number of ranks of each program, in rank order. `values`: that every process reads.
  PmiServer(std::vector<int> fds, std::vector<int> programs, std::string job_id, Listener& listener,
            int universe_size, launch::Values values = {});
  ~PmiServer();
  PmiServer(const PmiServer&) = delete;
  PmiServer& operator=(const PmiServer&) = delete;

  /// Serves the commands received so far, without blocking. Returns false after the rank closed its socket;
  /// a socket that has joined is closed then.
  bool read(int rank, Path path = inherited);
  /// Makes process `pid` (0: unknown) the rank, over `fd`, unless another process is. Returns whether the
  /// server has taken `fd` over, and has replied.
  bool join(int rank, int fd, pid_t pid);
  void rank_exited(int rank);
  void reply_spawn(int rank, const launch::Spawned& spawned);
  [[nodiscard]] Stage stage(int rank) const { return ranks_[static_cast<size_t>(rank)].stage; }

 private:
  using Message = launch::pmi::Message;
  /// A rank may run several MPI programs in sequence (a script). Each is a round with its own key-value
  /// space.
  struct Round {
    std::map<std::string, std::string> values;
    int waiting = 0;  ///< number of ranks in the barrier
  };
  struct Connection {
    int fd = -1;
    launch::pmi::LineBuffer lines{};
    bool in_spawn = false;  // between mcmd=spawn and endcmd
    launch::pmi::SpawnReader spawn{};
  };
  struct Rank {
    std::array<Connection, 2> connections{};  // by Path
    Path active = inherited;                  // of the process that is the rank
    pid_t process = 0;  // that is the rank, from init or join until finalize; 0: unknown
    int round = -1;
    bool waiting = false, exited = false;
    Stage stage = Stage::not_initialized;
  };

  void read_line(int rank, Path path, pid_t sender, const std::string& line);

  void serve(int rank, Path path, pid_t sender, const Message& request);
  [[nodiscard]] Message program_of(int rank) const;
  void init(int rank, Path path, pid_t sender);
  void close_joined(int rank);
  [[nodiscard]] Message put(int rank, const Message& request);
  [[nodiscard]] Message get(int rank, const Message& request);
  [[nodiscard]] std::string dead_processes() const;
  [[nodiscard]] Message name_service(const Message& request);
  void abort(int rank, const Message& request);
  void enter_barrier(int rank);
  /// Fails the job if a rank exited that has not entered a pending barrier.
  void check_barrier();
  void reply(int rank, const Message& message) { send(rank, at(rank).active, message); }
  void send(int rank, Path path, const Message& message);
  [[nodiscard]] Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  [[nodiscard]] std::string kvs_name(int round) const;

  std::vector<int> programs_;
  std::string job_id_;
  Listener& listener_;
  std::vector<Rank> ranks_;
  std::vector<Round> rounds_;
  int universe_size_;
  launch::Values values_;  // of every round
};

}  // namespace weft::mpiexec
