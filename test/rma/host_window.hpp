// SPDX-License-Identifier: BSD-3-Clause
// A window of all ranks in emulated GPU memory, and kernels on it that host threads execute.
#pragma once
#include <functional>
#include <thread>
#include <vector>

#include "rma/device_kernels.cuh"
#include "rma/emulated_kernel.hpp"
#include "stream/stream_comm.hpp"

namespace weft::test::enqueued {

using weft::test::EmulatedHandle;
using KernelWindow = weft::device::Window;

inline constexpr size_t kWords = 2 * programs::kHalf;
inline constexpr size_t kBytes = kWords * sizeof(int64_t);

/// Runs a kernel of `threads` blocks on a window while the host is outside of MPI.
inline void run_kernel(void* handle, int threads, const std::function<void(KernelWindow, int)>& body) {
  const EmulatedHandle emulated(handle);
  std::vector<std::thread> blocks;
  for (int i = 0; i < threads; ++i) blocks.emplace_back([&, i] { body(KernelWindow(emulated.get()), i); });
  for (std::thread& block : blocks) block.join();
}

struct HostWindow {
  /// `has_memory`: whether this rank has memory in the window.
  explicit HostWindow(int notifications = 4, bool has_memory = true) : memory(Kind::device, kBytes, device) {
    memory.write(std::vector<char>(kBytes));
    driver();  // a rank without memory uses its current context
    MPI_Win_create(has_memory ? memory.data() : nullptr, has_memory ? kBytes : 0, sizeof(int64_t),
                   MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    expect_class(MPIX_Win_create_notify(win, notifications), MPI_SUCCESS, "create_notify");
    expect_class(MPIX_Win_device_handle(win, &handle), MPI_SUCCESS, "device_handle");
    MPI_Barrier(MPI_COMM_WORLD);
  }
  ~HostWindow() { free(); }
  void free() {
    if (win != MPI_WIN_NULL) expect_class(MPI_Win_free(&win), at_free, "free");
  }
  void run(int threads, const std::function<void(KernelWindow, int)>& body) const {
    run_kernel(handle, threads, body);
  }
  [[nodiscard]] int64_t* words() const {
    return static_cast<int64_t*>(EmulatedHandle::alias(reinterpret_cast<uint64_t>(memory.data()), kBytes));
  }
  Buffer memory;
  MPI_Win win = MPI_WIN_NULL;
  void* handle = nullptr;
  int at_free = MPI_SUCCESS;  ///< expected error class
};

}  // namespace weft::test::enqueued
