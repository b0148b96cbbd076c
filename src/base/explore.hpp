// SPDX-License-Identifier: BSD-3-Clause
// Points between two accesses to memory that ranks share. A test that simulates several ranks on one thread
// switches to another rank there, so that it runs real code in any order. Only in builds with assertions.
#pragma once

namespace weft::explore {

#ifdef WEFT_ASSERTS
/// Set by such a test while it runs; null: nothing happens at a point.
inline void (*switch_rank)() = nullptr;
inline void point() {
  if (switch_rank != nullptr) [[unlikely]]
    switch_rank();
}
#else
inline void point() {}
#endif

}  // namespace weft::explore
