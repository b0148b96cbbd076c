// SPDX-License-Identifier: BSD-3-Clause
// Windows of two hosts in kernels on the emulated driver, with a target that is held back: what a flush and a
// barrier wait for, errors at the target, frees in the driver beside kernels, waits of the host.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "rma/host_window.hpp"

namespace {

using namespace weft::test::enqueued;
using weft::device::Error;
using weft::device::Target;
using weft::device::Thread;

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// Stops the process of rank 1 for a time, at whose end nothing of what waits for it may have ended.
class Held {
 public:
  explicit Held(int pid) {
    expect(::kill(pid, SIGSTOP) == 0, "SIGSTOP");
    for (std::string state; state != "T";) {
      std::string name;
      std::ifstream("/proc/" + std::to_string(pid) + "/stat") >> name >> name >> state;
    }
    sleep_ms(20);  // for its other threads
    waker_ = std::thread([this, pid] {
      sleep_ms(300);
      expect(ended.load() == 0, "nothing ends while the target has received nothing");
      expect(::kill(pid, SIGCONT) == 0, "SIGCONT");
    });
  }
  ~Held() { waker_.join(); }
  std::atomic<int> ended{0};

 private:
  std::thread waker_;
};

/// Rank 0 gets the process of rank 1, which then waits for done().
int pid_of_target() {
  int pid = static_cast<int>(::getpid());
  if (rank == 1) MPI_Send(&pid, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
  if (rank == 0) MPI_Recv(&pid, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return pid;
}

/// Each flush waits for the target, also beside another in flight.
void flushes() {
  const HostWindow window;
  const int pid = pid_of_target();
  if (rank == 0) {
    Held held(pid);
    window.run(3, [&](KernelWindow in_kernel, int thread) {
      const int64_t value = 5;
      if (thread == 0)
        expect(in_kernel.put(Thread(), 1, 0, &value, sizeof value) == Error::none, "put");
      else
        sleep_ms(100);
      const Error flushed = thread == 2 ? in_kernel.flush(Thread()) : in_kernel.target(1).flush(Thread());
      expect(flushed == Error::none, "flush");
      ++held.ended;
    });
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) expect(window.words()[0] == 5, "a value before a flush");
}

/// A barrier ends when the puts of this rank are there, for other ranks too.
void barriers() {
  const HostWindow window;
  const int pid = pid_of_target();
  window.run(1, [&](KernelWindow in_kernel, int) {
    if (rank == 1) {
      in_kernel.signal_barrier(0);
      expect(in_kernel.notify(Thread(), 0, 2) == Error::none, "notify");
      while (!in_kernel.try_take(0, 1)) std::this_thread::yield();
      return;
    }
    expect(in_kernel.wait_notify(Thread(), 2) == Error::none, "the other rank is in the barrier");
    Held held(pid);
    const int64_t value = 77;
    expect(in_kernel.put(Thread(), 1, 7, &value, sizeof value) == Error::none, "put");
    expect(in_kernel.barrier(Thread()) == Error::none, "barrier");
    ++held.ended;
  });
  MPI_Barrier(MPI_COMM_WORLD);
}

/// A put that the target cannot execute is an error of later flushes, by kernels and by the host.
void failed_puts() {
  HostWindow window;
  if (rank == 0) {
    const EmulatedHandle emulated(window.handle);
    const auto* const table = static_cast<const weft::device::abi::WindowTable*>(emulated.get());
    const KernelWindow in_kernel(emulated.get());
    constexpr uint32_t kNoSuchCounter = 1000;
    expect(weft::device::detail::put_remote(Thread(), table, 1, 0, nullptr, 0, kNoSuchCounter) == Error::none,
           "a signal that the target drops");
    expect(in_kernel.target(1).flush(Thread()) == Error::network, "flush after a dropped signal");
    expect(in_kernel.target(1).flush(Thread()) != Error::none, "the error stays");
    expect(in_kernel.flush(Thread()) != Error::none, "also of flushes of all ranks");
    int code = 0, of = -2, notification = -1;
    MPIX_Win_device_status(window.win, &code, &of, &notification);
    expect(of == 1, "the status names the rank");
    MPI_Win_lock_all(0, window.win);
    expect_class(MPI_Win_flush(1, window.win), MPI_ERR_OTHER, "the host's flush");
    (void)MPI_Win_unlock_all(window.win);
    window.at_free = MPI_ERR_OTHER;
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Waits of the host take from words in host memory, without kernels, beside notifications in GPU memory.
void host_takes() {
  const HostWindow window;
  MPI_Win_lock_all(0, window.win);
  const unsigned long launches = weft::test::cuda().calls("cuLaunchKernel");
  int64_t nothing = 0;
  expect_class(MPIX_Put_notify(&nothing, 0, MPI_INT64_T, right(), 0, 0, MPI_INT64_T, window.win, 1),
               MPI_SUCCESS, "put_notify");
  expect_class(MPIX_Win_wait_notify(window.win, 1, 1), MPI_SUCCESS, "a notification of a host");
  expect(weft::test::cuda().calls("cuLaunchKernel") == launches, "the host takes without a kernel");
  window.run(1, [&](KernelWindow in_kernel, int) {
    for (int i = 0; i < 2; ++i) expect(in_kernel.notify(Thread(), rank, 0) == Error::none, "notify");
  });
  expect_class(MPIX_Win_wait_notify(window.win, 0, 1), MPI_SUCCESS, "a notification of an own kernel");
  window.run(1, [&](KernelWindow in_kernel, int) {
    expect(in_kernel.notifications(0) == 1, "one is left");
    expect(in_kernel.wait_notify(Thread(), 0) == Error::none, "the other notification");
    expect(in_kernel.notifications(0) == 0, "none is left");
  });
  MPI_Win_unlock_all(window.win);
  MPI_Barrier(MPI_COMM_WORLD);
}

/// A window that MPI has allocated in memory of a kind.
MPI_Win allocate(const char* kind) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_memory_alloc_kinds", kind);
  void* memory = nullptr;
  MPI_Win win = MPI_WIN_NULL;
  expect_class(MPI_Win_allocate(4096, 1, info, MPI_COMM_WORLD, &memory, &win), MPI_SUCCESS, kind);
  MPI_Info_free(&info);
  return win;
}

/// Calls of the driver that wait for kernels, while which it may let calls of other threads wait.
unsigned long calls_that_wait() {
  unsigned long calls = 0;
  for (const char* name : {"cuMemHostUnregister", "cuMemFreeHost", "cuMemFree"})
    calls += weft::test::cuda().calls(name);
  return calls;
}

/// Windows are freed, and made again, while a kernel of this GPU waits for an answer to its request, and so
/// for the reader, which may need the driver.
void free_beside_kernel() {
  HostWindow window;
  auto other = std::make_unique<HostWindow>();
  MPI_Win pinned = allocate("cuda:host"), on_gpu = allocate("cuda:device");
  const unsigned long before = calls_that_wait();
  std::thread kernel;
  std::unique_ptr<weft::test::FullGpu> running;
  std::unique_ptr<EmulatedHandle> handle;
  if (rank == 0) {
    running = std::make_unique<weft::test::FullGpu>(device);
    running->fill();
    weft::test::cuda().kernels(128);
    handle = std::make_unique<EmulatedHandle>(window.handle);
    kernel = std::thread([&] {
      const KernelWindow in_kernel(handle->get());
      sleep_ms(200);  // the other window is being freed
      int64_t value = 0;
      expect(in_kernel.get(Thread(), 1, 0, &value, sizeof value) == Error::none, "get");
      running->end();
    });
  }
  other->free();
  MPI_Win_free(&pinned);
  MPI_Win_free(&on_gpu);
  expect(calls_that_wait() == before, "nothing is freed in the driver while a kernel may wait");
  if (rank == 0) kernel.join();
  running.reset();
  other = std::make_unique<HostWindow>();
  const unsigned long again = calls_that_wait();
  other->free();
  expect(calls_that_wait() == again, "nor while there is a queue");
  window.free();
  expect(calls_that_wait() > again + 3, "the last queue frees all");
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  flushes();
  barriers();
  failed_puts();
  host_takes();
  free_beside_kernel();
  return weft::test::finish(failures);
}
