// SPDX-License-Identifier: BSD-3-Clause
// Time (MPI 5.0 section 9.6). The clock is monotonic and shared by all processes of a host.
#include <ctime>

#include "api/impl.hpp"

namespace weft::api::impl {
namespace {

double seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

double Wtime() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return seconds(now);
}

double Wtick() {
  timespec resolution{};
  clock_getres(CLOCK_MONOTONIC, &resolution);
  return seconds(resolution);
}

}  // namespace weft::api::impl
