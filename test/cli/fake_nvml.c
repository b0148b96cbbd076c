// SPDX-License-Identifier: BSD-3-Clause
// Mock of NVML with 18 NVLinks (4.0) per GPU. The environment variables FAKE_NVML_* inject faults.
#include <stdlib.h>
#include <string.h>

static unsigned setting(const char* name, unsigned otherwise) {
  const char* text = getenv(name);
  return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

int nvmlInit_v2(void) { return (int)setting("FAKE_NVML_INIT", 0); }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  strncpy(text, "580.1", size);
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  *device = (void*)(strlen(address) + 1);
  return 0;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
  (void)device;
  *active = link < setting("FAKE_NVML_LINKS", 18);
  return 0;
}
int nvmlDeviceGetNvLinkVersion(void* device, unsigned link, unsigned* version) {
  (void)device, (void)link;
  *version = 6;  // NVLink 4.0
  return 0;
}
int nvmlDeviceGetP2PStatus(void* one, void* other, int which, unsigned* status) {
  (void)one, (void)other, (void)which;
  *status = setting("FAKE_NVML_LINKS", 18) == 0;
  return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void* one, void* other, unsigned* level) {
  (void)one, (void)other;
  *level = 30;
  return 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  (void)device;
  *reasons = setting("FAKE_NVML_THROTTLE", 0);
  return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int kind, int counter, unsigned long long* count) {
  (void)device, (void)kind, (void)counter;
  *count = setting("FAKE_NVML_ECC", 0);
  return getenv("FAKE_NVML_NO_ECC") ? 3 : 0;
}
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* later) {
  (void)device;
  *now = *later = setting("FAKE_NVML_MIG", 0);
  return 0;
}
int nvmlDeviceGetComputeMode(void* device, unsigned* mode) {
  (void)device;
  *mode = setting("FAKE_NVML_MODE", 0);
  return 0;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* degrees) {
  (void)device, (void)sensor;
  *degrees = 41;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* value) {
  (void)device;
  *value = 5;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* value) {
  (void)device;
  *value = setting("FAKE_NVML_WIDTH", 16);
  return 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* value) {
  (void)device;
  *value = 5;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* value) {
  (void)device;
  *value = 16;
  return 0;
}
