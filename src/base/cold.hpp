// SPDX-License-Identifier: BSD-3-Clause
// Cold: the time that a process spends once, before its messages are fast. Each part has a counter
// ("device.cold_<part>_ns") and ranges in a trace ("cold.<part>"). Threading: any thread.
#pragma once
#include <cstdint>

#include "base/clock.hpp"
#include "base/trace.hpp"

namespace weft::cold {

enum class Part : uint8_t {
  kernels,   ///< loading of kernels
  resident,  ///< memory and stream of the resident kernel
  regions,   ///< regions of collectives: allocation and clearing
  probes,    ///< tests of pairs of GPUs
  mappings,  ///< opening memory of other processes
  closes,    ///< closing it
  bounce,    ///< allocation of bounce buffers
  streams,   ///< streams and graphs for copies and packing
};

/// Adds the time from construction to destruction to a part. Parts do not nest.
class Timer {
 public:
  explicit Timer(Part part);
  ~Timer() { add(part_, elapsed_ns()); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  /// Returns the nanoseconds since construction.
  [[nodiscard]] uint64_t elapsed_ns() const { return monotonic_ns() - begin_; }

 private:
  static void add(Part part, uint64_t ns);
  const trace::Range range_;
  const Part part_;
  const uint64_t begin_;
};

}  // namespace weft::cold
