// SPDX-License-Identifier: BSD-3-Clause
#include "device/info.hpp"

#include <cstdio>
#include <cstring>
#include <mutex>

#include "device/cuda/driver.hpp"
#include "device/cuda/nvml.hpp"

namespace weft::device {
namespace {

Error no_driver() { return Error(Errc::unsupported, "CUDA is not usable (" + absence() + ")"); }

Result<Uuid> query_uuid(int ordinal) {
  cuda::UuidBytes bytes{};
  WEFT_CUDA_TRY(device_get_uuid, "a GPU's UUID cannot be read", &bytes, ordinal);
  Uuid uuid;
  std::memcpy(uuid.data(), bytes.bytes, uuid.size());
  return uuid;
}

/// Whether the name of a device is that of a MIG instance ("NVIDIA H200 MIG 1g.18gb").
Result<bool> query_mig(int ordinal) {
  char text[256] = "";
  WEFT_CUDA_TRY(device_get_name, "a GPU's name cannot be read", text, static_cast<int>(sizeof text), ordinal);
  return std::strstr(text, " MIG ") != nullptr;
}

/// Identities of the visible devices; constant after the driver is initialised.
Result<std::vector<GpuId>> visible_gpus() {
  static std::mutex mutex;
  static auto& known = *new std::vector<GpuId>;
  if (!available()) return no_driver();
  const std::lock_guard lock(mutex);
  if (!known.empty()) return known;
  int count = 0;
  WEFT_CUDA_TRY(device_get_count, "the GPUs cannot be counted", &count);
  std::vector<GpuId> found;
  for (int i = 0; i < count; ++i) {
    auto uuid = query_uuid(i);
    if (!uuid) return std::move(uuid).error();
    auto mig = query_mig(i);
    if (!mig) return std::move(mig).error();
    found.push_back({*uuid, static_cast<uint8_t>(*mig)});
  }
  known = found;
  return found;
}

Result<DeviceInfo> query_device(int ordinal) {
  DeviceInfo info;
  info.ordinal = ordinal;
  char text[256] = "";
  int bus = 0, device = 0, domain = 0, active = 0;
  unsigned flags = 0;
  constexpr const char* kWhat = "a GPU's description cannot be read";
  WEFT_CUDA_TRY(device_get_name, kWhat, text, static_cast<int>(sizeof text), ordinal);
  info.name = text;
  auto uuid = query_uuid(ordinal);
  if (!uuid) return std::move(uuid).error();
  info.uuid = *uuid;
  WEFT_CUDA_TRY(device_total_mem, kWhat, &info.memory, ordinal);
  WEFT_CUDA_TRY(device_get_attribute, kWhat, &info.capability_major, cuda::kDeviceCapabilityMajor, ordinal);
  WEFT_CUDA_TRY(device_get_attribute, kWhat, &info.capability_minor, cuda::kDeviceCapabilityMinor, ordinal);
  WEFT_CUDA_TRY(device_get_attribute, kWhat, &bus, cuda::kDevicePciBus, ordinal);
  WEFT_CUDA_TRY(device_get_attribute, kWhat, &device, cuda::kDevicePciDevice, ordinal);
  WEFT_CUDA_TRY(device_get_attribute, kWhat, &domain, cuda::kDevicePciDomain, ordinal);
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", static_cast<unsigned>(domain),
                static_cast<unsigned>(bus), static_cast<unsigned>(device));
  info.pci = text;
  WEFT_CUDA_TRY(primary_ctx_get_state, kWhat, ordinal, &flags, &active);
  info.context_active = active != 0;
  return info;
}

}  // namespace

std::string text(const Uuid& uuid) {
  std::string result = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, "%02x", uuid[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) result += '-';
    result += byte;
  }
  return result;
}

Result<std::vector<DeviceInfo>> devices(Initialise initialise) {
  if (!available()) return no_driver();
  int count = 0;
  cuda::Code code = cuda::driver().device_get_count(&count);
  if (code == cuda::kNotInitialized && initialise == Initialise::yes) {
    WEFT_CUDA_TRY(init, "the CUDA driver cannot be initialised", 0);
    code = cuda::driver().device_get_count(&count);
  }
  if (code == cuda::kNotInitialized)
    return Error(Errc::unsupported, "this program has not initialised CUDA (cuInit was not called)");
  if (code != cuda::kSuccess) return cuda::failure(code, "cuDeviceGetCount", "the GPUs cannot be counted");
  std::vector<DeviceInfo> result;
  for (int i = 0; i < count; ++i) {
    auto info = query_device(i);
    if (!info) return std::move(info).error();
    result.push_back(std::move(*info));
  }
  return result;
}

