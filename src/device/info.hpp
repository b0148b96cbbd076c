// SPDX-License-Identifier: BSD-3-Clause
// Facts about the CUDA driver and its devices, for `weft info`, peer selection and mapping.
// Threading: any thread.
#pragma once
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

using Uuid = std::array<uint8_t, 16>;
[[nodiscard]] std::string text(const Uuid& uuid);  ///< GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx

/// Identity of a GPU or MIG instance, valid in all processes of a host; sent to peers.
struct GpuId {
  Uuid uuid;
  uint8_t mig;  ///< 1: a MIG instance, `uuid` is that of the instance
  auto operator<=>(const GpuId&) const = default;
};

struct DeviceInfo {
  int ordinal = -1;
  std::string name;
  Uuid uuid{};
  std::string pci;    ///< 0000:17:00.0
  size_t memory = 0;  ///< bytes
  int capability_major = 0, capability_minor = 0;
  bool context_active = false;  ///< the application uses its primary context
};

enum class Initialise { no, yes };

/// All devices visible to this process. Initialise::no: Errc::unsupported until the application has called
/// cuInit. Initialise::yes calls cuInit (for tools, never inside MPI).
[[nodiscard]] Result<std::vector<DeviceInfo>> devices(Initialise initialise);
/// Devices of this process on which Weft has done work: bit n for device n < 64.
[[nodiscard]] uint64_t used_devices();
/// The only device with an active primary context in this process; -1 if there are none or several.
[[nodiscard]] int only_active_device();

[[nodiscard]] Result<GpuId> id_of(int ordinal);
/// Ordinal of a device in this process; -1 if the device is hidden from it (CUDA_VISIBLE_DEVICES, cgroup).
[[nodiscard]] Result<int> find_device(const GpuId& id);
/// Whether contexts on a device are shared with other processes by MPS, as the driver reports it.
/// Errc::unsupported if the driver is too old to tell (before CUDA 12.3) or closed.
[[nodiscard]] Result<bool> mps_enabled(int device);
/// Which processes may create contexts on a device: any number, none, or one (under MPS: its server).
enum class ComputeMode : uint8_t { shared, prohibited, exclusive_process };
[[nodiscard]] const char* name(ComputeMode mode);  ///< "default", "prohibited", "exclusive process"
[[nodiscard]] Result<ComputeMode> compute_mode(int device);
/// Number of multiprocessors that this process can use; CUDA_MPS_ACTIVE_THREAD_PERCENTAGE limits it.
[[nodiscard]] Result<int> multiprocessors(int device);
/// Facts about the GPUs of this machine that one process can find, for tools: calls cuInit.
struct GpuSurvey {
  int devices = 0;
  bool access = true;         ///< each GPU can map the memory of the others
  std::string no_gpu_reason;  ///< why no GPU can be used; empty: GPUs can be used
};
[[nodiscard]] GpuSurvey survey_gpus();
/// Whether `device` can access the memory of `peer` directly; true for device == peer.
[[nodiscard]] Result<bool> can_access_peer(int device, int peer);
/// Whether NVLink connects every pair of these GPUs. NVLink keeps a warp's 128-byte store whole; PCIe may
/// split the store. Pairs with a hidden GPU are looked up with NVML; false, reported as a slow path, if that
/// cannot tell. Takes milliseconds the first time.
[[nodiscard]] bool all_have_nvlink(std::span<const GpuId> gpus);

}  // namespace weft::device
