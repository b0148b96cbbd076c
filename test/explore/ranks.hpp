// SPDX-License-Identifier: BSD-3-Clause
// Explores orders of execution: runs the code of several ranks as coroutines of one thread. At each point of
// base/explore.hpp, and in each wait, an Order chooses the rank that goes on. Memory order is not simulated:
// loads see the latest store.
#pragma once
#include <ucontext.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace explore {

/// Chooses ranks. `ready[r]`: rank r has not returned, and some rank has passed a point since its last wait;
/// at least one is.
class Order {
 public:
  virtual ~Order() = default;
  /// Rank `rank` is at a point: returns it, or the rank to run instead.
  virtual int at_point(int rank, const std::vector<bool>& ready) = 0;
  /// Rank `rank` waits or has returned: returns a rank that is ready.
  virtual int at_wait(int rank, const std::vector<bool>& ready) = 0;
};

/// Ranks in turn, each until it waits, except that the rank at the `delays[i]`th point is delayed: another
/// rank goes on (delay-bounded scheduling: Emmi, Qadeer and Rakamaric, POPL 2011).
class DelayedOrder final : public Order {
 public:
  explicit DelayedOrder(std::vector<uint64_t> delays) : delays_(std::move(delays)) {}
  int at_point(int rank, const std::vector<bool>& ready) override;
  int at_wait(int rank, const std::vector<bool>& ready) override;

 private:
  std::vector<uint64_t> delays_;  // ascending
  uint64_t point_ = 0;
  size_t next_ = 0;
};

/// Random: either a walk with a probability to switch, or priorities that change at a few points (Burckhardt,
/// Kothari, Musuvathi and Nagarakatte, ASPLOS 2010), which lets one rank lag far behind.
class RandomOrder final : public Order {
 public:
  RandomOrder(uint64_t seed, int ranks, uint64_t expected_points);
  int at_point(int rank, const std::vector<bool>& ready) override;
  int at_wait(int rank, const std::vector<bool>& ready) override;

 private:
  [[nodiscard]] int first(const std::vector<bool>& ready) const;
  [[nodiscard]] int any(const std::vector<bool>& ready);
  std::mt19937_64 random_;
  std::vector<int> priority_;  // empty: a walk
  std::vector<uint64_t> changes_;
  uint64_t point_ = 0;
  uint32_t one_in_ = 2;  // points at which the walk switches
};

class Ranks {
 public:
  explicit Ranks(int ranks);
  Ranks(const Ranks&) = delete;
  ~Ranks();
  /// Runs body(r) for each rank r until all have returned, or until every rank that has not returned waits in
  /// vain. Returns whether all have returned; if not, their stacks are abandoned.
  bool run(const std::function<void(int)>& body, Order& order);
  /// Points passed in all runs.
  [[nodiscard]] uint64_t points() const { return points_; }
  /// The running rank cannot go on: runs another one. To be called in each round of a wait.
  void wait();
  /// The running rank waits for an event that needs no other rank.
  void yield() { switch_to(order_->at_wait(running_, ready_)); }
  /// In the next run, rank `rank` ends after this number of its points, and counts as returned. Its stack is
  /// abandoned.
  void end_rank(int rank, uint64_t points, std::function<void()> ended);

 private:
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool returned = false;
  };
  static void enter();
  static void at_point();
  void point();
  [[noreturn]] void stop();
  void switch_to(int rank);
  void leave();
  std::vector<Fiber> fibers_;
  std::vector<bool> ready_;
  ucontext_t main_;
  const std::function<void(int)>* body_ = nullptr;
  Order* order_ = nullptr;
  int running_ = -1, ending_ = -1;  // ending_: -1, or the rank that ends
  uint64_t points_left_ = 0;        // of that rank
  std::function<void()> ended_;
  uint64_t points_ = 0;
};

}  // namespace explore
