// SPDX-License-Identifier: BSD-3-Clause
// Counts heap allocations of the test program and its linked layers, not of the driver.
#pragma once

namespace weft::test {
[[nodiscard]] unsigned long heap_allocations();
}
