// SPDX-License-Identifier: BSD-3-Clause
// Facts about the CUDA driver and its devices, for `weft info`, peer selection and mapping.
// Threading: any thread.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "device/memory.hpp"

namespace weft::device {

using Uuid = std::array<uint8_t, 16>;
[[nodiscard]] std::string text(const Uuid& uuid);  ///< GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx

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

/// Path or name the driver was opened by; empty when there is none.
[[nodiscard]] std::string driver_path();
/// CUDA version of the driver, as 13000; 0 when there is none.
[[nodiscard]] int driver_version();
/// All devices visible to this process. With Initialise::no an error (Errc::unsupported) until the
/// application has called cuInit; Initialise::yes calls it (for tools, never inside MPI).
[[nodiscard]] Result<std::vector<DeviceInfo>> devices(Initialise initialise);
/// The device whose context is active in this process when there is exactly one, else -1.
[[nodiscard]] int only_active_device();

[[nodiscard]] Result<Uuid> uuid_of(int ordinal);
/// Ordinal of a device here; Errc::unsupported when it is not visible to this process.
[[nodiscard]] Result<int> find_device(const Uuid& uuid);
/// Whether `device` can read and write `peer`'s memory directly (true for itself).
[[nodiscard]] Result<bool> can_access_peer(int device, int peer);
/// Whether NVLink lies between any two of some GPUs: it takes a warp's store to 128 bytes as a whole, PCIe
/// may divide it. No, where the driver does not say.
[[nodiscard]] bool all_have_nvlink(const std::vector<int>& devices);

}  // namespace weft::device
