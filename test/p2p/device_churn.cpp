// SPDX-License-Identifier: BSD-3-Clause
// Allocate, send, free, repeatedly: reused addresses hold other data, no stale data arrive, and neither
// side's memory grows. Usage: device_churn rounds
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
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

bool grew(const char* what, unsigned long before, unsigned long after) {
  if (after <= before + kMaxGrowthBytes) return false;
  std::fprintf(stderr, "rank %d: %s grew from %lu to %lu bytes\n", rank, what, before, after);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1000;
  weft::test::start(argc, argv, rank, ranks);
  int failures = 0;
  Usage early;
  for (int number = 0; number < rounds; ++number) {
    if (number == rounds / 4) early = held();
    if (round(number)) continue;
    if (++failures < 10) std::fprintf(stderr, "rank %d: wrong bytes in round %d\n", rank, number);
  }
  const Usage late = held();
  failures += grew("resident memory", early.resident, late.resident) ? 1 : 0;
  failures += grew("GPU memory", early.device, late.device) ? 1 : 0;
  return weft::test::finish(failures);
}
