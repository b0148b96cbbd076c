// SPDX-License-Identifier: BSD-3-Clause
// Traffic: the actions of one thread in a round: random sends, receives, probes and cancels, then progress
// until all messages of all processes have arrived.
#pragma once
#include <mpi.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "p2p/random/record.hpp"
#include "reference/draw.hpp"

namespace randomized {

/// A communicator of all processes, and the ranks of MPI_COMM_WORLD in it.
struct CommInfo {
  MPI_Comm comm = MPI_COMM_NULL;
  std::vector<int> rank_of, world_of;
};

/// State shared by the threads of a process.
struct Process {
  int rank, size, threads;
  std::vector<CommInfo> comms;
  std::atomic<int64_t> clock{0};
  std::atomic<int> received{0};
  std::vector<std::atomic<int>> sent;  ///< messages to each process, without cancelled ones
  std::atomic<int> sending{0};         ///< threads with active sends
  std::atomic<bool> over{false};       ///< all messages of this round have arrived
  explicit Process(int n) : sent(static_cast<size_t>(n)) {}
};

class Traffic {
 public:
  Traffic(Process& process, int thread, uint64_t seed);
  /// One random call, or a few related calls.
  void act();
  /// Completes requests and receives arrived messages. After the last act().
  void settle();
  [[nodiscard]] bool sending() const { return !sends_.empty(); }
  /// Cancels the remaining receives; no message can arrive any more.
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
  void matched_receive(int comm, int source, int tag);
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
