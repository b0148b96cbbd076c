// SPDX-License-Identifier: BSD-3-Clause
// Sizes in pairs of words (8 bytes): around the borders of protocols, rarely several MiB.
#pragma once
#include <initializer_list>

#include "reference/draw.hpp"

namespace mixed {

inline std::initializer_list<int64_t> sizes_of(randomized::Draw& draw) {
  static constexpr std::initializer_list<int64_t> kSmall = {0,   1,   1,   2,   3,   8,  17,
                                                            100, 128, 129, 511, 512, 513};
  static constexpr std::initializer_list<int64_t> kMedium = {1023, 1025, 2048, 2049,  4096,
                                                             6000, 8192, 8193, 16385, 40000};
  // These are 1 MiB and 4 MiB with a rest, and 9 MiB.
  static constexpr std::initializer_list<int64_t> kLarge = {131073, 524289}, kLargest = {1179648};
  return draw.one_in(100) ? kLargest : draw.one_in(30) ? kLarge : draw.one_in(3) ? kMedium : kSmall;
}

}  // namespace mixed
