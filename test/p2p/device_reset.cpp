// SPDX-License-Identifier: BSD-3-Clause
// A program resets its GPU after messages and goes on with memory of its own, which takes the addresses that
// the library had: MPI_Finalize leaves this memory, and all that the program has in the new context, as it
// is. Usage: device_reset
//   device_reset early one|all: rank 1 or all ranks reset their GPUs before their first messages, which find
//   nothing of what MPI_Init has allocated, loaded and mapped (ADR 0064)
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;
using weft::test::cuda;

int rank = 0, ranks = 0;

void exchange(int device, size_t bytes) {
  Buffer out(Buffer::Kind::device, bytes, device), in(Buffer::Kind::device, bytes, device);
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, count = static_cast<int>(bytes);
  out.write(weft::test::pattern(bytes, static_cast<unsigned>(rank)));
  MPI_Sendrecv(out.data(), count, MPI_BYTE, right, 0, in.data(), count, MPI_BYTE, left, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  EXPECT_EQ(in.read(), weft::test::pattern(bytes, static_cast<unsigned>(left)));
  MPI_Allreduce(out.data(), in.data(), count / 4, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
}

void reset(int device) {
  weft::test::Context& context = cuda().primary[static_cast<size_t>(device)];
  ASSERT_EQ(cuda().cuDevicePrimaryCtxReset_v2(device), 0);
  ASSERT_EQ(cuda().cuDevicePrimaryCtxRetain(&context, device), 0);
  ASSERT_EQ(cuda().cuCtxSetCurrent(context), 0);
}

/// Memory of the program of all sizes that the library allocates.
std::vector<std::unique_ptr<Buffer>> allocate(int device) {
  std::vector<std::unique_ptr<Buffer>> all;
  for (const Buffer::Kind kind : {Buffer::Kind::device, Buffer::Kind::pinned})
    for (const size_t bytes : {size_t{24} << 20, size_t{17} << 20, size_t{2} << 20, size_t{2} << 20,
                               size_t{1} << 20, size_t{64} << 10, size_t{64} << 10, size_t{4} << 10}) {
      all.push_back(std::make_unique<Buffer>(kind, bytes, device));
      all.back()->write(weft::test::pattern(bytes, static_cast<unsigned>(all.size())));
    }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const bool early = argc > 2 && std::strcmp(argv[1], "early") == 0;
  const char* const local = std::getenv("LOCAL_RANK");
  if (early && local != nullptr)
    cuda().cuCtxSetCurrent(cuda().primary[static_cast<size_t>(std::atoi(local) % cuda().devices)]);
  weft::test::start(argc, argv, rank, ranks);
  const int device = rank % cuda().devices;
  if (early && (rank == 1 || std::strcmp(argv[2], "all") == 0)) reset(device);
  for (const size_t bytes : {size_t{64}, size_t{100'000}, size_t{2'000'000}}) exchange(device, bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  reset(device);
  const std::vector<std::unique_ptr<Buffer>> all = allocate(device);
  const int failed = weft::test::finish(0);
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i]->read(), weft::test::pattern(all[i]->size(), static_cast<unsigned>(i + 1))) << i;
  return failed != 0 || testing::Test::HasFailure() ? 1 : 0;
}
