// SPDX-License-Identifier: BSD-3-Clause
// A library of C++ in which crash.c crashes; `damage`: with a heap that is damaged.
#include <cstdlib>
#include <cstring>
#include <vector>

namespace deep {

// The name has a type that only a demangler can write.
[[gnu::noinline]] int below(const std::vector<int>& values) {
  *reinterpret_cast<volatile int*>(16) = static_cast<int>(values.size());
  return values[0];
}

}  // namespace deep

extern "C" [[gnu::visibility("default")]] void crash_in_library(int damage) {
  std::vector<int> values(4);
  if (damage != 0) {
    auto* volatile block =
        static_cast<char*>(std::malloc(64));  // volatile: compilers know that this is wrong
    std::memset(block - 16, 0x5a, 96);        // the allocator's own words
  }
  (void)deep::below(values);
}
