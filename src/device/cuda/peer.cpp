// SPDX-License-Identifier: BSD-3-Clause
#include "device/cuda/peer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/text_file.hpp"

namespace weft::device::cuda {
namespace {

constexpr const char* kShowAll =
    "; in Slurm add --gres-flags=allow-task-sharing or --gpu-bind=none to srun, in containers give all ranks "
    "of a host one container with all GPUs";

constexpr const char* kMig =
    "MIG instances cannot map each other's memory; if MIG is not needed, run nvidia-smi -mig 0 as root";

/// Why the driver does not reach a GPU that is hidden from this process.
std::string why_hidden(const GpuId& owner) {
  const std::string gpu = "GPU " + text(owner.uuid);
  const DeviceFile file = find_device_file(owner.uuid);
  switch (file.access) {
    case DeviceFile::Access::denied:
      return gpu + " is cut off from this process: its cgroup or the permissions deny " + file.path + " (" +
             file.error + ")" + kShowAll;
    case DeviceFile::Access::absent:
      return gpu + " is cut off from this process: its container does not have it" + kShowAll;
    case DeviceFile::Access::granted:
      return gpu + " is hidden from this process, which can open its device file " + file.path +
             ": run all ranks of the host in one PID and IPC namespace";
    default:
      return gpu + " is cut off from this process by a cgroup or a container" + kShowAll;
  }
}

bool is_mig(const Memory& local) {
  auto own = id_of(local.device);
  return own && own->mig != 0;
}

}  // namespace

DeviceFile find_device_file(const Uuid& uuid, const std::string& gpus, const std::string& files) {
  std::error_code unreadable;
  DeviceFile result;
  for (const auto& folder : std::filesystem::directory_iterator(gpus, unreadable)) {
    result.access = DeviceFile::Access::absent;
    const std::string information = folder.path() / "information";
    if (value_in_file(information, "GPU UUID") != text(uuid)) continue;
    const std::string minor = value_in_file(information, "Device Minor");
    if (minor.empty()) continue;
    result.path = files + "/nvidia" + minor;
    const int fd = ::open(result.path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) {
      result.error = std::strerror(errno);
      result.access = errno == ENOENT ? DeviceFile::Access::absent : DeviceFile::Access::denied;
      return result;
    }
    ::close(fd);
    result.access = DeviceFile::Access::granted;
    return result;
  }
  return result;
}

Result<int> check_peer(const GpuId& owner, const Memory& local) {
  if (local.device < 0)
    return Error(Errc::unsupported,
                 "mapping a peer's GPU buffer needs a local GPU (the local buffer is on the host): transfers "
                 "are staged");
  auto device = find_device(owner);
  if (!device || *device < 0) return device;
  auto can = can_access_peer(local.device, *device);
  if (!can) return std::move(can).error();
  if (!*can && (owner.mig != 0 || is_mig(local)))
    return Error(Errc::unsupported, std::string(kMig) + ": transfers are staged");
  if (!*can)
    return Error(Errc::unsupported, "GPU " + std::to_string(local.device) + " cannot access GPU " +
                                        std::to_string(*device) +
                                        " directly (no peer access): transfers are staged");
  return device;
}

Error not_mapped(const char* call, Code code, const GpuId& owner, const Memory& local) {
  std::string cause;
  auto device = find_device(owner);
  if (code == kAlreadyMapped)
    cause = "; another library or context of this process has it open";
  else if (owner.mig != 0 || is_mig(local))
    cause = std::string("; ") + kMig;
  else if (code == kPeerAccessUnsupported)
    cause = "; GPU " + std::to_string(local.device) + " and GPU " + text(owner.uuid) + " have no peer access";
  else if (device && *device < 0 && (code == kInvalidValue || code == kInvalidDevice))
    cause = "; " + why_hidden(owner);
  return Error(code == kAlreadyMapped ? Errc::again : Errc::unsupported,
               std::string("a peer's GPU buffer cannot be mapped (") + call + ": " + describe(code) + cause +
                   "): its transfers are staged");
}

}  // namespace weft::device::cuda
