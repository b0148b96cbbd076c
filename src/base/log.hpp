// SPDX-License-Identifier: BSD-3-Clause
// Log: lines for a human on stderr, at a level chosen by WEFT_LOG (error, warn, info, debug), and the
// register of slow paths: each is named, logged once and counted (architecture.md, decision 8).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::log {

enum class Level : int { none, error, warn, info, debug };

[[nodiscard]] bool enabled(Level level);
/// printf-style; one line, prefixed with the rank once it is known. The only place below api/ that writes.
void write(Level level, const char* format, ...) __attribute__((format(printf, 2, 3)));
void set_rank(int rank);

/// A named slow path. Declare as a static object beside its use; call hit(reason) each time it is taken.
class SlowPath {
 public:
  /// name: e.g. "p2p.staged"; cost: the estimated cost in words, e.g. "about 7x slower than NVLink".
  SlowPath(const char* name, const char* cost);
  /// Counts; the first hit for a process is logged at level warn with the reason.
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
/// All slow paths of this process, taken or not.
[[nodiscard]] const std::vector<SlowPath*>& slow_paths();

}  // namespace weft::log
