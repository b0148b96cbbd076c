// SPDX-License-Identifier: BSD-3-Clause
// WEFT_ASSERT: invariants that are checked in dev, sanitizer and CI builds (CMake option WEFT_ASSERTS) and
// cost nothing in others. A failed assertion is a bug of the library, never of the program: it aborts.
#pragma once

namespace weft {

/// Prints the condition and its place on stderr, then aborts.
[[noreturn, gnu::cold]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace weft

#ifdef WEFT_ASSERTS
#define WEFT_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::weft::assertion_failed(#condition, __FILE__, __LINE__))
#else
#define WEFT_ASSERT(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#endif
