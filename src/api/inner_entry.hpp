// SPDX-License-Identifier: BSD-3-Clause
// Entries of functions that no tool knows. Tools that wrap functions at their addresses, such as Valgrind's
// wrapper of MPI, choose them by names such as PMPI_Send in all libraries libmpi*.so*. Calls between
// libraries of Weft, whose handles may be those of another interface, are none of their business.
#pragma once
#include <cstdint>
#include <cstring>

// Empty instructions at the beginning of a function, which its inner entry skips: as many bytes as a tool
// overwrites by a jump.
#if defined(__x86_64__)
#define WEFT_INNER_ENTRY __attribute__((patchable_function_entry(5, 0)))
#else
#define WEFT_INNER_ENTRY __attribute__((patchable_function_entry(1, 0)))
#endif

namespace weft::api {

/// Returns the inner entry of a function with WEFT_INNER_ENTRY.
inline void* inner_entry(void* function) {
  auto* code = static_cast<unsigned char*>(function);
#if defined(__x86_64__)
  constexpr unsigned char kBranchTarget[] = {0xf3, 0x0f, 0x1e, 0xfa},
                          kEmpty[] = {0x90, 0x90, 0x90, 0x90, 0x90};
#elif defined(__aarch64__)
  constexpr unsigned char kBranchTarget[] = {0x5f, 0x24, 0x03, 0xd5}, kEmpty[] = {0x1f, 0x20, 0x03, 0xd5};
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  if (std::memcmp(code, kBranchTarget, sizeof kBranchTarget) == 0) code += sizeof kBranchTarget;
  if (std::memcmp(code, kEmpty, sizeof kEmpty) == 0) return code + sizeof kEmpty;
#endif
  return function;
}

}  // namespace weft::api
