// SPDX-License-Identifier: BSD-3-Clause
// Calls of functions that the emulated driver exports.
#pragma once
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda_test_support.hpp"

namespace weft::test {

/// A driver function by its exported name.
template <class F>
F exported(const char* name) {
  static void* library = ::dlopen(std::getenv("WEFT_CUDA_DRIVER"), RTLD_NOW);
  const auto function = reinterpret_cast<F>(::dlsym(library, name));
  EXPECT_NE(function, nullptr) << name;
  return function;
}

template <class... A>
Code call(const char* name, A... arguments) {
  return exported<Code (*)(A...)>(name)(arguments...);
}

inline Address address_of(const void* p) { return reinterpret_cast<Address>(p); }

}  // namespace weft::test
