// SPDX-License-Identifier: BSD-3-Clause
// nvidia-smi: modes of the GPUs of this host, from the output of NVIDIA's tool.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"

namespace weft::mpiexec {

/// A GPU as nvidia-smi reports it.
struct GpuState {
  std::string index, uuid;   ///< "0", "GPU-..."
  std::string compute_mode;  ///< "Default", "Exclusive_Process", "Prohibited"
  bool mig = false;          ///< it is divided into MIG instances
  std::string user{};  ///< a process that uses it, "python (pid 4711)"; empty: none that is visible here
};

/// Options of nvidia-smi for the two lists below.
inline constexpr const char* kGpuQuery = "--query-gpu=index,uuid,compute_mode,mig.mode.current";
inline constexpr const char* kProcessQuery = "--query-compute-apps=gpu_uuid,pid,process_name";

/// Parses the lists of GPUs and of the processes that use them, in the form csv,noheader.
[[nodiscard]] Result<std::vector<GpuState>> parse_gpu_states(const std::string& gpus,
                                                             const std::string& processes);

/// Returns the GPUs of this host. `path`: of nvidia-smi. Error: why there are none, or it does not answer.
[[nodiscard]] Result<std::vector<GpuState>> query_gpu_states(const std::string& path);

/// Returns the GPUs of a CUDA_VISIBLE_DEVICES that consists of UUIDs or their beginnings; all for other
/// values, whose numbers only the driver knows.
[[nodiscard]] std::vector<GpuState> states_of_visible(std::vector<GpuState> all, const std::string& visible);

/// Returns true if all entries of a CUDA_VISIBLE_DEVICES are UUIDs of GPUs or their beginnings.
[[nodiscard]] bool has_only_uuids(const std::string& visible);

}  // namespace weft::mpiexec
