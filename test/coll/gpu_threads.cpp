// SPDX-License-Identifier: BSD-3-Clause
// Threads of a process in concurrent collectives on GPU buffers, each on its own communicator with its own
// rank order. Kernels may start in different orders on different GPUs and must not deadlock.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "device/cuda_test_support.hpp"

namespace {

using weft::test::Buffer;
constexpr int kThreads = 3;

void work(MPI_Comm comm, int device, int number, int calls) {
  weft::test::cuda().cuCtxSetCurrent(weft::test::cuda().primary[static_cast<size_t>(device)]);
  int rank, size;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const size_t counts[] = {1, 7, 1000, 20000};
  Buffer buffer(Buffer::Kind::device, counts[3] * sizeof(int), device);
  for (int i = 0; i < calls; ++i) {
    const size_t n = counts[static_cast<size_t>(i + number) % 4];
    std::vector<char> bytes(n * sizeof(int));
    std::vector<int> values(n, rank + i);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    buffer.write(bytes);
    MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(n), MPI_INT, MPI_SUM, comm);
    const std::vector<char> got = buffer.read(0, bytes.size());
    std::memcpy(values.data(), got.data(), got.size());
    for (const int value : values) {
      if (value == size * (size - 1) / 2 + size * i) continue;
      std::fprintf(stderr, "thread %d, rank %d, call %d: %d is wrong\n", number, rank, i, value);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int device = weft::test::own_device();
  int provided, rank;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (provided != MPI_THREAD_MULTIPLE) return 77;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int calls = argc > 1 ? std::atoi(argv[1]) : 50;
  MPI_Comm comms[kThreads];
  for (int i = 0; i < kThreads; ++i) MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 == 0 ? rank : -rank, &comms[i]);
  std::vector<std::thread> threads;
  // Every rank starts its threads in a different order.
  for (int i = 0; i < kThreads; ++i) {
    const int number = (i + rank) % kThreads;
    threads.emplace_back(work, comms[number], device, number, calls);
  }
  for (std::thread& thread : threads) thread.join();
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  if (rank == 0) std::printf("%d threads, %d calls each\n", kThreads, calls);
  MPI_Finalize();
  return 0;
}
