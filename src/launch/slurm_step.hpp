// SPDX-License-Identifier: BSD-3-Clause
// Slurm step: whether the tasks of a step are the processes of a program, or the program was started in a
// shell of the step.
#pragma once
#include <sys/types.h>

#include "launch/environment.hpp"

namespace weft::launch {

/// Returns true if process `self` was started in a batch script or in an interactive shell of Slurm (salloc,
/// srun --pty), which is one process although the variables of its step may count several tasks.
[[nodiscard]] bool in_slurm_shell(const Lookup& lookup, pid_t self);

}  // namespace weft::launch
