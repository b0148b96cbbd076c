// SPDX-License-Identifier: BSD-3-Clause
// Ranks that share a GPU without MPS: once they have exchanged messages, further ones of up to 2 MiB, copies
// of a rank to itself, accesses to windows and reductions cause no work of the GPU's compute engine, which
// would wait for a switch of the GPU between the processes. On the emulated driver, which counts such work.
// Usage: device_time_sliced [mps], with MPS, where they do
#include <dlfcn.h>
#include <mpi.h>
#include <weft.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;
using Kind = Buffer::Kind;

constexpr size_t kMaxBytes = size_t{2} << 20;  // of copies that take less time through host memory
constexpr size_t kGuard = 16;
// Without 1: a single byte is not copied by a copy engine.
constexpr size_t kSizes[] = {2,     3,     8,     255,   4096,   16384,   16385,    32767,
                             40001, 65535, 65536, 65537, 524289, 1 << 20, kMaxBytes};
int rank = 0, ranks = 0, failures = 0;

void expect(bool good, const std::string& what) {
  if (good) return;
  if (++failures < 20) std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

/// Copies and kernels by Weft that need the compute engine.
unsigned long compute_work() {
  static const auto copies = reinterpret_cast<unsigned long (*)()>(
      ::dlsym(::dlopen(std::getenv("WEFT_CUDA_DRIVER"), RTLD_NOW), "emucuda_compute_engine_copies"));
  return copies() + weft::test::cuda().calls("cuLaunchKernel") + weft::test::cuda().calls("cuGraphLaunch");
}

long counter(const char* name) {
  std::vector<char> text(1 << 16);
  MPIX_Counters(text.data(), static_cast<int>(text.size()), nullptr);
  const std::string line = std::string(name) + "\t";
  const char* at = std::strstr(text.data(), line.c_str());
  return at != nullptr ? std::atol(at + line.size()) : -1;
}

std::vector<char> pattern(size_t n, int from, int salt) {
  std::vector<char> bytes(n);
  for (size_t i = 0; i < n; ++i)
    bytes[i] =
        static_cast<char>(static_cast<size_t>(from) * 31 + i * 7 + (i >> 9) + static_cast<size_t>(salt) * 13);
  return bytes;
}

// Every rank sends to the rank `distance` above it. The buffers begin at an odd address.
void exchange(Kind to, size_t n, int distance, bool late) {
  const int above = (rank + distance) % ranks, below = (rank + ranks - distance) % ranks;
  const int salt = static_cast<int>(n) + distance, count = static_cast<int>(n);
  Buffer out(Kind::device, n + 1), in(to, n + 1 + kGuard);
  out.write(pattern(n, rank, salt), 1);
  in.write(std::vector<char>(n + 1 + kGuard, 0x55));
  MPI_Request requests[2];
  if (!late) MPI_Irecv(in.data() + 1, count, MPI_BYTE, below, 1, MPI_COMM_WORLD, &requests[0]);
  if (!late) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Isend(out.data() + 1, count, MPI_BYTE, above, 1, MPI_COMM_WORLD, &requests[1]);
  if (late) MPI_Barrier(MPI_COMM_WORLD);
  if (late) MPI_Irecv(in.data() + 1, count, MPI_BYTE, below, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  std::vector<char> wanted = pattern(n, below, salt);
  wanted.insert(wanted.begin(), 0x55);
  wanted.insert(wanted.end(), kGuard, 0x55);
  expect(in.read() == wanted, "wrong data: " + std::to_string(n) + " bytes from rank " +
                                  std::to_string(below) + (late ? ", late" : ", early"));
}

void exchange_all(size_t n) {
  for (int distance = 0; distance < ranks; ++distance)
    for (const bool late : {false, true}) exchange(Kind::device, n, distance, late);
}

// Every rank puts its pattern into the window of the rank above it, and gets that of the rank below it.
void window(size_t n) {
  const int above = (rank + 1) % ranks, below = (rank + ranks - 1) % ranks, count = static_cast<int>(n);
  Buffer own(Kind::device, 2 * n), got(Kind::device, n);
  std::vector<char> mine = pattern(n, rank, 5);
  own.write(mine, n);
  MPI_Win win;
  MPI_Win_create(own.data(), static_cast<MPI_Aint>(2 * n), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_fence(0, win);
  MPI_Put(own.data() + n, count, MPI_BYTE, above, 0, count, MPI_BYTE, win);
  MPI_Get(got.data(), count, MPI_BYTE, below, static_cast<MPI_Aint>(n), count, MPI_BYTE, win);
  MPI_Win_fence(0, win);
  expect(own.read(0, n) == pattern(n, below, 5), "wrong data of a put");
  expect(got.read() == pattern(n, below, 5), "wrong data of a get");
  MPI_Win_free(&win);
}

// The sum of the vectors of all ranks, on all ranks or at the root.
void reduce(int count, bool in_place, bool to_root) {
  const auto n = static_cast<size_t>(count) * sizeof(int64_t);
  Buffer in(Kind::device, n), out(Kind::device, n);
  std::vector<int64_t> own(static_cast<size_t>(count)), sums(own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    own[i] = static_cast<int64_t>(i) * (rank + 1);
    sums[i] = static_cast<int64_t>(i) * ranks * (ranks + 1) / 2;
  }
  const auto* const bytes = reinterpret_cast<const char*>(own.data());
  in.write({bytes, bytes + n});
  const int root = ranks - 1;
  if (to_root)
    MPI_Reduce(in.data(), out.data(), count, MPI_INT64_T, MPI_SUM, root, MPI_COMM_WORLD);
  else
    MPI_Allreduce(in_place ? MPI_IN_PLACE : in.data(), in_place ? in.data() : out.data(), count, MPI_INT64_T,
                  MPI_SUM, MPI_COMM_WORLD);
  if (to_root && rank != root) return;
  const std::vector<char> got = (in_place ? in : out).read();
  expect(std::memcmp(got.data(), sums.data(), n) == 0, "wrong sums of " + std::to_string(count));
}

// Sums of doubles whose bits depend on the order of the terms: rank order above 16 KiB, as by kernels. It
// differs from the tree for four and more ranks.
void rank_order() {
  constexpr size_t kCount = 4099, n = kCount * sizeof(double);
  const auto term = [](int of, size_t i) {
    return (of % 2 == 0 ? 1e16 : -1e16) + static_cast<double>((static_cast<size_t>(of) * 7 + i) % 13) / 3;
  };
  std::vector<double> own(kCount), sums(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    own[i] = term(rank, i) / (rank + 1);
    sums[i] = term(0, i);
    for (int of = 1; of < ranks; ++of) sums[i] += term(of, i) / (of + 1);
  }
  Buffer in(Kind::device, n), out(Kind::device, n);
  const auto* const bytes = reinterpret_cast<const char*>(own.data());
  in.write({bytes, bytes + n});
  MPI_Allreduce(in.data(), out.data(), static_cast<int>(kCount), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  expect(std::memcmp(out.read().data(), sums.data(), n) == 0, "a sum is not in rank order");
}

// Copies that are submitted together: one put of `rows` rows of `bytes` bytes.
void put_rows(int rows, int bytes) {
  const auto n = static_cast<size_t>(rows) * static_cast<size_t>(bytes);
  const int above = (rank + 1) % ranks, below = (rank + ranks - 1) % ranks;
  Buffer own(Kind::device, 2 * n), from(Kind::device, n);
  own.write(std::vector<char>(2 * n, 0x55));
  from.write(pattern(n, rank, rows));
  MPI_Datatype type;
  MPI_Type_vector(rows, bytes, 2 * bytes, MPI_BYTE, &type);
  MPI_Type_commit(&type);
  MPI_Win win;
  MPI_Win_create(own.data(), static_cast<MPI_Aint>(2 * n), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_fence(0, win);
  MPI_Put(from.data(), static_cast<int>(n), MPI_BYTE, above, 0, 1, type, win);
  MPI_Win_fence(0, win);
  const std::vector<char> sent = pattern(n, below, rows);
  std::vector<char> wanted(2 * n, 0x55);
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row)
    std::memcpy(&wanted[row * 2 * static_cast<size_t>(bytes)], &sent[row * static_cast<size_t>(bytes)],
                static_cast<size_t>(bytes));
  expect(own.read() == wanted, "wrong data of a put of " + std::to_string(rows) + " rows");
  MPI_Win_free(&win);
  MPI_Type_free(&type);
}

void reductions() {
  for (const int count : {1, 2, 33, 1000, 8192, 30000})
    for (const bool in_place : {false, true}) reduce(count, in_place, false);
  for (const int count : {1, 8192}) reduce(count, false, true);
  rank_order();
}

}  // namespace

int main(int argc, char** argv) {
  (void)weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  const bool side_by_side = argc > 1 && std::string(argv[1]) == "mps";

  for (int round = 0; round < 2; ++round) exchange_all(8);
  reduce(1, false, false);
  MPI_Barrier(MPI_COMM_WORLD);
  const long staged = counter("gpu.time_sliced");
  unsigned long before = compute_work();
  for (const size_t n : kSizes) exchange_all(n);
  expect((compute_work() == before) != side_by_side,
         std::to_string(compute_work() - before) + " operations of the compute engine for messages");
  expect((counter("gpu.time_sliced") == staged) == side_by_side, "the slow path is not counted");

  before = compute_work();
  for (const size_t n : {size_t{8}, size_t{70000}}) window(n);
  expect((compute_work() == before) != side_by_side,
         std::to_string(compute_work() - before) + " operations of the compute engine for a window");

  before = compute_work();
  reductions();
  expect((compute_work() == before) != side_by_side,
         std::to_string(compute_work() - before) + " operations of the compute engine for reductions");

  for (const int rows : {3, 17, 200}) put_rows(rows, 40000);
  exchange_all(1);
  exchange(Kind::host, 100, 1, false);
  before = compute_work();
  exchange_all(kMaxBytes + 1);
  expect(compute_work() != before, "large messages are not copied inside the GPU");
  return weft::test::finish(failures);
}
