// SPDX-License-Identifier: BSD-3-Clause
// The last rank is killed while kernels of the others wait for its notification, which never comes: each wait
// ends with an error, and the GPU remains usable. Started with --continue-on-failure by device_kill.py, which
// reads the printed time from the kill to the end of the kernel.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "stream/stream_comm.hpp"

extern "C" const unsigned char weft_fatbin_device_kernels[];

namespace {

using namespace weft::test::enqueued;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  double* killed_at = nullptr;
  MPI_Win times, win;
  MPI_Win_allocate_shared(sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &killed_at, &times);
  MPI_Aint bytes;
  int unit;
  MPI_Win_shared_query(times, ranks - 1, &bytes, &unit, &killed_at);
  Buffer memory(Kind::device, 1 << 20, device), result(Kind::device, 64, device);
  MPI_Win_create(memory.data(), 1 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  void* handle = nullptr;
  expect_class(MPIX_Win_create_notify(win, 1), MPI_SUCCESS, "create_notify");
  expect_class(MPIX_Win_device_handle(win, &handle), MPI_SUCCESS, "device_handle");
  auto& cuda = driver();
  void *module = nullptr, *function = nullptr;
  expect(cuda.cuModuleLoadData(&module, weft_fatbin_device_kernels) == 0, "cuModuleLoadData");
  expect(cuda.cuModuleGetFunction(&function, module, "test_timeout") == 0, "cuModuleGetFunction");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == ranks - 1) {
    usleep(300'000);
    *killed_at = now();
    kill(getpid(), SIGKILL);
  }
  result.write(std::vector<char>(64));
  int words = 0, rounds = 0;
  void* at = result.data();
  void* parameters[] = {&handle, &words, &rounds, &at};
  expect(cuda.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr) == 0, "launch");
  expect(cuda.cuCtxSynchronize() == 0, "cuCtxSynchronize");
  const double seconds = now() - *killed_at;
  long long values[2];
  std::memcpy(values, result.read(0, sizeof values).data(), sizeof values);
  expect(values[1] == 1 && values[0] == 3, "outcome of the wait: " + std::to_string(values[0]));
  int code = 0, of = 0, notification = -1;
  expect_class(MPIX_Win_device_status(win, &code, &of, &notification), MPI_SUCCESS, "device_status");
  int error_class = 0;
  MPI_Error_class(code, &error_class);
  expect(error_class == MPIX_ERR_PROC_FAILED && of == ranks - 1 && notification == 0,
         "status " + std::to_string(code) + " of rank " + std::to_string(of) + ", notification " +
             std::to_string(notification));
  memory.write(pattern(4096, rank, 1));
  expect(memory.read(0, 4096) == pattern(4096, rank, 1), "a copy after the failure");
  if (failures == 0) std::printf("rank %d: the wait ended after %.3f s\n", rank, seconds);
  std::fflush(stdout);
  _exit(failures == 0 ? 0 : 1);  // a job with a dead process cannot be finalised
}
