// SPDX-License-Identifier: BSD-3-Clause
// Atomic operations of kernels on the memory of a GPU of another host that is full: its kernel ends at a
// notification that follows them. Puts, signals, flushes and operations on other windows go on meanwhile. On
// the emulated driver, with two hosts. A target that waited for the GPU would never get the notification.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "rma/host_window.hpp"

namespace {

using namespace weft::test::enqueued;
using weft::device::Error;
using weft::device::Thread;

constexpr int kAtomics = 20;

/// Rank 1: a kernel that fills the GPU ends with the notification 0.
void be_full(const HostWindow& window) {
  weft::test::FullGpu full(device);
  full.fill();
  MPI_Barrier(MPI_COMM_WORLD);
  window.run(1, [&](KernelWindow in_kernel, int) {
    expect(in_kernel.wait_notify(Thread(), 0) == Error::none, "the notification behind atomic operations");
    expect(full.full(), "the GPU was full up to then");
    expect(window.words()[1] == 17, "data of a put to a full GPU");
    full.end();
  });
  full.release();
}

/// Rank 0: atomic operations of one kernel, and what another kernel and the host do meanwhile.
void use_full(const HostWindow& window, MPI_Win other) {
  MPI_Barrier(MPI_COMM_WORLD);
  std::atomic<bool> requested{false}, notified{false};
  std::thread host([&] {
    while (!requested) std::this_thread::yield();
    std::this_thread::sleep_for(
        std::chrono::milliseconds(50));  // the first atomic operation is at the target
    const int64_t one = 1;
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, other);
    expect_class(MPI_Accumulate(&one, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, MPI_SUM, other), MPI_SUCCESS,
                 "accumulate to another window");
    expect_class(MPI_Win_unlock(1, other), MPI_SUCCESS, "unlock of another window");
    const EmulatedHandle emulated(window.handle);
    const KernelWindow in_kernel(emulated.get());
    const int64_t value = 17;
    expect(in_kernel.put(Thread(), 1, 1, &value, sizeof value) == Error::none, "put");
    expect(in_kernel.target(1).flush(Thread()) == Error::none, "flush");
    notified = true;
    expect(in_kernel.notify(Thread(), 1, 0) == Error::none, "notify");
  });
  window.run(1, [&](KernelWindow in_kernel, int) {
    const auto target = in_kernel.target(1);
    for (int64_t i = 0; i < kAtomics; ++i) {
      requested = true;
      expect(target.atomic_add<int64_t>(0, 2) == 2 * i, "values before");
      expect(notified, "no atomic operation ends while the GPU is full");
    }
    expect(target.atomic_cas<int64_t>(0, 2 * kAtomics, 5) == 2 * kAtomics, "compare-and-swap");
    expect(target.atomic_exchange<int64_t>(0, 6) == 5, "exchange");
  });
  host.join();
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  {
    const HostWindow window;
    int64_t* memory = nullptr;
    MPI_Win other;
    MPI_Win_allocate(sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &other);
    *memory = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
      be_full(window);
    else
      use_full(window, other);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) expect(window.words()[0] == 6, "all atomic operations");
    if (rank == 1) expect(*memory == 1, "the accumulate operation to another window");
    MPI_Win_free(&other);
  }
  return weft::test::finish(failures);
}
