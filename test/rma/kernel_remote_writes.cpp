// SPDX-License-Identifier: BSD-3-Clause
// Data that a network adapter writes into GPU memory (GPUDirect RDMA), and the signals behind them, on an
// emulated device that does not order the two: the data are visible when a kernel sees the signal. Each rank
// plays the adapter in its own memory, before a signal or a get of another host.
// usage: kernel_remote_writes (flush|ordered|unordered)
#include <cstring>
#include <string>

#include "rma/host_window.hpp"

namespace {

using namespace weft::test::enqueued;
using weft::device::Error;
using weft::device::Thread;

unsigned long flushes() { return weft::test::cuda().calls("cuFlushGPUDirectRDMAWrites"); }

/// The adapter of this rank writes a word into GPU memory.
void remote_write(void* address, int64_t value) {
  expect(weft::test::cuda().remote_write(reinterpret_cast<unsigned long>(address), &value, sizeof value) != 0,
         "an adapter writes GPU memory");
}

struct Signals {
  HostWindow window;
  int64_t round = 0;
  const bool flush;

  /// Rank 1 has data of an adapter when rank 0 signals; rank 1 waits for the signal and finds the data.
  template <class Signal, class Wait>
  void expect_data(const std::string& name, Signal&& signal, Wait&& wait) {
    ++round;
    const unsigned long before = flushes();
    if (rank == 1) remote_write(window.memory.data(), round);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) signal();
    if (rank == 1) {
      wait();
      expect(window.words()[0] == round, "data before " + name);
      expect((flushes() != before) == flush, "a flush at " + name);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  void in_kernel(const std::function<Error(KernelWindow)>& body) const {
    window.run(1, [&](KernelWindow kernel, int) { expect(body(kernel) == Error::none, "a kernel"); });
  }
};

void all_signals(bool flush) {
  Signals signals{.window = HostWindow(), .flush = flush};
  const auto wait = [&] { signals.in_kernel([](KernelWindow w) { return w.wait_notify(Thread(), 1); }); };
  signals.expect_data(
      "notify", [&] { signals.in_kernel([](KernelWindow w) { return w.notify(Thread(), 1, 1); }); }, wait);
  signals.expect_data(
      "put_notify",
      [&] {
        signals.in_kernel([](KernelWindow w) {
          const int64_t value = 5;
          return w.target(1).put_notify(Thread(), 3, &value, sizeof value, 1);
        });
      },
      wait);
  signals.expect_data(
      "MPIX_Put_notify",
      [&] {
        int64_t nothing = 0;
        MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, signals.window.win);
        expect_class(MPIX_Put_notify(&nothing, 0, MPI_INT64_T, 1, 0, 0, MPI_INT64_T, signals.window.win, 1),
                     MPI_SUCCESS, "put_notify");
        MPI_Win_unlock(1, signals.window.win);
      },
      wait);
  const auto barrier = [&] { signals.in_kernel([](KernelWindow w) { return w.barrier(Thread()); }); };
  signals.expect_data("a barrier", barrier, barrier);

  // A get of another host into GPU memory, whose result an adapter writes.
  Buffer result(Kind::device, 4096, device);
  auto* const words =
      static_cast<int64_t*>(EmulatedHandle::alias(reinterpret_cast<uint64_t>(result.data()), result.size()));
  const unsigned long before = flushes();
  if (rank == 1) {
    remote_write(result.data() + 2048, 99);
    signals.in_kernel([&](KernelWindow w) { return w.target(0).get(Thread(), 0, result.data(), 2048); });
    expect(words[2048 / sizeof(int64_t)] == 99, "data before the end of a get");
    expect((flushes() != before) == flush, "a flush at a get");
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/// Without a flush there is no handle for kernels.
void no_handle() {
  Buffer memory(Kind::device, 4096, device);
  MPI_Win win;
  MPI_Win_create(memory.data(), 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  void* handle = nullptr;
  expect_class(MPIX_Win_create_notify(win, 1), MPI_SUCCESS, "create_notify");
  expect_class(MPIX_Win_device_handle(win, &handle), MPI_ERR_UNSUPPORTED_OPERATION, "device_handle");
  expect_class(MPI_Win_free(&win), MPI_SUCCESS, "free");
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "unordered")
    no_handle();
  else
    all_signals(mode == "flush");
  return weft::test::finish(failures);
}
