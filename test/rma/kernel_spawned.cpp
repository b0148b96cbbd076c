// SPDX-License-Identifier: BSD-3-Clause
// Windows of two jobs, one of which has spawned the other, in kernels: puts, notifications, atomic
// operations, gets, barriers on two windows at once. Then the last rank is killed while kernels of all others
// wait for a notification: the waits end and name the rank. On the emulated driver, on one host or several;
// started with
// --continue-on-failure.
#include <mpi-ext.h>
#include <signal.h>
#include <unistd.h>

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

constexpr size_t kBytes = 256 << 10, kCounter = kBytes - sizeof(int64_t), kPart = 33333;
constexpr int kChildren = 2;

class SpawnedWindow {
 public:
  explicit SpawnedWindow(MPI_Comm comm) : memory_(Kind::device, kBytes, device) {
    memory_.write(std::vector<char>(kBytes));
    MPI_Win_create(memory_.data(), kBytes, 1, MPI_INFO_NULL, comm, &win_);
    MPI_Win_set_errhandler(win_, MPI_ERRORS_RETURN);
    expect_class(MPIX_Win_create_notify(win_, 2), MPI_SUCCESS, "create_notify");
    expect_class(MPIX_Win_device_handle(win_, &handle_), MPI_SUCCESS, "device_handle");
  }
  [[nodiscard]] MPI_Win win() const { return win_; }
  [[nodiscard]] const void* handle() const { return handle_; }

 private:
  Buffer memory_;
  MPI_Win win_ = MPI_WIN_NULL;
  void* handle_ = nullptr;
};

/// Each rank puts to all others, at addresses of any alignment.
void exchange(KernelWindow window) {
  const int self = window.rank(), others = window.size() - 1;
  const auto at = [](int from) { return static_cast<uint64_t>(from) * (kPart + 1) + 1; };
  const std::vector<char> data(kPart, static_cast<char>(self + 1));
  for (int to = 0; to < window.size(); ++to) {
    if (to == self) continue;
    const auto target = window.target(to);
    expect(target.put(Thread(), kBytes, data.data(), 0) == Error::none, "put of nothing");
    expect(target.put_notify(Thread(), at(self), data.data(), kPart, 0) == Error::none, "put_notify");
    (void)target.atomic_add<int64_t>(kCounter, 1);
  }
  expect(window.wait_notify(Thread(), 0, static_cast<uint64_t>(others)) == Error::none, "wait_notify");
  expect(window.barrier(Thread()) == Error::none, "barrier");
  for (int of = 0; of < window.size(); ++of) {
    if (of == self) continue;
    int64_t count = 0;
    std::vector<char> found(kPart);
    const int from = (of + 1) % window.size();
    expect(window.get(Thread(), of, kCounter, &count, sizeof count) == Error::none, "get of the counter");
    expect(count == others, "atomic operations: " + std::to_string(count));
    expect(window.get(Thread(), of, at(from), found.data(), kPart) == Error::none, "get");
    expect(found == std::vector<char>(kPart, static_cast<char>(from + 1)), "data of " + std::to_string(from));
  }
  expect(window.flush(Thread()) == Error::none, "flush");
}

void run(const SpawnedWindow& window, void (*kernel)(KernelWindow)) {
  const EmulatedHandle emulated(window.handle());
  std::thread([&] { kernel(KernelWindow(emulated.get())); }).join();
}

void expect_end(KernelWindow window) {
  expect(window.wait_notify(Thread(), 1) == Error::failed, "wait for a process that has been killed");
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm parent, between, all;
  MPI_Comm_get_parent(&parent);
  between = parent;
  if (parent == MPI_COMM_NULL)
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, kChildren, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between,
                   MPI_ERRCODES_IGNORE);
  MPI_Intercomm_merge(between, parent != MPI_COMM_NULL, &all);
  MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &ranks);
  const SpawnedWindow first(all), second(all);
  std::thread beside([&] { run(second, exchange); });
  run(first, exchange);
  beside.join();
  MPI_Barrier(all);
  if (rank == ranks - 1) kill(getpid(), SIGKILL);
  run(first, expect_end);
  int code = 0, of = 0, notification = -1;
  expect_class(MPIX_Win_device_status(first.win(), &code, &of, &notification), MPI_SUCCESS, "device_status");
  expect(code == MPIX_ERR_PROC_FAILED && of == ranks - 1,
         "status " + std::to_string(code) + " of rank " + std::to_string(of));
  if (failures == 0) std::printf("the wait ended\n");
  std::fflush(stdout);
  for (int other = 0; other < ranks - 1; ++other)  // the others shall not name this process
    if (other != rank)
      MPI_Sendrecv(nullptr, 0, MPI_BYTE, other, 0, nullptr, 0, MPI_BYTE, other, 0, all, MPI_STATUS_IGNORE);
  _exit(failures == 0 ? 0 : 1);
}
