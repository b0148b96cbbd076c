// SPDX-License-Identifier: BSD-3-Clause
// Allocate, send, free, repeatedly: reused addresses hold other data, no stale data arrive, and neither
// side's memory grows. Usage: device_churn rounds [random]: with memory of random lives, of one message to
// many, so that some of it is mapped by both sides, and messages that come before their receives or after.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;
using weft::test::cuda;

constexpr size_t kSizes[] = {16, 1000, 40'000, 70'000, 300'000};
constexpr unsigned long kMaxGrowthBytes = 8 << 20;  // allowed growth in bytes

int rank = 0, ranks = 0;

/// Current memory of this process: resident, and allocated or mapped on GPUs.
struct Usage {
  unsigned long resident = 0, device = 0;
};

Usage held() {
  Usage now;
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/statm", "r"), std::fclose);
  unsigned long total = 0, resident = 0, shared = 0;
  if (file != nullptr && std::fscanf(file.get(), "%lu %lu %lu", &total, &resident, &shared) == 3)
    now.resident = (resident - shared) * static_cast<unsigned long>(::sysconf(_SC_PAGESIZE));
  if (cuda().emulated()) now.device = cuda().live_bytes();
  return now;
}

/// One exchange between neighbours with short-lived memory. Returns whether the bytes were right.
bool round(int number) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  const auto seed = [&](int of) { return static_cast<unsigned>(number * ranks + of); };
  const size_t size = kSizes[static_cast<size_t>(number) % std::size(kSizes)];
  const int device = rank % cuda().devices;
  Buffer out(Buffer::Kind::device, size, device), in(Buffer::Kind::device, size, device);
  out.write(weft::test::pattern(size, seed(rank)));
  const int count = static_cast<int>(size);
  MPI_Sendrecv(out.data(), count, MPI_BYTE, right, 0, in.data(), count, MPI_BYTE, left, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  return in.read() == weft::test::pattern(size, seed(left));
}

/// A pair of buffers that serves some rounds.
struct Pair {
  std::unique_ptr<Buffer> out, in;
  unsigned rounds = 0;  ///< until it is replaced
};

/// One exchange between neighbours with one of some pairs of buffers of random lives, in a random order of
/// message and receive. All ranks draw the same numbers. Returns whether the bytes were right.
bool random_round(int number, std::mt19937& random, std::vector<Pair>& pairs) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  const auto seed = [&](int of) { return static_cast<unsigned>(number * ranks + of); };
  Pair& pair = pairs[random() % pairs.size()];
  const unsigned life = 1u << random() % 9;
  const size_t size = kSizes[random() % std::size(kSizes)];
  if (pair.rounds-- == 0) {
    pair.rounds = life;
    pair.out.reset(), pair.in.reset();
    pair.out = std::make_unique<Buffer>(Buffer::Kind::device, size, rank % cuda().devices);
    pair.in = std::make_unique<Buffer>(Buffer::Kind::device, size, rank % cuda().devices);
  }
  const int count = static_cast<int>(1 + random() % pair.out->size());
  const bool posted = random() % 2 == 0;
  pair.out->write(weft::test::pattern(static_cast<size_t>(count), seed(rank)));
  MPI_Request request;
  if (posted)
    MPI_Irecv(pair.in->data(), count, MPI_BYTE, left, 0, MPI_COMM_WORLD, &request);
  else
    MPI_Isend(pair.out->data(), count, MPI_BYTE, right, 0, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  if (posted)
    MPI_Send(pair.out->data(), count, MPI_BYTE, right, 0, MPI_COMM_WORLD);
  else
    MPI_Recv(pair.in->data(), count, MPI_BYTE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return pair.in->read(0, static_cast<size_t>(count)) ==
         weft::test::pattern(static_cast<size_t>(count), seed(left));
}

bool grew(const char* what, unsigned long before, unsigned long after) {
  if (after <= before + kMaxGrowthBytes) return false;
  std::fprintf(stderr, "rank %d: %s grew from %lu to %lu bytes\n", rank, what, before, after);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1000;
  weft::test::start(argc, argv, rank, ranks);
  const bool random_lives = argc > 2 && std::strcmp(argv[2], "random") == 0;
  std::mt19937 random(1);
  std::vector<Pair> pairs(4);
  int failures = 0;
  Usage early;
  for (int number = 0; number < rounds; ++number) {
    if (number == rounds / 4) early = held();
    if (random_lives ? random_round(number, random, pairs) : round(number)) continue;
    if (++failures < 10) std::fprintf(stderr, "rank %d: wrong bytes in round %d\n", rank, number);
  }
  const Usage late = held();
  pairs.clear();
  // Sanitizers keep freed memory.
  const bool sanitized = std::getenv("TEST_SANITIZED") != nullptr;
  failures += !sanitized && grew("resident memory", early.resident, late.resident) ? 1 : 0;
  failures += grew("GPU memory", early.device, late.device) ? 1 : 0;
  return weft::test::finish(failures);
}
