// SPDX-License-Identifier: BSD-3-Clause
// Counts the heap allocations of the test program and the layers linked into it; the drivers' are their own.
#pragma once

namespace weft::test {
[[nodiscard]] unsigned long heap_allocations();
}
