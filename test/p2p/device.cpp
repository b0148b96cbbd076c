// SPDX-License-Identifier: BSD-3-Clause
// Device buffers of every kind in every pair, contiguous and strided, to a neighbour and to self; receives
// posted early and late; buffers freed and reallocated at the same address. On the emulated driver, and
// unchanged on GPUs. Usage: device [tails], for that part alone
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;
using Kind = Buffer::Kind;

constexpr Kind kKinds[] = {Kind::host, Kind::pinned, Kind::device, Kind::managed, Kind::pool, Kind::mapped};
constexpr size_t kSizes[] = {0, 1, 8, 4096, 65536, 300000, 3000000};
int rank = 0, ranks = 0, failures = 0;

std::vector<char> pattern(size_t n, int from, int salt) {
  std::vector<char> bytes(n);
  for (size_t i = 0; i < n; ++i)
    bytes[i] =
        static_cast<char>(static_cast<size_t>(from) * 31 + i * 7 + (i >> 9) + static_cast<size_t>(salt));
  return bytes;
}

void expect(bool good, const std::string& what) {
  if (good) return;
  if (++failures < 20) std::fprintf(stderr, "rank %d: wrong data: %s\n", rank, what.c_str());
}

std::string describe(Kind from, Kind to, size_t n, const char* how) {
  return "kind " + std::to_string(static_cast<int>(from)) + " to " + std::to_string(static_cast<int>(to)) +
         ", " + std::to_string(n) + " bytes, " + how;
}

