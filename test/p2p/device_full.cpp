// SPDX-License-Identifier: BSD-3-Clause
// Deadlock test for kernels of the library: kernels of the application occupy both GPUs completely and end
// only when messages have arrived. Windows of all sizes must complete correctly, also strided ones and pool
// memory.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;

constexpr int kWindow = 40, kRounds = 4;
constexpr size_t kSizes[] = {8, 1000, 65536, 300000, 1 << 20};
int rank = 0, ranks = 0, failures = 0;

void expect(bool good, const char* what, size_t size) {
  if (good) return;
  if (++failures < 20) std::fprintf(stderr, "rank %d: %s, %zu bytes\n", rank, what, size);
}

/// A window in each direction.
void exchange(const Buffer& out, const Buffer& in, size_t size) {
  MPI_Request requests[2 * kWindow];
  const int count = static_cast<int>(size), peer = 1 - rank;
  for (size_t i = 0; i < kWindow; ++i)
    MPI_Irecv(in.data() + i * size, count, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[i]);
  for (size_t i = 0; i < kWindow; ++i)
    MPI_Isend(out.data() + i * size, count, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[kWindow + i]);
  MPI_Waitall(2 * kWindow, requests, MPI_STATUSES_IGNORE);
}

void test(weft::test::FullGpu& gpu, size_t size, int device, Buffer::Kind kind) {
  Buffer out(kind, kWindow * size, device), in(kind, kWindow * size, device);
  exchange(out, in, size);  // maps the buffers first, since mapping waits for kernels
  for (int round = 0; round < kRounds; ++round) {
    const auto seed = [&](int of) { return static_cast<unsigned>(2 * round + of + 1); };
    out.write(weft::test::pattern(kWindow * size, seed(rank)));
    MPI_Barrier(MPI_COMM_WORLD);
    gpu.fill();
    exchange(out, in, size);
    exchange(out, in, size);  // again, behind leftovers of the first exchange in its streams
    expect(gpu.full(), "the GPU was not full", size);
    MPI_Barrier(MPI_COMM_WORLD);
    gpu.release();
    expect(in.read() == weft::test::pattern(kWindow * size, seed(1 - rank)), "wrong bytes", size);
    exchange(out, in, size);  // lets cancelled launches pass
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// Memory that was exchanged and freed is unmapped by its peer, which must not wait for the kernel.
void test_freed(weft::test::FullGpu& gpu, int device) {
  constexpr size_t kSize = 8;
  constexpr int kExchanges = 15;  // of 40 sends; freed memory is looked for every 512 sends
  Buffer out(Buffer::Kind::device, kWindow * kSize, device),
      in(Buffer::Kind::device, kWindow * kSize, device);
  exchange(out, in, kSize);
  {
    const Buffer freed(Buffer::Kind::device, kWindow * kSize, device);
    exchange(freed, in, kSize);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  gpu.fill();
  for (int i = 0; i < kExchanges; ++i) exchange(out, in, kSize);
  expect(gpu.full(), "the GPU was not full", kSize);
  MPI_Barrier(MPI_COMM_WORLD);
  gpu.release();
}

/// Blocks with gaps: long runs are read directly, short runs are packed first (with
/// WEFT_GPU_STRIDED_OVERHEAD=0).
struct Layout {
  int blocks, length, stride;
};
constexpr Layout kLayouts[] = {{300, 1024, 2048}, {3000, 8, 64}};

constexpr size_t kMessages = 12;  // more than concurrent pack kernels

/// A window of strided messages in each direction.
void exchange_strided(const Buffer& out, const Buffer& in, MPI_Datatype type, size_t extent) {
  MPI_Request requests[2 * kMessages];
  for (size_t i = 0; i < kMessages; ++i)
    MPI_Irecv(in.data() + i * extent, 1, type, 1 - rank, 1, MPI_COMM_WORLD, &requests[i]);
  for (size_t i = 0; i < kMessages; ++i)
    MPI_Isend(out.data(), 1, type, 1 - rank, 1, MPI_COMM_WORLD, &requests[kMessages + i]);
  MPI_Waitall(2 * kMessages, requests, MPI_STATUSES_IGNORE);
}

void test_strided(weft::test::FullGpu& gpu, const Layout& layout, int device) {
  const size_t extent = static_cast<size_t>(layout.blocks) * static_cast<size_t>(layout.stride);
  Buffer out(Buffer::Kind::device, extent, device), in(Buffer::Kind::device, kMessages * extent, device);
  MPI_Datatype type;
  MPI_Type_vector(layout.blocks, layout.length, layout.stride, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  exchange_strided(out, in, type, extent);
  for (unsigned round = 0; round < 2; ++round) {
    const auto untouched = weft::test::pattern(kMessages * extent, 77);
    in.write(untouched);
    out.write(weft::test::pattern(extent, 2 * round + static_cast<unsigned>(rank)));
    MPI_Barrier(MPI_COMM_WORLD);
    gpu.fill();
    exchange_strided(out, in, type, extent);
    expect(gpu.full(), "the GPU was not full, blocks of", static_cast<size_t>(layout.length));
    MPI_Barrier(MPI_COMM_WORLD);
    gpu.release();
    const auto sent = weft::test::pattern(extent, 2 * round + static_cast<unsigned>(1 - rank));
    auto expected = untouched;
    for (size_t copy = 0; copy < kMessages; ++copy)
      for (size_t at = 0; at < extent; at += static_cast<size_t>(layout.stride))
        std::copy_n(sent.begin() + static_cast<long>(at), layout.length,
                    expected.begin() + static_cast<long>(copy * extent + at));
    expect(in.read() == expected, "wrong bytes, blocks of", static_cast<size_t>(layout.length));
    exchange_strided(out, in, type, extent);  // lets cancelled launches pass
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Type_free(&type);
}

}  // namespace

int main(int argc, char** argv) {
  const int device = weft::test::own_device();  // a kernel that fills a GPU would stop the other rank there
  weft::test::start(argc, argv, rank, ranks);
  {
    weft::test::FullGpu gpu(device);
    for (size_t size : kSizes) test(gpu, size, device, Buffer::Kind::device);
    for (size_t size : {8, 65536, 300000}) test(gpu, size, device, Buffer::Kind::pool);
    test_freed(gpu, device);
    for (const Layout& layout : kLayouts) test_strided(gpu, layout, device);
  }
  return weft::test::finish(failures);
}
