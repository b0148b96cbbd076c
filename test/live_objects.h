// SPDX-License-Identifier: BSD-3-Clause
// For test programs that end, on purpose, while objects of the library exist: LeakSanitizer does not scan the
// library's pools (base/slab.hpp), so it would report what those objects own.
#pragma once

static int ends_with_live_objects;  // not 0: no check of leaks when this process ends

#ifdef __SANITIZE_ADDRESS__
#ifdef __cplusplus
extern "C"
#endif
    __attribute__((visibility("default"), used)) int
    __lsan_is_turned_off(void) {
  return ends_with_live_objects;
}
#endif
