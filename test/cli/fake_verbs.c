// SPDX-License-Identifier: BSD-3-Clause
// Mock of libibverbs with one adapter. FAKE_VERBS selects a fault: none, closed or refuse (peer memory).
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int has_fault(const char* what) {
  return getenv("FAKE_VERBS") && strcmp(getenv("FAKE_VERBS"), what) == 0;
}

static char adapter[] = "mlx5_0";
static void* list[] = {adapter, NULL};

void** ibv_get_device_list(int* count) {
  *count = has_fault("none") ? 0 : 1;
  return list;
}
const char* ibv_get_device_name(void* device) { return device; }
void* ibv_open_device(void* device) { return has_fault("closed") ? NULL : device; }
void* ibv_alloc_pd(void* context) { return context; }
void* ibv_reg_mr(void* domain, void* address, size_t size, int access) {
  (void)address, (void)size, (void)access;
  return has_fault("refuse") ? NULL : domain;
}
int ibv_dereg_mr(void* region) { return region != adapter; }
