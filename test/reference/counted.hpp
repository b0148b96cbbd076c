// SPDX-License-Identifier: BSD-3-Clause
// Counted: the growth of a counter of base/counters.hpp since the construction of the object.
#pragma once
#include <cstdint>

#include "base/counters.hpp"

namespace weft::test {

class Counted {
 public:
  /// The counter must exist.
  explicit Counted(const char* name) : counter_(*counters::find(name)), before_(counter_.value()) {}
  [[nodiscard]] uint64_t growth() const { return counter_.value() - before_; }

 private:
  const counters::Counter& counter_;
  const uint64_t before_;
};

}  // namespace weft::test
