// SPDX-License-Identifier: BSD-3-Clause
// GPUs: the visible ones, and the assignment of --gpu-bind. No CUDA call: the GPUs come from sysfs, the files
// of NVIDIA's driver and CUDA_VISIBLE_DEVICES.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"
#include "mpiexec/gpu_bind.hpp"
#include "mpiexec/topology.hpp"

namespace weft::mpiexec {

/// Variables of CUDA in mpiexec's environment; nullptr: unset.
struct GpuVariables {
  const char* visible = nullptr;  ///< CUDA_VISIBLE_DEVICES
  const char* order = nullptr;    ///< CUDA_DEVICE_ORDER
};
[[nodiscard]] GpuVariables gpu_variables();

/// A GPU that mpiexec's environment shows.
struct VisibleGpu {
  std::string entry;  ///< in CUDA_VISIBLE_DEVICES: a number, "GPU-...", "MIG-..."
  Gpu gpu{};          ///< without an address: unknown
};

/// Returns the GPUs that a program would see under these variables, in CUDA's order. Errc::arg: an entry
/// names no GPU of this host.
[[nodiscard]] Result<std::vector<VisibleGpu>> visible_gpus(const std::vector<Gpu>& gpus,
                                                           const GpuVariables& variables);

/// Distances of one rank to the visible GPUs, as firmware reports those of NUMA nodes (10: the same node);
/// -1: unknown. `cpus`: those of the rank; empty: all.
[[nodiscard]] std::vector<int> gpu_distances(const std::vector<VisibleGpu>& gpus, const Topology& topology,
                                             const std::vector<int>& cpus);

/// Returns the GPUs of each rank, as indices of `gpus`. `distances`: of each rank to each GPU; empty: all
/// alike. `busy`: for each GPU the processes that use it already, whose GPUs are taken last; empty: none.
/// Errc::arg: the binding asks for GPUs that are not there.
[[nodiscard]] Result<std::vector<std::vector<size_t>>> assign_gpus(
    const GpuBinding& binding, const std::vector<VisibleGpu>& gpus, size_t ranks,
    const std::vector<std::vector<int>>& distances, std::vector<size_t> busy = {});

/// Returns "1 GPU", "4 GPUs".
[[nodiscard]] std::string count_gpus(size_t gpus);
/// Describes the GPUs of a rank for --report-bindings: "GPU 1 (0000:3b:00.0 GPU-..., NUMA distance 10), 3
/// GPUs hidden". `own`: indices of `gpus`.
[[nodiscard]] std::string describe_gpus(const std::vector<VisibleGpu>& gpus, const std::vector<size_t>& own,
                                        const std::vector<int>& distances);

}  // namespace weft::mpiexec
