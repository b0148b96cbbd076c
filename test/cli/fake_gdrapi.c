// SPDX-License-Identifier: BSD-3-Clause
// Mock of libgdrapi: mappings are host memory. FAKE_GDR selects a fault: open, pin, map, lost or crash.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int has_fault(const char* what) { return getenv("FAKE_GDR") && strcmp(getenv("FAKE_GDR"), what) == 0; }

void* gdr_open(void) {
  if (has_fault("crash")) abort();
  return has_fault("open") ? NULL : malloc(1);
}
int gdr_close(void* gdr) {
  free(gdr);
  return 0;
}
int gdr_pin_buffer(void* gdr, unsigned long address, size_t size, uint64_t token, uint32_t space,
                   unsigned long* handle) {
  (void)gdr, (void)token, (void)space;
  *handle = 7;
  return has_fault("pin") || address % 65536 || size != 65536 ? 22 : 0;
}
int gdr_unpin_buffer(void* gdr, unsigned long handle) {
  (void)gdr;
  return handle != 7;
}
int gdr_map(void* gdr, unsigned long handle, void** mapped, size_t size) {
  (void)gdr;
  *mapped = calloc(1, size);
  return has_fault("map") || handle != 7 ? 22 : 0;
}
int gdr_unmap(void* gdr, unsigned long handle, void* mapped, size_t size) {
  (void)gdr, (void)handle, (void)size;
  free(mapped);
  return 0;
}
int gdr_copy_to_mapping(unsigned long handle, void* mapped, const void* from, size_t size) {
  if (handle == 7 && !has_fault("lost")) memcpy(mapped, from, size);
  return 0;
}
int gdr_copy_from_mapping(unsigned long handle, void* to, const void* mapped, size_t size) {
  if (handle == 7) memcpy(to, mapped, size);
  return 0;
}
