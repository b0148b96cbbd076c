// SPDX-License-Identifier: BSD-3-Clause
// SharedRanks: the ranks of one host in one process, each with an Instance, a communicator and slot areas in
// a real shared segment, for tests that run the blocking collectives of coll/host as coroutines
// (explore/ranks.hpp).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "coll/host/slot_steps.hpp"
#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "explore/ranks.hpp"
#include "transport/shm/shm.hpp"

namespace shared_ranks {

class SharedRanks {
 public:
  explicit SharedRanks(int size);
  SharedRanks(const SharedRanks&) = delete;
  ~SharedRanks();
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  /// Clears the slot areas, and begins again at the first step. `oversubscribed`: as if ranks outnumber
  /// cores. Forgets failures, if there were any, with all of the ranks' instances.
  void reset(bool oversubscribed);
  /// Runs body(r) for each rank. Returns whether all ranks have returned.
  bool run(const std::function<void(int)>& body, explore::Order& order) { return fibers_.run(body, order); }
  [[nodiscard]] uint64_t points() const { return fibers_.points(); }
  [[nodiscard]] weft::core::Communicator& comm(int rank) { return *at(rank).comm; }
  [[nodiscard]] weft::coll::host::SlotSteps& steps(int rank) { return *at(rank).steps; }
  /// In the next run, rank `rank` dies after this number of its points. Each other rank learns of it in one
  /// of its next waits.
  void end_rank(int rank, uint64_t points);

 private:
  struct Waiting;
  struct Rank {
    std::unique_ptr<weft::core::Instance> instance;
    std::unique_ptr<Waiting> waiting;
    weft::core::Communicator* comm = nullptr;
    std::unique_ptr<weft::coll::host::SlotSteps> steps;
  };
  [[nodiscard]] Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  void create(Rank& rank, int number);
  static void destroy(Rank& rank);
  void in_wait(int rank);
  std::vector<std::unique_ptr<weft::transport::shm::Shm>> shm_;
  std::vector<Rank> ranks_;
  explore::Ranks fibers_;
  uint64_t context_ = 0;
  int dead_ = -1;
  bool leased_ = false;  // the slot areas
  std::mt19937_64 notice_;
};

}  // namespace shared_ranks
