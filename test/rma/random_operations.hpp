// SPDX-License-Identifier: BSD-3-Clause
// The operations of random_traffic.hpp, for kernels, too.
#pragma once
#include <cstdint>

namespace weft::test::traffic {

/// A part of a window, accessed by one scope: `by` of rank `origin`. Sizes are in words of 8 bytes.
struct Segment {
  enum Kind : int32_t { untouched, put, put_notify, get };
  Kind kind;
  int32_t target, origin, by;
  uint64_t first, words;
  uint32_t notification;
  uint32_t width;  ///< 0: a thread, 1: a warp, 2: a block
};
/// Adds `value` to word `index` of a target.
struct Sum {
  int32_t target, origin, by, index;
  int64_t value;
};

constexpr int kSums = 8;             ///< the first words of each window
constexpr uint32_t kLast = 3;        ///< the notification at the end of each scope
constexpr uint64_t kInRecord = 512;  ///< words of a payload of the queue to the CPU

}  // namespace weft::test::traffic