int only_active_device() {
  int count = 0, found = -1;
  if (!available() || cuda::driver().device_get_count(&count) != cuda::kSuccess) return -1;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    int active = 0;
    if (cuda::driver().primary_ctx_get_state(i, &flags, &active) != cuda::kSuccess || active == 0) continue;
    if (found >= 0) return -1;
    found = i;
  }
  return found;
}

Result<GpuId> id_of(int ordinal) {
  auto known = visible_gpus();
  if (!known) return std::move(known).error();
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= known->size())
    return Error(Errc::arg, "there is no GPU " + std::to_string(ordinal) + " in this process (it sees " +
                                std::to_string(known->size()) + ")");
  return (*known)[static_cast<size_t>(ordinal)];
}

Result<int> find_device(const GpuId& id) {
  auto known = visible_gpus();
  if (!known) return std::move(known).error();
  for (size_t i = 0; i < known->size(); ++i)
    if ((*known)[i] == id) return static_cast<int>(i);
  return -1;
}

Result<bool> mps_enabled(int device) {
  if (!available()) return no_driver();
  int enabled = 0;
  const cuda::Code code = cuda::driver().device_get_attribute(&enabled, cuda::kDeviceMpsEnabled, device);
  if (code == cuda::kInvalidValue)
    return Error(Errc::unsupported, "the CUDA driver is too old to tell whether MPS is in use");
  if (code != cuda::kSuccess) return cuda::failure(code, "cuDeviceGetAttribute", "MPS cannot be queried");
  return enabled != 0;
}

const char* name(ComputeMode mode) {
  return mode == ComputeMode::shared       ? "default"
         : mode == ComputeMode::prohibited ? "prohibited"
                                           : "exclusive process";
}

Result<ComputeMode> compute_mode(int device) {
  if (!available()) return no_driver();
  int mode = 0;
  WEFT_CUDA_TRY(device_get_attribute, "a GPU's compute mode cannot be read", &mode, cuda::kDeviceComputeMode,
                device);
  return mode == cuda::kComputeModeDefault      ? ComputeMode::shared
         : mode == cuda::kComputeModeProhibited ? ComputeMode::prohibited
                                                : ComputeMode::exclusive_process;
}

Result<int> multiprocessors(int device) {
  if (!available()) return no_driver();
  int count = 0;
  WEFT_CUDA_TRY(device_get_attribute, "a GPU's multiprocessors cannot be counted", &count,
                cuda::kDeviceMultiprocessors, device);
  return count;
}

Result<bool> can_access_peer(int device, int peer) {
  if (!available()) return no_driver();
  if (device == peer) return true;
  int can = 0;
  WEFT_CUDA_TRY(device_can_access_peer, "peer access between GPUs cannot be queried", &can, device, peer);
  return can != 0;
}

GpuSurvey survey_gpus() {
  GpuSurvey found;
  auto all = devices(Initialise::yes);
  if (!all) return {0, false, available() ? all.error().message() : absence()};
  found.devices = static_cast<int>(all->size());
  for (const auto& one : *all)
    for (const auto& other : *all) {
      const auto can = can_access_peer(one.ordinal, other.ordinal);
      found.access = found.access && can && *can;
    }
  return found;
}

bool all_have_nvlink(std::span<const GpuId> gpus) {
  constexpr int kNativeAtomics = 3;  // CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: true only over NVLink
  if (!available()) return false;
  for (size_t i = 0; i < gpus.size(); ++i)
    for (size_t j = i + 1; j < gpus.size(); ++j) {
      if (gpus[i] == gpus[j]) continue;
      const auto one = find_device(gpus[i]), other = find_device(gpus[j]);
      if (!one || !other) return false;
      int has = 0;
      const bool hidden = *one < 0 || *other < 0;
      if (hidden ? !cuda::nvml_reports_nvlink(gpus[i].uuid, gpus[j].uuid)
                 : cuda::driver().device_get_p2p_attribute(&has, kNativeAtomics, *one, *other) !=
                           cuda::kSuccess ||
                       has == 0)
        return false;
    }
  return true;
}

}  // namespace weft::device
