// SPDX-License-Identifier: BSD-3-Clause
#include "base/cold.hpp"

#include <array>
#include <cstddef>

#include "base/counters.hpp"

namespace weft::cold {
namespace {

using counters::Counter;
using counters::Unit;

Counter kernels("device.cold_kernels_ns", Unit::nanoseconds, "Time in which kernels were loaded");
Counter resident("device.cold_resident_ns", Unit::nanoseconds,
                 "Time in which memory and stream of the resident kernel were made");
Counter regions("device.cold_regions_ns", Unit::nanoseconds,
                "Time in which GPU memory of collectives was allocated and cleared");
Counter probes("device.cold_probes_ns", Unit::nanoseconds,
               "Time in which it was tested whether pairs of GPUs reach each other");
Counter mappings("device.cold_mappings_ns", Unit::nanoseconds,
                 "Time in which GPU memory of other processes was mapped");
Counter closes("device.cold_closes_ns", Unit::nanoseconds,
               "Time in which mappings of GPU memory of other processes were closed");
Counter streams("device.cold_streams_ns", Unit::nanoseconds,
                "Time in which streams and graphs for copies and packing were made");
Counter bounce("device.cold_bounce_ns", Unit::nanoseconds, "Time in which bounce buffers were allocated");

struct Entry {
  const char* range;
  Counter& counter;
};

/// Indexed by Part.
const std::array kParts = {Entry{"cold.kernels", kernels},   Entry{"cold.resident", resident},
                           Entry{"cold.regions", regions},   Entry{"cold.probes", probes},
                           Entry{"cold.mappings", mappings}, Entry{"cold.closes", closes},
                           Entry{"cold.bounce", bounce},     Entry{"cold.streams", streams}};

}  // namespace

Timer::Timer(Part part)
    : range_(kParts[static_cast<size_t>(part)].range), part_(part), begin_(monotonic_ns()) {}

void Timer::add(Part part, uint64_t ns) { kParts[static_cast<size_t>(part)].counter.add_shared(ns); }

}  // namespace weft::cold
