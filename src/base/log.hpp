// SPDX-License-Identifier: BSD-3-Clause
// Log: lines on stderr at the level of WEFT_LOG (error, warn, info, debug), and the register of slow paths:
// each has a name, is logged once and counted (docs/slow-paths.md).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/counters.hpp"

namespace weft::log {

enum class Level : int { none, error, warn, info, debug };

[[nodiscard]] bool enabled(Level level);
/// printf-style: writes one line, prefixed with the rank once set. All output below api/ goes through here.
void write(Level level, const char* format, ...) __attribute__((format(printf, 2, 3)));
void set_rank(int rank);

/// A named slow path: a static object next to the code that takes it; call hit(reason) on each use. Its uses
/// are a counter of the same name, whose help is the cost.
class SlowPath {
 public:
  /// `name`: e.g. "p2p.staged"; `cost`: estimated cost as text, e.g. "about 7x slower than NVLink".
  SlowPath(const char* name, const char* cost) : uses_(name, counters::Unit::events, cost) {}
  /// Increments the count; logs the first hit of the process at level warn with the reason. Any thread.
  void hit(std::string_view reason);

 private:
  counters::Counter uses_;
};

}  // namespace weft::log
