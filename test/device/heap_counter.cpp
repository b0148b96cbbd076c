// SPDX-License-Identifier: BSD-3-Clause
#include "heap_counter.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

static std::atomic<unsigned long> count{0};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers replace the allocator
void* operator new(std::size_t size) {
  ++count;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

unsigned long weft::test::heap_allocations() { return count; }
