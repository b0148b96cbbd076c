// SPDX-License-Identifier: BSD-3-Clause
// Payload that looks like record headers of an SPSC ring (src/transport/shm/layout.hpp), for every wrap of
// the ring: stale payload must never be taken for a message.
#include <stdint.h>
#include <stdlib.h>

#include "../core/expect.h"

enum { RING = 64 << 10, LARGEST = 8 << 10, LAPS = 400 };

static uint64_t state;

static uint32_t random_below(uint32_t n) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (uint32_t)(state >> 33) % n;
}

// A forged record header of the current lap of the ring after `sent` bytes, or of one of the next two.
static uint32_t forged(uint64_t sent) {
  static const uint32_t sizes[] = {1, 24, 32, 40, 4096, 65534, 65535};
  return (uint32_t)(sent / RING + random_below(3)) << 16 | sizes[random_below(7)];
}

static size_t fill(uint32_t* words, uint64_t sent) {
  const size_t n = random_below(3) == 0 ? random_below(LARGEST / 4) : random_below(16);
  for (size_t i = 0; i < n; ++i) words[i] = forged(sent);
  return n;
}

static void run(int rank) {
  static uint32_t words[LARGEST / 4], got[LARGEST / 4];
  uint64_t sent = 0;
  for (int i = 0; sent < (uint64_t)LAPS * RING; ++i) {
    const size_t n = fill(words, sent);
    if (rank == 0) {
      CALL(MPI_Send(words, (int)n, MPI_UINT32_T, 1, i & 7, MPI_COMM_WORLD));
    } else {
      MPI_Status status;
      int count = -1;
      CALL(MPI_Recv(got, LARGEST / 4, MPI_UINT32_T, 0, i & 7, MPI_COMM_WORLD, &status));
      CALL(MPI_Get_count(&status, MPI_UINT32_T, &count));
      EXPECT_EQ(count, (int)n);
      EXPECT_EQ(memcmp(got, words, n * 4), 0);
      if (failures != 0) MPI_Abort(MPI_COMM_WORLD, 1);
    }
    sent += (n * 4 + 32 + 63) & ~(uint64_t)63;
  }
}

int main(int argc, char** argv) {
  int rank;
  CALL(MPI_Init(&argc, &argv));
  CALL(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  state = 42;
  if (rank < 2) run(rank);
  CALL(MPI_Finalize());
  return failures != 0;
}
