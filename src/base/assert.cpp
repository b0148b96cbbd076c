// SPDX-License-Identifier: BSD-3-Clause
#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace weft {

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "weft: internal error: %s does not hold (%s:%d): please report it\n", condition, file,
               line);
  std::abort();
}

}  // namespace weft
