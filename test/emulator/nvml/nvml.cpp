// SPDX-License-Identifier: BSD-3-Clause
// The part of NVML that Weft uses, for the devices of the emulated driver (EMUCUDA_DEVICES, EMUCUDA_NVLINK),
// also devices that CUDA_VISIBLE_DEVICES hides. EMUNVML_FAIL=init|device|status: the call that fails.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define EMUNVML __attribute__((visibility("default")))

namespace {

constexpr int kUnknownError = 999, kNotFound = 6;

bool fails(const char* call) {
  const char* failing = std::getenv("EMUNVML_FAIL");
  return failing != nullptr && std::strcmp(failing, call) == 0;
}

long number(const char* variable, long standard) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtol(text, nullptr, 10) : standard;
}

}  // namespace

extern "C" {

EMUNVML int nvmlInit_v2() { return fails("init") ? kUnknownError : 0; }

/// UUIDs of the emulated driver are its name, and end with the number of the device.
EMUNVML int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  unsigned last = 0;
  const size_t length = std::strlen(uuid);
  if (fails("device") || length != 40 || std::sscanf(uuid + length - 2, "%2x", &last) != 1) return kNotFound;
  const long index = static_cast<long>(last) - '0';
  if (index < 0 || index >= number("EMUCUDA_DEVICES", 2)) return kNotFound;
  *device = reinterpret_cast<void*>(static_cast<uintptr_t>(index) + 1);
  return 0;
}

EMUNVML int nvmlDeviceGetP2PStatus(void* one, void* other, int capability, unsigned* status) {
  constexpr int kNvlink = 2;
  if (fails("status") || one == other || capability != kNvlink) return kUnknownError;
  *status = number("EMUCUDA_NVLINK", 1) != 0 ? 0 : 1;
  return 0;
}
}
