// SPDX-License-Identifier: BSD-3-Clause
// Operators new that throw where memory is short, as the language has it: those of AddressSanitizer end the
// process there, but the library must turn the exception into MPI_ERR_NO_MEM.
#ifdef __SANITIZE_ADDRESS__
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
void* allocate(size_t size, size_t alignment) {
  void* memory = nullptr;
  return ::posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}
void* allocate_or_throw(size_t size, size_t alignment) {
  void* memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
constexpr size_t kAlignment = alignof(std::max_align_t);
}  // namespace

void* operator new(size_t size) { return allocate_or_throw(size, kAlignment); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return allocate(size, kAlignment); }
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
#endif
