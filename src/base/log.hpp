// SPDX-License-Identifier: BSD-3-Clause
// Log: lines on stderr at the level of WEFT_LOG (error, warn, info, debug), and the register of slow paths:
// each has a name, is logged once and counted (architecture.md, decision 8).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::log {

enum class Level : int { none, error, warn, info, debug };

[[nodiscard]] bool enabled(Level level);
/// printf-style: writes one line, prefixed with the rank once set. All output below api/ goes through here.
void write(Level level, const char* format, ...) __attribute__((format(printf, 2, 3)));
void set_rank(int rank);

/// A named slow path: a static object next to the code that takes it; call hit(reason) on each use.
class SlowPath {
 public:
  /// `name`: e.g. "p2p.staged"; `cost`: estimated cost as text, e.g. "about 7x slower than NVLink".
  SlowPath(const char* name, const char* cost);
  /// Increments the count; logs the first hit of the process at level warn with the reason.
  void hit(std::string_view reason);
  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] const char* cost() const { return cost_; }
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  const char* name_;
  const char* cost_;
  uint64_t count_ = 0;
  std::string reason_;
};
/// All registered slow paths of this process, including unused ones.
[[nodiscard]] const std::vector<SlowPath*>& slow_paths();

}  // namespace weft::log
