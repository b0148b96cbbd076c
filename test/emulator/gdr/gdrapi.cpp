// SPDX-License-Identifier: BSD-3-Clause
// gdrcopy on the emulated driver: libweft-emugdr.so implements the used part of libgdrapi.so.2. A mapping
// becomes invalid with its allocation, like with the kernel module: a later access aborts (a bus error on
// hardware). EMUGDR_FAIL=open|pin|map|bytes: injected failure.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "emucuda.h"

namespace {

struct Pinned {
  unsigned long address;
  size_t size;
  unsigned long buffer_id;
};

struct Handle {  // gdr_mh_t
  unsigned long value;
};

std::mutex mutex;
unsigned long last = 0;
std::map<unsigned long, Pinned>& pinned() {
  static auto& instance = *new std::map<unsigned long, Pinned>;
  return instance;
}

bool fails(const char* what) {
  const char* text = std::getenv("EMUGDR_FAIL");
  return text != nullptr && std::strcmp(text, what) == 0;
}

/// Host alias of GPU address `at` inside a mapping; aborts on an invalid access.
char* touch(Handle handle, const void* at, size_t size) {
  const std::lock_guard lock(mutex);
  const auto found = pinned().find(handle.value);
  const auto address = reinterpret_cast<unsigned long>(at);
  unsigned long id = 0;
  char* alias = static_cast<char*>(emucuda_alias(address, size, &id));
  if (found == pinned().end() || address < found->second.address ||
      address + size > found->second.address + found->second.size || alias == nullptr ||
      id != found->second.buffer_id) {
    std::fprintf(stderr, "emugdr: access to an invalid mapping, or to freed memory\n");
    std::abort();
  }
  return alias;
}

}  // namespace

#define EMUGDR_EXPORT __attribute__((visibility("default")))
extern "C" {

EMUGDR_EXPORT void* gdr_open(void) {
  static int session;
  return fails("open") ? nullptr : &session;
}

EMUGDR_EXPORT int gdr_close(void*) { return 0; }

EMUGDR_EXPORT int gdr_pin_buffer(void*, unsigned long address, size_t size, uint64_t, uint32_t,
                                 Handle* handle) {
  const std::lock_guard lock(mutex);
  if (fails("pin") || address % 65536 != 0 || size % 65536 != 0) return 22;
  unsigned long id = 0;
  if (emucuda_alias(address, 1, &id) == nullptr) return 22;
  handle->value = ++last;
  pinned()[last] = {address, size, id};
  return 0;
}

EMUGDR_EXPORT int gdr_unpin_buffer(void*, Handle handle) {
  const std::lock_guard lock(mutex);
  return pinned().erase(handle.value) != 0 ? 0 : 22;
}

EMUGDR_EXPORT int gdr_map(void*, Handle handle, void** at, size_t size) {
  const std::lock_guard lock(mutex);
  const auto found = pinned().find(handle.value);
  if (fails("map") || found == pinned().end() || size > found->second.size) return 22;
  *at = reinterpret_cast<void*>(found->second.address);  // direct host accesses fault
  return 0;
}

EMUGDR_EXPORT int gdr_unmap(void*, Handle, void*, size_t) { return 0; }

EMUGDR_EXPORT int gdr_copy_to_mapping(Handle handle, void* at, const void* from, size_t size) {
  char* alias = touch(handle, at, size);
  std::memcpy(alias, from, size);
  if (fails("bytes")) *alias ^= 1;
  return 0;
}

EMUGDR_EXPORT int gdr_copy_from_mapping(Handle handle, void* to, const void* at, size_t size) {
  std::memcpy(to, touch(handle, at, size), size);
  return 0;
}

}  // extern "C"
