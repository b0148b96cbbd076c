// SPDX-License-Identifier: BSD-3-Clause
// World: the ranks of one MPI_COMM_WORLD under this mpiexec: its first job, or a spawned one.
#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mpiexec/output.hpp"
#include "mpiexec/plan.hpp"
#include "mpiexec/pmi_server.hpp"

namespace weft::mpiexec {

/// `spawned_job`: number of the world.
[[nodiscard]] std::vector<Output::Source> output_sources(const std::vector<Channels>& channels,
                                                         int spawned_job = 0);

/// Receives events of all worlds.
class WorldListener {
 public:
  virtual ~WorldListener() = default;
  virtual void on_abort(int process, int code, const std::string& message) = 0;
  virtual void on_failure(int process, const std::string& problem) = 0;
  virtual void on_spawn(int process, launch::SpawnRequest request, launch::Values values) = 0;
  [[nodiscard]] virtual NameServer& names() = 0;
};

class World final : private PmiServer::Listener {
 public:
  struct Rank {
    pid_t pid = -1;
    bool exited = false;
    bool not_started = false;  ///< of a spawned world
    std::string other_mpi{};   ///< path of another MPI's library that it has loaded
  };
  /// `number`: 0 for the first job; `first`: process number of rank 0. `values`: for PmiServer.
  World(int number, int first, std::vector<RankPlan> plans, std::vector<Channels> channels,
        std::string job_id, WorldListener& listener, int universe_size, launch::Values values = {});
  /// Closes the PMI sockets of a spawned world.
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
  [[nodiscard]] bool contains(int process) const { return process >= first && process < first + size(); }
  [[nodiscard]] Rank& rank_of(int process) { return ranks[static_cast<size_t>(process - first)]; }
  [[nodiscard]] const Rank& rank_of(int process) const { return ranks[static_cast<size_t>(process - first)]; }
  /// "rank 3 (pid 4711 on node1)", of a spawned world with its number.
  [[nodiscard]] std::string text_of(int process) const;

  const int number, first;
  std::vector<RankPlan> plans;
  std::vector<Channels> channels;
  PmiServer server;
  std::vector<Rank> ranks;
  int alive;  ///< ranks that have not exited

  // Of a spawned world until all its processes execute their programs, or one cannot.
  int requester = -1;      ///< process that awaits the reply; -1: replied
  int unreported = 0;      ///< processes not known to be executed or not started
  std::string problem;     ///< why one was not started
  bool cancelled = false;  ///< its processes are killed: their ends are no failures

 private:
  void on_abort(int rank, int code, const std::string& message) override {
    listener_.on_abort(first + rank, code, message);
  }
  void on_failure(int rank, const std::string& text) override { listener_.on_failure(first + rank, text); }
  void on_spawn(int rank, launch::SpawnRequest request, launch::Values values) override {
    listener_.on_spawn(first + rank, std::move(request), std::move(values));
  }
  NameServer& names() override { return listener_.names(); }

  WorldListener& listener_;
};

}  // namespace weft::mpiexec
