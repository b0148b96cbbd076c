// SPDX-License-Identifier: BSD-3-Clause
// Traffic: what one thread does in a round: random sends, receives, probes and cancels, then whatever it
// takes for all messages of all processes to arrive.
#pragma once
#include <mpi.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "p2p/random/record.hpp"
#include "reference/draw.hpp"

namespace randomized {

/// A communicator of all processes, and what the ranks of MPI_COMM_WORLD are in it.
struct Room {
  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<int> rank_of, world_of;
};

/// What the threads of a process share.
struct Process {
  int rank, size, threads;
  std::vector<Room> rooms;
  std::atomic<int64_t> clock{0};
  std::atomic<int> received{0};
  std::vector<std::atomic<int>> sent;  ///< to each process, without cancelled ones
  std::atomic<int> sending{0};         ///< threads with sends under way
  std::atomic<bool> over{false};       ///< all messages of this round are here
  explicit Process(int n) : sent(static_cast<size_t>(n)) {}
};

class Traffic {
 public:
  Traffic(Process& process, int thread, uint64_t seed);
  /// One random call, or a few that belong together.
  void act();
  /// Ends what is complete and fetches what has come. After the last act().
  void settle();
  [[nodiscard]] bool sending() const { return !sends_.empty(); }
  /// Cancels the receives that are left; no message can come any more.
  void close();
  std::vector<Receipt> receipts;

 private:
  struct Send {
    MPI_Request request;
    std::vector<char> data;
    int dest;
  };
  struct Receive {
    MPI_Request request;
    std::vector<char> data;
    Receipt receipt;
    bool persistent = false;
  };
  using Receives = std::vector<std::unique_ptr<Receive>>;

  void send();
  void post();
  void probe();
  void fetch(int comm, int source, int tag);
  void cancel_send();
  void cancel_receive();
  void test_some();
  [[nodiscard]] Receipt filters();
  void end_send(size_t i, const MPI_Status& status);
  void end_receive(size_t i, const MPI_Status& status);
  void took(Receipt receipt, const std::vector<char>& data, const MPI_Status& status);
  [[nodiscard]] int source_in(const Receipt& receipt) const;
  [[nodiscard]] int64_t now() { return process_.clock.fetch_add(1); }
  [[noreturn]] void fail(const std::string& what) const;

  Process& process_;
  const int thread_;
  Draw draw_;
  int number_ = 0;
  std::vector<std::unique_ptr<Send>> sends_;
  Receives receives_;
};

}  // namespace randomized
