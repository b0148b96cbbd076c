// SPDX-License-Identifier: BSD-3-Clause
// GPU binding: values of --gpu-bind and --gpus-per-task, in the words of Slurm's srun, and rotate.
#pragma once
#include <string>
#include <vector>

#include "base/result.hpp"

namespace weft::mpiexec {

struct Options;

enum class GpuBind {
  unset,     ///< as none, or by --gpus-per-task
  none,      ///< each rank sees all GPUs
  closest,   ///< the GPUs with the smallest NUMA distance from the cores of the rank
  single,    ///< one GPU
  per_task,  ///< a number of GPUs of its own
  list,      ///< map_gpu, mask_gpu and PALS' list: the GPUs of each rank
  rotate     ///< all GPUs, the one of `single` first
};

struct GpuBinding {
  GpuBind kind = GpuBind::unset;
  int count = 0;  ///< single: ranks of each GPU, 0: equal shares; per_task: GPUs of each rank
  /// list: numbers of visible GPUs for each local rank; ranks that exceed it continue with its beginning.
  std::vector<std::vector<int>> lists{};
  std::string text{};  ///< the value, for messages and srun

  [[nodiscard]] bool assigns() const { return kind != GpuBind::unset && kind != GpuBind::none; }
};

/// Largest number of GPUs of a host that the options can name.
inline constexpr int kMaxGpus = 64;

[[nodiscard]] Status set_gpu_bind(Options& options, const std::string& name, const std::string& value);
[[nodiscard]] Status set_gpus_per_task(Options& options, const std::string& name, const std::string& value);
/// Refuses variables of programs (-x) that choose GPUs beside --gpu-bind.
[[nodiscard]] Status check_gpu_variables(const Options& options);
/// Returns the binding of a job: --gpu-bind, else per_task by --gpus-per-task.
[[nodiscard]] GpuBinding gpu_binding(const Options& options);

}  // namespace weft::mpiexec
