// SPDX-License-Identifier: BSD-3-Clause
// Trap 2 of a resident kernel: kernels of the application fill both GPUs and end only when messages have
// arrived. Windows of all sizes must get through, and be right.
#include <mpi.h>

#include <cstdio>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;
using weft::test::cuda;

constexpr int kWindow = 40, kRounds = 4;
constexpr size_t kSizes[] = {8, 1000, 65536, 300000, 1 << 20};
int rank = 0, ranks = 0, failures = 0;

void expect(bool good, const char* what, size_t size) {
  if (good) return;
  if (++failures < 20) std::fprintf(stderr, "rank %d: %s, %zu bytes\n", rank, what, size);
}

/// A window each way.
void exchange(const Buffer& out, const Buffer& in, size_t size) {
  MPI_Request requests[2 * kWindow];
  const int count = static_cast<int>(size), peer = 1 - rank;
  for (size_t i = 0; i < kWindow; ++i)
    MPI_Irecv(in.data() + i * size, count, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[i]);
  for (size_t i = 0; i < kWindow; ++i)
    MPI_Isend(out.data() + i * size, count, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[kWindow + i]);
  MPI_Waitall(2 * kWindow, requests, MPI_STATUSES_IGNORE);
}

void test(weft::test::FullGpu& gpu, size_t size, int device) {
  Buffer out(Buffer::Kind::device, kWindow * size, device), in(Buffer::Kind::device, kWindow * size, device);
  exchange(out, in, size);  // mapping waits for kernels, so it comes first
  for (int round = 0; round < kRounds; ++round) {
    const auto seed = [&](int of) { return static_cast<unsigned>(2 * round + of + 1); };
    out.write(weft::test::pattern(kWindow * size, seed(rank)));
    MPI_Barrier(MPI_COMM_WORLD);
    gpu.fill();
    exchange(out, in, size);
    exchange(out, in, size);  // again, behind what the first may have left in its streams
    expect(gpu.full(), "the GPU was not full", size);
    MPI_Barrier(MPI_COMM_WORLD);
    gpu.release();
    expect(in.read() == weft::test::pattern(kWindow * size, seed(1 - rank)), "wrong bytes", size);
    exchange(out, in, size);  // the late launches go by
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

}  // namespace

int main(int argc, char** argv) {
  weft::test::start(argc, argv, rank, ranks);
  const int device = rank % cuda().devices;
  {
    weft::test::FullGpu gpu(device);
    for (size_t size : kSizes) test(gpu, size, device);
  }
  return weft::test::finish(failures);
}
