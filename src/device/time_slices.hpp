// SPDX-License-Identifier: BSD-3-Clause
// GPUs that several processes use in turns, without MPS. Threading: any thread.
#pragma once

namespace weft::device {

/// Whether other ranks are recorded for a device (note_shared_device()), and the GPU switches between the
/// processes. A kernel, or a copy inside the GPU, then waits for a switch: 0.14 ms on an H200 that is
/// otherwise idle, else the time slices of the other processes. Copies between the GPU and pinned host memory
/// by copy engines do not wait (bench/results/time-sliced-gpu-h200.json).
[[nodiscard]] bool time_sliced(int device);

}  // namespace weft::device
