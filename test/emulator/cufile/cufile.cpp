// SPDX-License-Identifier: BSD-3-Clause
// cuFile on the emulated driver: libweft-emucufile.so implements the used part of libcufile.so.0. It aborts
// if a transfer leaves an allocation or has no current context, and refuses unaligned transfers.
//   EMUCUFILE_FAIL=open|register|read|write|late: injected failure; late: all transfers after the first four
//   EMUCUFILE_FAIL=bytes: reads change a byte; EMUCUFILE_FAIL=short: transfers of at most 8 KiB
//   EMUCUFILE_COMPAT=1: the library reports compatibility mode
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "emucuda.h"

namespace {

struct Code {
  int code, driver_code;
};
struct Description {
  int type, padding, fd, more;
  const void* operations;
};
struct Properties {
  unsigned major, minor;
  size_t poll_threshold, max_direct;
  unsigned status, control, features, rest[6];
};
struct Handle {
  int fd;
};

constexpr size_t kAlignment = 4096, kShortBytes = 8192;
constexpr ssize_t kInvalidValue = -5022;  // CU_FILE_INVALID_VALUE
constexpr int kRefused = 5001;            // CU_FILE_DRIVER_NOT_INITIALIZED
std::atomic<int> transfers{0};

bool fails(const char* what) {
  const char* const text = std::getenv("EMUCUFILE_FAIL");
  return text != nullptr && std::strcmp(text, what) == 0;
}

/// Memory that the kernel accepts for O_DIRECT.
struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
std::unique_ptr<char, Free> aligned(size_t bytes) {
  return std::unique_ptr<char, Free>(static_cast<char*>(std::aligned_alloc(kAlignment, bytes)));
}

char* memory_at(const void* base, off_t offset, size_t bytes) {
  const auto address = reinterpret_cast<unsigned long>(base) + static_cast<unsigned long>(offset);
  unsigned long id = 0;
  void* const alias = emucuda_alias(address, bytes, &id);
  if (alias == nullptr) {
    std::fprintf(stderr, "emucufile: a transfer leaves its allocation\n");
    std::abort();
  }
  return static_cast<char*>(alias);
}

/// Checks the arguments; returns the bytes to transfer, or an error.
ssize_t admit(const void* base, size_t bytes, off_t at, off_t offset, const char* direction) {
  const auto address = reinterpret_cast<size_t>(base) + static_cast<size_t>(offset);
  if (address % kAlignment != 0 || bytes % kAlignment != 0 || static_cast<size_t>(at) % kAlignment != 0)
    return kInvalidValue;
  if (fails(direction) || (fails("late") && transfers.fetch_add(1) >= 4)) return kInvalidValue;
  return static_cast<ssize_t>(fails("short") ? std::min(bytes, kShortBytes) : bytes);
}

}  // namespace

#define EMUCUFILE_EXPORT __attribute__((visibility("default")))
extern "C" {

EMUCUFILE_EXPORT Code cuFileDriverOpen(void) { return {fails("open") ? kRefused : 0, 0}; }

EMUCUFILE_EXPORT Code cuFileDriverGetProperties(Properties* properties) {
  *properties = {};
  properties->major = std::getenv("EMUCUFILE_COMPAT") == nullptr ? 2 : 0;
  return {0, 0};
}

EMUCUFILE_EXPORT Code cuFileHandleRegister(void** handle, Description* description) {
  if (fails("register") || description->type != 1) return {kRefused, 0};
  *handle = new Handle{description->fd};
  return {0, 0};
}

EMUCUFILE_EXPORT void cuFileHandleDeregister(void* handle) { delete static_cast<Handle*>(handle); }

EMUCUFILE_EXPORT ssize_t cuFileRead(void* handle, void* base, size_t bytes, off_t at, off_t offset) {
  const ssize_t n = admit(base, bytes, at, offset, "read");
  if (n < 0) return n;
  const auto bounce = aligned(static_cast<size_t>(n));
  const ssize_t done = pread(static_cast<Handle*>(handle)->fd, bounce.get(), static_cast<size_t>(n), at);
  if (done <= 0) return done;
  char* const to = memory_at(base, offset, static_cast<size_t>(done));
  std::memcpy(to, bounce.get(), static_cast<size_t>(done));
  if (fails("bytes")) to[0] ^= 1;
  return done;
}

EMUCUFILE_EXPORT ssize_t cuFileWrite(void* handle, const void* base, size_t bytes, off_t at, off_t offset) {
  const ssize_t n = admit(base, bytes, at, offset, "write");
  if (n < 0) return n;
  const auto bounce = aligned(static_cast<size_t>(n));
  std::memcpy(bounce.get(), memory_at(base, offset, static_cast<size_t>(n)), static_cast<size_t>(n));
  return pwrite(static_cast<Handle*>(handle)->fd, bounce.get(), static_cast<size_t>(n), at);
}

}  // extern "C"
