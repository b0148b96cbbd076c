// SPDX-License-Identifier: BSD-3-Clause
// Autotuner: chooses one of several methods to do the same work by the times of earlier work.
// Threading: any thread.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::io {

/// Methods are numbered from 0. Each is measured a few times; from then on the fastest is used, and now and
/// then another one, since times change.
template <size_t kMethods>
class Autotuner {
 public:
  static constexpr uint32_t kFirstTrials = 3;  ///< of each method
  static constexpr uint32_t kTrialInterval = 64;

  /// The method of the next piece of work.
  [[nodiscard]] size_t next() {
    const uint32_t turn = turns_.fetch_add(1, std::memory_order_relaxed);
    if (turn < kFirstTrials * kMethods) return turn % kMethods;
    if (turn % kTrialInterval == 0) return turn / kTrialInterval % kMethods;
    return best();
  }
  /// The fastest method so far; the first one if none has been measured.
  [[nodiscard]] size_t best() const {
    size_t fastest = 0;
    int64_t least = 0;  // 0: not measured
    for (size_t method = 0; method < kMethods; ++method) {
      const int64_t cost = cost_[method].load(std::memory_order_relaxed);
      if (cost == 0 || (least != 0 && cost >= least)) continue;
      least = cost;
      fastest = method;
    }
    return fastest;
  }
  /// `bytes` > 0 took `ns`.
  void add(size_t method, int64_t bytes, uint64_t ns) {
    const int64_t now = static_cast<int64_t>(ns) * 1024 / bytes + 1;
    std::atomic<int64_t>& cost = cost_[method];
    const int64_t old = cost.load(std::memory_order_relaxed);
    // A thread that does not run for a while must not change the choice.
    const int64_t next = old == 0 || now < old ? now : old + (std::min(now, 2 * old) - old) / 8 + 1;
    cost.store(next, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<int64_t>, kMethods> cost_{};  ///< ns for each KiB; 0: not measured
  std::atomic<uint32_t> turns_{0};
};

}  // namespace weft::io
