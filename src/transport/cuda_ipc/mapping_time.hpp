// SPDX-License-Identifier: BSD-3-Clause
// MappingTime: how long this process takes to open and close a mapping of another process's GPU memory,
// measured. Threading: serialised by the caller.
#pragma once
#include <algorithm>
#include <cstdint>

namespace weft::transport::cuda_ipc {

class MappingTime {
 public:
  /// `expected_ns`: the time until a call was measured.
  explicit MappingTime(uint64_t expected_ns)
      : open_ns_(expected_ns / 10 * 9), close_ns_(expected_ns / 10), max_first_ns_(kMaxFirst * open_ns_) {}
  /// Time in ns of one call.
  void opened(uint64_t ns) { open_ns_ = blend(open_ns_, ns); }
  /// The same for the first open between two GPUs, which may take far longer: it enables peer access.
  void opened_first(uint64_t ns) { opened(std::min(ns, max_first_ns_)); }
  /// The same for a GPU that is hidden from this process: later opens take about as long as the first, so it
  /// counts at once (bench/results/programs-4-h200.json).
  void opened_first_hidden(uint64_t ns) { open_ns_ = std::max(open_ns_, std::min(ns, max_first_ns_)); }
  void closed(uint64_t ns) { close_ns_ = blend(close_ns_, ns); }
  /// Returns the expected time in ns of opening a mapping and closing it again.
  [[nodiscard]] uint64_t ns() const { return open_ns_ + close_ns_; }

 private:
  /// One call that takes very long, such as a close behind a long kernel, moves the mean by little.
  [[nodiscard]] static uint64_t blend(uint64_t mean, uint64_t ns) {
    return (3 * mean + std::min(ns, kMaxStep * mean)) / 4;
  }
  static constexpr uint64_t kMaxStep = 8, kMaxFirst = 5;
  uint64_t open_ns_, close_ns_, max_first_ns_;
};

}  // namespace weft::transport::cuda_ipc
