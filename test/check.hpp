// SPDX-License-Identifier: BSD-3-Clause
// CHECK: ends a rank of a test with the place and the text of a condition that does not hold.
#pragma once
#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)
