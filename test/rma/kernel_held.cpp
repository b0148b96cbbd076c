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

/// Each flush waits for the target, also beside one that is in flight.
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
      const Error flushed =
          thread == 2 ? in_kernel.flush(Thread()) : in_kernel.target(1).flush(Thread());
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

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  flushes();
  barriers();
  return weft::test::finish(failures);
}
