// SPDX-License-Identifier: BSD-3-Clause
// Time limits of tests: longer where other processes share the cores, and under sanitizers.
#pragma once
#include <sched.h>

#include <algorithm>
#include <cstdlib>

namespace weft::test {

/// The limit for what takes at most `seconds` on idle cores.
inline double time_limit(double seconds) {
  cpu_set_t usable;  // of this process, which may be bound to some of the cores
  const double cores = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
  const double sanitized = std::getenv("TEST_SANITIZED") != nullptr ? 10 : 1;
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = 0;
  return seconds * sanitized * std::max(1.0, load / cores);
}

}  // namespace weft::test