// Around the ring (to self when `to_self`), the receive posted before or after the send.
void exchange(Kind from, Kind to, size_t n, bool late, bool to_self) {
  const int device = rank % weft::test::cuda().devices;
  const int right = to_self ? rank : (rank + 1) % ranks, left = to_self ? rank : (rank + ranks - 1) % ranks;
  Buffer out(from, n + 16, device), in(to, n + 16, device);
  out.write(pattern(n + 16, rank, 1));
  in.write(std::vector<char>(n + 16, 0x55));
  MPI_Request requests[2];
  const int count = static_cast<int>(n);
  if (!late) MPI_Irecv(in.data(), count, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[0]);
  if (!late) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Isend(out.data(), count, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[1]);
  if (late) MPI_Barrier(MPI_COMM_WORLD);
  if (late) MPI_Irecv(in.data(), count, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  const auto got = in.read(), wanted = pattern(n, left, 1);
  expect(std::equal(wanted.begin(), wanted.end(), got.begin()),
         describe(from, to, n, late ? "late" : "early"));
  bool untouched = true;
  for (size_t i = n; i < n + 16; ++i) untouched = untouched && got[i] == 0x55;
  expect(untouched, describe(from, to, n, "written past the end"));
}

// The sender sends every other word to every third word of the receiver.
void strided(Kind from, Kind to, int words) {
  const int device = rank % weft::test::cuda().devices;
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  const auto n = static_cast<size_t>(words) * 4;
  Buffer out(from, n * 2, device), in(to, n * 3, device);
  const auto sent = pattern(n * 2, rank, 2), theirs = pattern(n * 2, left, 2);
  out.write(sent);
  in.write(std::vector<char>(n * 3, 0x66));
  MPI_Datatype second, third;
  MPI_Type_vector(words, 1, 2, MPI_INT, &second);
  MPI_Type_vector(words, 1, 3, MPI_INT, &third);
  MPI_Type_commit(&second);
  MPI_Type_commit(&third);
  MPI_Sendrecv(out.data(), 1, second, right, 2, in.data(), 1, third, left, 2, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  const auto got = in.read();
  bool good = true;
  for (size_t w = 0; w < static_cast<size_t>(words); ++w)
    for (size_t b = 0; b < 4; ++b) {
      good = good && got[w * 12 + b] == theirs[w * 8 + b];
      if (w + 1 < static_cast<size_t>(words)) good = good && got[w * 12 + 4 + b] == 0x66;
    }
  expect(good, describe(from, to, n, "strided"));
  MPI_Type_free(&second);
  MPI_Type_free(&third);
}

// Partitions of device memory, split differently on both sides, marked ready in reverse order.
void partitioned(Kind from, Kind to) {
  constexpr size_t kBytes = 240000;
  const int device = rank % weft::test::cuda().devices;
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  Buffer out(from, kBytes, device), in(to, kBytes, device);
  MPI_Request requests[2];
  MPI_Psend_init(out.data(), 6, kBytes / 6, MPI_BYTE, right, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
  MPI_Precv_init(in.data(), 4, kBytes / 4, MPI_BYTE, left, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
  for (int round = 0; round < 2; ++round) {
    out.write(pattern(kBytes, rank, round));
    MPI_Startall(2, requests);
    for (int i = 5; i >= 0; --i) MPI_Pready(i, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(in.read() == pattern(kBytes, left, round), describe(from, to, kBytes, "partitioned"));
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

// Receives posted in bursts of several lengths, waited for in posting order or in reverse.
void rows() {
  const int device = rank % weft::test::cuda().devices;
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  constexpr size_t kEach = 1000;
  int round = 0;
  for (const size_t length : {64, 64, 20, 64, 3, 64, 100}) {
    Buffer out(Kind::device, length * kEach, device), in(Kind::device, length * kEach, device);
    out.write(pattern(length * kEach, rank, ++round));
    std::vector<MPI_Request> requests(2 * length);
    for (size_t i = 0; i < length; ++i)
      MPI_Isend(out.data() + i * kEach, kEach, MPI_BYTE, right, 6, MPI_COMM_WORLD, &requests[length + i]);
    if (round % 2 == 0) MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < length; ++i)
      MPI_Irecv(in.data() + i * kEach, kEach, MPI_BYTE, left, 6, MPI_COMM_WORLD, &requests[i]);
    for (size_t i = 0; i < length; ++i)
      MPI_Wait(&requests[round % 3 == 0 ? length - 1 - i : i], MPI_STATUS_IGNORE);
    MPI_Waitall(static_cast<int>(2 * length), requests.data(), MPI_STATUSES_IGNORE);
    expect(in.read() == pattern(length * kEach, left, round), "burst of " + std::to_string(length));
  }
}

// Staged messages with a short tail: a kernel may write the tail while a copy engine writes the preceding
// bytes.
void tails() {
  constexpr size_t kChunk = 512 << 10;  // WEFT_GPU_STAGING_CHUNK
  const int device = rank % weft::test::cuda().devices;
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  const auto send = [&](const Buffer& from, const Buffer& to, size_t n) {
    const int count = static_cast<int>(n);
    MPI_Sendrecv(from.data(), count, MPI_BYTE, right, 3, to.data(), count, MPI_BYTE, left, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  };
  const Buffer small(Kind::device, 64, device), other(Kind::device, 64, device);
  for (const size_t tail : {8, 1000, 20000}) {
    const size_t n = kChunk + tail;
    Buffer out(Kind::host, n), in(Kind::device, n, device);
    out.write(pattern(n, rank, 6));
    in.write(std::vector<char>(n, 0x55));
    for (int i = 0; i < 20; ++i) send(small, other, 8);  // so that resident kernels are running
    send(out, in, n);
    expect(in.read() == pattern(n, left, 6), describe(Kind::host, Kind::device, n, "with a tail"));
  }
}

// TEST_RESIDENT_KERNEL=1: the resident kernel serves small messages on a GPU that ranks share under MPS; 0:
// without MPS it does not run.
void resident_kernel_on_shared_gpu(bool wanted) {
  const Buffer from(Kind::device, 64, 0), to(Kind::device, 64, 0);
  const int peer = rank ^ 1;
  // On busy cores instances end before their commands, and for a while none is started any more.
  constexpr double kLimit = 20;
  const double begin = MPI_Wtime();
  unsigned long all[] = {0, 1};  // fewest commands of a rank; whether every rank has time left
  for (int burst = 0; (wanted ? all[1] != 0 : burst < 20) && all[0] == 0; ++burst) {
    for (int i = 0; i < 20; ++i)
      MPI_Sendrecv(from.data(), 8, MPI_BYTE, peer, 4, to.data(), 8, MPI_BYTE, peer, 4, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
    const unsigned long own[] = {weft::test::cuda().resident_kernel_commands(), MPI_Wtime() - begin < kLimit};
    MPI_Allreduce(own, all, 2, MPI_UNSIGNED_LONG, MPI_MIN, MPI_COMM_WORLD);
  }
  expect((all[0] != 0) == wanted, std::to_string(all[0]) + " commands of the resident kernel");
}

// The address of a freed allocation is reused with other data: no mapping may survive.
void reuse() {
  const int device = rank % weft::test::cuda().devices;
  for (int round = 0; round < 20; ++round) {
    const size_t n = 100000 + static_cast<size_t>(round % 3) * 4096;
    Buffer out(Kind::device, n, device), in(Kind::device, n, device);
    out.write(pattern(n, rank, round));
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    MPI_Sendrecv(out.data(), static_cast<int>(n), MPI_BYTE, right, 3, in.data(), static_cast<int>(n),
                 MPI_BYTE, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(in.read() == pattern(n, left, round), "reused address, round " + std::to_string(round));
  }
}

// A window of concurrent messages.
void window() {
  constexpr int kWindow = 40;
  const int device = rank % weft::test::cuda().devices;
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  const size_t n = 20000;
  Buffer out(Kind::device, n * kWindow, device), in(Kind::device, n * kWindow, device);
  out.write(pattern(n * kWindow, rank, 4));
  std::vector<MPI_Request> requests;
  for (int i = 0; i < kWindow; ++i)
    MPI_Irecv(in.data() + i * n, static_cast<int>(n), MPI_BYTE, left, i, MPI_COMM_WORLD,
              &requests.emplace_back());
  for (int i = kWindow - 1; i >= 0; --i)
    MPI_Isend(out.data() + i * n, static_cast<int>(n), MPI_BYTE, right, i, MPI_COMM_WORLD,
              &requests.emplace_back());
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  expect(in.read() == pattern(n * kWindow, left, 4), "window");
}

// A buffer is classified once for all concurrently active requests of its allocation, and again when none is
// active.
void witnesses() {
  constexpr int kWindow = 40;
  const int device = rank % weft::test::cuda().devices;
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  const size_t n = 3000;
  const auto queries = [] {
    const auto& cuda = weft::test::cuda();
    return cuda.calls != nullptr ? cuda.calls("cuPointerGetAttributes") : 0;
  };
  Buffer out(Kind::device, n * kWindow, device), in(Kind::device, n * kWindow, device);
  out.write(pattern(n * kWindow, rank, 5));
  for (int round = 0; round < 2; ++round) {
    std::vector<MPI_Request> requests(kWindow);
    const unsigned long before = queries();
    for (size_t i = 0; i < kWindow; ++i)
      MPI_Irecv(in.data() + i * n, n, MPI_BYTE, left, static_cast<int>(i), MPI_COMM_WORLD, &requests[i]);
    const unsigned long after = queries();
    expect(!weft::test::cuda().emulated() || after == before + 1,
           "queried the memory kind " + std::to_string(after - before) + " times");
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < kWindow; ++i)
      MPI_Send(out.data() + i * n, n, MPI_BYTE, right, static_cast<int>(i), MPI_COMM_WORLD);
    MPI_Waitall(kWindow, requests.data(), MPI_STATUSES_IGNORE);
    expect(in.read() == pattern(n * kWindow, left, 5), "receives of one allocation");
  }
}

void collectives() {
  const int device = rank % weft::test::cuda().devices;
  constexpr size_t kWords = 5000;
  Buffer in(Kind::device, kWords * 4, device), out(Kind::device, kWords * 4, device);
  std::vector<char> bytes(kWords * 4);
  for (size_t i = 0; i < kWords; ++i) reinterpret_cast<int*>(bytes.data())[i] = rank + static_cast<int>(i);
  in.write(bytes);
  MPI_Allreduce(in.data(), out.data(), kWords, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  auto got = out.read();
  bool good = true;
  for (size_t i = 0; i < kWords; ++i)
    good = good && reinterpret_cast<const int*>(got.data())[i] ==
                       ranks * (ranks - 1) / 2 + ranks * static_cast<int>(i);
  expect(good, "allreduce on device memory");
  MPI_Bcast(in.data(), kWords, MPI_INT, ranks - 1, MPI_COMM_WORLD);
  got = in.read();
  good = true;
  for (size_t i = 0; i < kWords; ++i)
    good = good && reinterpret_cast<const int*>(got.data())[i] == ranks - 1 + static_cast<int>(i);
  expect(good, "broadcast on device memory");
}

}  // namespace

int main(int argc, char** argv) {
  (void)weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  tails();
  if (const char* wanted = std::getenv("TEST_RESIDENT_KERNEL")) resident_kernel_on_shared_gpu(*wanted == '1');
  if (argc > 1 && std::string(argv[1]) == "tails") return weft::test::finish(failures);
  for (Kind from : kKinds)
    for (Kind to : kKinds) {
      // device_traffic combines managed and pinned memory with mapped memory.
      const Kind other = from == Kind::mapped ? to : from;
      if ((from == Kind::mapped || to == Kind::mapped) && (other == Kind::managed || other == Kind::pinned))
        continue;
      for (size_t n : kSizes) {
        exchange(from, to, n, false, false);
        exchange(from, to, n, true, n == 4096);
      }
      strided(from, to, 1);
      strided(from, to, 300);
      partitioned(from, to);
    }
  rows();
  reuse();
  window();
  witnesses();
  collectives();
  return weft::test::finish(failures);
}
