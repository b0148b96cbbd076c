// SPDX-License-Identifier: BSD-3-Clause
// Litmus tests of hardware memory order (docs/gpu-internals.md).
//   torn      data visible before their flag or the reverse: send buffers alternate, so that stale data of
//   the
//             previous call are detected; with LL, LL128 or Simple, as the environment selects
//   stale     a cache that keeps overwritten data: messages and collectives from one buffer, rewritten for
//   each
//             call, while the resident kernel runs
//   doorbell  a doorbell write while the resident kernel exits: messages and collectives after pauses close
//   to its
//             idle timeout
// Usage: litmus CASE COUNT. On the emulated driver it tests the program, not the order.
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;
using weft::test::cuda;
using Kind = Buffer::Kind;
using Words = std::vector<uint32_t>;

int rank = 0, ranks = 0, failures = 0;

int device() { return rank % cuda().devices; }

/// Different in every word, call and rank; the top bits are free for sums.
uint32_t word(int of, int call, size_t i) {
  return static_cast<uint32_t>((i * 2654435761u) ^ (static_cast<unsigned>(call) * 40503u) ^
                               (static_cast<unsigned>(of) << 20)) &
         0x00ffffffu;
}

Words content(int of, int call, size_t count) {
  Words words(count);
  for (size_t i = 0; i < count; ++i) words[i] = word(of, call, i);
  return words;
}

std::vector<char> bytes_of(const Words& words) {
  std::vector<char> bytes(words.size() * sizeof(uint32_t));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

void expect(const Buffer& got, const Words& wanted, const char* what, int call) {
  const std::vector<char> bytes = got.read(0, wanted.size() * sizeof(uint32_t));
  if (std::memcmp(bytes.data(), wanted.data(), bytes.size()) == 0) return;
  if (++failures > 10) return;
  size_t at = 0, wrong = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i * sizeof word, sizeof word);
    if (word == wanted[i]) continue;
    if (wrong++ == 0) at = i;
  }
  std::fprintf(stderr, "rank %d: %s, %zu words, call %d: %zu are wrong, the first is %zu\n", rank, what,
               wanted.size(), call, wrong, at);
}

/// The words of all ranks, concatenated or added.
Words gathered(int call, size_t count) {
  Words all;
  for (int of = 0; of < ranks; ++of) {
    const Words part = content(of, call, count);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}
Words added(int call, size_t count) {
  Words sum(count);
  for (int of = 0; of < ranks; ++of)
    for (size_t i = 0; i < count; ++i) sum[i] += word(of, call, i);
  return sum;
}

constexpr size_t kCounts[] = {2, 100, 5000, 30'000, 70'000, 250'000};  // words of a rank
constexpr size_t kMaxWords = 250'000;

void torn(int count) {
  Buffer in[] = {{Kind::device, kMaxWords * 4, device()}, {Kind::device, kMaxWords * 4, device()}};
  Buffer out(Kind::device, kMaxWords * 4 * static_cast<size_t>(ranks), device());
  for (const size_t words : kCounts) {
    const int n = static_cast<int>(words);
    const Words together[] = {gathered(0, words), gathered(1, words)},
                sums[] = {added(0, words), added(1, words)};
    for (int turn = 0; turn < 2; ++turn) in[turn].write(bytes_of(content(rank, turn, words)));
    for (int call = 0; call < count; ++call) {
      const int turn = call % 2;
      MPI_Allgather(in[turn].data(), n, MPI_UINT32_T, out.data(), n, MPI_UINT32_T, MPI_COMM_WORLD);
      expect(out, together[turn], "allgather", call);
      MPI_Allreduce(in[turn].data(), out.data(), n, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
      expect(out, sums[turn], "allreduce", call);
    }
  }
}

void stale(int count) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  Buffer out(Kind::device, kMaxWords * 4, device()), in(Kind::device, kMaxWords * 4, device());
  for (const size_t words : kCounts) {
    const int n = static_cast<int>(words);
    for (int call = 0; call < count; ++call) {
      out.write(bytes_of(content(rank, call, words)));
      MPI_Sendrecv(out.data(), n, MPI_UINT32_T, right, 1, in.data(), n, MPI_UINT32_T, left, 1, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
      expect(in, content(left, call, words), "message", call);
      MPI_Allreduce(out.data(), in.data(), n, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
      expect(in, added(call, words), "allreduce", call);
      // Sends from a buffer that a kernel has just written.
      MPI_Sendrecv_replace(in.data(), n, MPI_UINT32_T, right, 2, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      expect(in, added(call, words), "forwarded result", call);
    }
  }
}

void pause(double seconds) {
  for (const double start = MPI_Wtime(); MPI_Wtime() - start < seconds;) continue;
}

void doorbell(int count) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  constexpr size_t kWords = 4;
  Buffer out(Kind::device, kWords * 4, device()), in(Kind::device, kWords * 4, device());
  unsigned state = 1 + static_cast<unsigned>(rank);
  for (int call = 0; call < count; ++call) {
    out.write(bytes_of(content(rank, call, kWords)));
    for (int close = 0; close < 8; ++close)  // starts the resident kernel
      MPI_Sendrecv(out.data(), kWords, MPI_UINT32_T, right, 1, in.data(), kWords, MPI_UINT32_T, left, 1,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    state = state * 1664525u + 1013904223u;
    pause(1e-6 * (state >> 16) / 65536.0 * 60);
    MPI_Sendrecv(out.data(), kWords, MPI_UINT32_T, right, 2, in.data(), kWords, MPI_UINT32_T, left, 2,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(in, content(left, call, kWords), "message", call);
    pause(1e-6 * (state & 0xffff) / 65536.0 * 60);
    MPI_Allreduce(out.data(), in.data(), kWords, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
    expect(in, added(call, kWords), "allreduce", call);
  }
}

}  // namespace

int main(int argc, char** argv) {
  weft::test::start(argc, argv, rank, ranks);
  const std::string which = argc > 1 ? argv[1] : "";
  const int count = argc > 2 ? std::atoi(argv[2]) : 0;
  if (count <= 0 || (which != "torn" && which != "stale" && which != "doorbell")) {
    std::fprintf(stderr, "usage: litmus torn|stale|doorbell COUNT\n");
    return 2;
  }
  (which == "torn" ? torn : which == "stale" ? stale : doorbell)(count);
  return weft::test::finish(failures);
}
