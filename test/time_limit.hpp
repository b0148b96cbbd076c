// SPDX-License-Identifier: BSD-3-Clause
// Time limits of tests: longer where other processes share the cores, and under sanitizers.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace weft::test {

/// The limit for what takes at most `seconds` on idle cores.
inline double time_limit(double seconds) {
  const double cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  const double sanitized = std::getenv("TEST_SANITIZED") != nullptr ? 10 : 1;
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = 0;
  return seconds * sanitized * std::max(1.0, load / cores);
}

}  // namespace weft::test
