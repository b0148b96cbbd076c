// SPDX-License-Identifier: BSD-3-Clause
// PMI server: the launcher's side of PMI-1. Keeps the job's key-value space, its barrier and its name
// service, and knows how far each rank has come.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "launch/pmi/wire.hpp"

namespace weft::mpiexec {

class PmiServer {
 public:
  /// What a rank has done with MPI so far.
  enum class Stage { never, initialized, finalized };

  /// Told what concerns the whole job.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_abort(int rank, int code, const std::string& message) = 0;
    /// The rank broke the protocol, or the job can never go on; `problem` says how.
    virtual void on_failure(int rank, const std::string& problem) = 0;
  };

  /// fds[rank] is the socket to that rank; the caller owns them and calls read() when one is readable.
  /// `programs`: how many ranks each program of the job has, in rank order.
  PmiServer(std::vector<int> fds, std::vector<int> programs, std::string job_id, Listener& listener);

  /// Serves what has arrived, without blocking. False: the rank's side is closed, stop watching.
  bool read(int rank);
  void rank_exited(int rank);
  [[nodiscard]] Stage stage(int rank) const { return ranks_[static_cast<size_t>(rank)].stage; }

 private:
  using Message = launch::pmi::Message;
  /// A rank may run several MPI programs one after the other (a script): each is a round with its own space.
  struct Round {
    std::map<std::string, std::string> values;
    int waiting = 0;  ///< ranks in the barrier
  };
  struct Rank {
    int fd;
    int round = -1;
    bool waiting = false, exited = false;
    Stage stage = Stage::never;
    launch::pmi::LineBuffer lines{};
  };

  void serve(int rank, const Message& request);
  [[nodiscard]] Message program_of(int rank) const;
  [[nodiscard]] Message greet(int rank);
  [[nodiscard]] Message put(int rank, const Message& request);
  [[nodiscard]] Message get(int rank, const Message& request);
  [[nodiscard]] Message name_service(const Message& request);
  void abort(int rank, const Message& request);
  void enter_barrier(int rank);
  /// Fails the job when a rank that a barrier waits for has ended.
  void check_barrier();
  void reply(int rank, const Message& message);
  [[nodiscard]] Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  [[nodiscard]] std::string space_name(int round) const;

  std::vector<int> programs_;
  std::string job_id_;
  Listener& listener_;
  std::vector<Rank> ranks_;
  std::vector<Round> rounds_;
  std::map<std::string, std::string> published_;  // name service
};

}  // namespace weft::mpiexec
