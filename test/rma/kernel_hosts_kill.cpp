// SPDX-License-Identifier: BSD-3-Clause
// The last rank is killed while kernels of other ranks, on its host or others, wait for it, each in another
// function, and execute its atomic operations: all waits end, and the status names the rank. Kernels that get
// their handle after that do not wait either. On the emulated driver; started with --continue-on-failure by
// kernel_hosts_kill.py. usage: kernel_hosts_kill MICROSECONDS
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "rma/emulated_kernel.hpp"
#include "stream/stream_comm.hpp"

namespace {

using namespace weft::test::enqueued;
using weft::device::Error;
using weft::device::Thread;
using weft::test::EmulatedHandle;
using KernelWindow = weft::device::Window;

constexpr size_t kBytes = 256 << 10;
constexpr int kWaits = 5;

struct KillWindow {
  KillWindow() : memory(Kind::device, kBytes, device) {
    MPI_Win_create(memory.data(), kBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    expect_class(MPIX_Win_create_notify(win, 2), MPI_SUCCESS, "create_notify");
  }
  [[nodiscard]] void* handle() const {
    void* handle = nullptr;
    expect_class(MPIX_Win_device_handle(win, &handle), MPI_SUCCESS, "device_handle");
    return handle;
  }
  void expect_status(const std::string& of) const {
    int code = 0, failed = 0, notification = -1;
    expect_class(MPIX_Win_device_status(win, &code, &failed, &notification), MPI_SUCCESS, "device_status");
    expect(code == MPIX_ERR_PROC_FAILED, of + ": status " + std::to_string(code));
    expect(failed == ranks - 1, of + ": rank " + std::to_string(failed));
  }
  Buffer memory;
  MPI_Win win = MPI_WIN_NULL;
};

/// Ends with the first error.
Error wait(KernelWindow window, int thread) {
  const auto dead = window.target(window.size() - 1);
  std::vector<int64_t> data(kBytes / 2 / sizeof(int64_t), window.rank());
  Error error = Error::none;
  while (error == Error::none) switch (thread) {
      case 0:
        error = window.wait_notify(Thread(), 0);
        break;
      case 1:
        error = dead.get(Thread(), 0, data.data(), kBytes / 2);
        break;
      case 2:
        error = dead.put_notify(Thread(), 0, data.data(), 4096, 1);
        if (error == Error::none) error = dead.flush(Thread());
        break;
      case 3:
        (void)dead.atomic_add<int64_t>(kBytes - sizeof(int64_t), 1);
        if (weft::device::detail::load_volatile(&window.status().error) != 0)
          error = Error::failed;  // the operation returns no error
        break;
      default:
        error = dead.put(Thread(), 0, data.data(), kBytes / 2);
        break;
    }
  return error;
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const KillWindow window, late;
  const void* const handle = window.handle();
  int dying = static_cast<int>(getpid());
  MPI_Bcast(&dying, 1, MPI_INT, ranks - 1, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == ranks - 1) {
    const EmulatedHandle emulated(handle);
    std::thread([handle = emulated] {
      for (const auto target = KernelWindow(handle.get()).target(0);;)
        (void)target.atomic_add<int64_t>(kBytes - sizeof(int64_t), 1);
    }).detach();
    usleep(static_cast<useconds_t>(argc > 1 ? std::atoi(argv[1]) : 100'000));
    kill(getpid(), SIGKILL);
  }
  const EmulatedHandle emulated(handle);
  // Stores into the memory of a process of this host need no answer and have no end.
  const int waits = std::getenv("WEFT_FAKE_HOSTS") == nullptr ? 1 : kWaits;
  Error errors[kWaits];
  std::vector<std::thread> threads;
  for (int i = 0; i < waits; ++i)
    threads.emplace_back([&, i] { errors[i] = wait(KernelWindow(emulated.get()), i); });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < waits; ++i)
    expect(errors[i] == Error::failed,
           "wait " + std::to_string(i) + ": " + std::to_string(static_cast<int>(errors[i])));
  window.expect_status("window");
  const EmulatedHandle late_handle(late.handle());
  expect(KernelWindow(late_handle.get()).wait_notify(Thread(), 0) == Error::failed, "wait of a late handle");
  late.expect_status("late handle");
  if (failures == 0) std::printf("rank %d: the waits ended\n", rank);
  std::fflush(stdout);
  while (kill(dying, 0) == 0) usleep(1000);  // mpiexec shall see its end first
  // The others shall not name this process: it ends when all of them know the failure, or have ended.
  for (int other = 0; other < ranks - 1; ++other)
    if (other != rank)
      MPI_Sendrecv(nullptr, 0, MPI_BYTE, other, 0, nullptr, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
  _exit(failures == 0 ? 0 : 1);  // a job with a dead process cannot be finalised
}
