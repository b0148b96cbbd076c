// SPDX-License-Identifier: BSD-3-Clause
// Windows on GPU memory, and origin buffers in GPU memory: every rank in turn puts, gets and accumulates at
// the next rank, whose memory is then compared with a model.
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../device/cuda_test_support.hpp"

namespace {

using weft::test::Buffer;
using Kind = Buffer::Kind;
constexpr int kWords = 4096;
constexpr size_t kBytes = kWords * sizeof(int64_t);
int rank = 0, size = 0, device_index = 0, failures = 0;

std::vector<int64_t> read(const Buffer& buffer) {
  const auto bytes = buffer.read();
  std::vector<int64_t> words(bytes.size() / sizeof(int64_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(int64_t));
  return words;
}

void write(Buffer& buffer, const std::vector<int64_t>& words) {
  std::vector<char> bytes(words.size() * sizeof(int64_t));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  buffer.write(bytes);
}

void expect(bool right, const char* what, Kind window, Kind origin) {
  if (right) return;
  ++failures;
  std::fprintf(stderr, "rank %d: %s is wrong (window %d, origin %d)\n", rank, what, static_cast<int>(window),
               static_cast<int>(origin));
}

/// Values of the origin that no other rank and word has.
std::vector<int64_t> values(int of) {
  std::vector<int64_t> words(kWords);
  for (int i = 0; i < kWords; ++i) words[static_cast<size_t>(i)] = of * 100000 + i;
  return words;
}

/// A window on the memory of each rank. `bases`: the displacement of its first byte on each rank.
MPI_Win window_on(const Buffer& memory, bool dynamic, std::vector<MPI_Aint>& bases) {
  MPI_Win win;
  bases.assign(static_cast<size_t>(size), 0);
  if (dynamic) {
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, memory.data(), kBytes);
    MPI_Aint own;
    MPI_Get_address(memory.data(), &own);
    MPI_Allgather(&own, 1, MPI_AINT, bases.data(), 1, MPI_AINT, MPI_COMM_WORLD);
  } else {
    MPI_Win_create(memory.data(), kBytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  }
  return win;
}

void run(Kind window_kind, Kind origin_kind, bool dynamic) {
  Buffer memory(window_kind, kBytes, device_index), origin(origin_kind, kBytes, device_index),
      result(origin_kind, kBytes, device_index);
  write(memory, std::vector<int64_t>(kWords, 7));
  write(origin, values(rank));
  std::vector<MPI_Aint> bases;
  MPI_Win win = window_on(memory, dynamic, bases);
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  const MPI_Aint base = bases[static_cast<size_t>(to)];
  // The first half by a contiguous put, words 0, 2, 4 ... of the second half by a strided one.
  MPI_Datatype vector;
  MPI_Type_vector(kWords / 4, 1, 2, MPI_INT64_T, &vector);
  MPI_Type_commit(&vector);
  auto* const out = static_cast<char*>(origin.data());
  MPI_Win_fence(0, win);
  MPI_Put(out, kWords / 2, MPI_INT64_T, to, base, kWords / 2, MPI_INT64_T, win);
  MPI_Put(out + kBytes / 2, kWords / 4, MPI_INT64_T, to, base + kBytes / 2, 1, vector, win);
  MPI_Win_fence(0, win);
  std::vector<int64_t> model(kWords, 7);
  const auto theirs = values(from);
  for (size_t i = 0; i < kWords / 2; ++i) model[i] = theirs[i];
  for (size_t i = 0; i < kWords / 4; ++i) model[kWords / 2 + 2 * i] = theirs[kWords / 2 + i];
  expect(read(memory) == model, "put", window_kind, origin_kind);
  MPI_Barrier(MPI_COMM_WORLD);

  MPI_Win_lock_all(0, win);
  MPI_Get(result.data(), kWords, MPI_INT64_T, to, base, kWords, MPI_INT64_T, win);
  MPI_Win_flush(to, win);
  std::vector<int64_t> at_target(kWords, 7);
  const auto mine = values(rank);
  for (size_t i = 0; i < kWords / 2; ++i) at_target[i] = mine[i];
  for (size_t i = 0; i < kWords / 4; ++i) at_target[kWords / 2 + 2 * i] = mine[kWords / 2 + i];
  expect(read(result) == at_target, "get", window_kind, origin_kind);
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);

  MPI_Win_fence(0, win);
  MPI_Accumulate(out, kWords, MPI_INT64_T, to, base, kWords, MPI_INT64_T, MPI_SUM, win);
  MPI_Win_fence(0, win);
  for (size_t i = 0; i < kWords; ++i) model[i] += theirs[i];
  expect(read(memory) == model, "accumulate", window_kind, origin_kind);
  MPI_Barrier(MPI_COMM_WORLD);

  // Every second word becomes larger.
  std::vector<int64_t> larger(kWords);
  for (size_t i = 0; i < kWords; ++i) larger[i] = i % 2 == 0 ? 1000000000 + rank : -1;
  write(origin, larger);
  for (size_t i = 0; i < kWords; ++i) at_target[i] += mine[i];
  MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
  MPI_Get_accumulate(out, kWords, MPI_INT64_T, result.data(), kWords, MPI_INT64_T, to, base, kWords,
                     MPI_INT64_T, MPI_MAX, win);
  MPI_Win_unlock(to, win);
  expect(read(result) == at_target, "result of get accumulate", window_kind, origin_kind);
  MPI_Barrier(MPI_COMM_WORLD);
  for (size_t i = 0; i < kWords; i += 2) model[i] = 1000000000 + from;
  expect(read(memory) == model, "get accumulate", window_kind, origin_kind);
  MPI_Barrier(MPI_COMM_WORLD);

  // A counter at rank 0: each fetched value occurs once.
  constexpr int kTurns = 20;
  const int64_t one = 1;
  std::vector<int64_t> fetched(kTurns), all(static_cast<size_t>(kTurns * size));
  MPI_Win_lock_all(0, win);
  const MPI_Aint counter = bases[0];
  if (rank == 0) {
    const int64_t zero = 0;
    int64_t old;
    MPI_Fetch_and_op(&zero, &old, MPI_INT64_T, 0, counter, MPI_REPLACE, win);
    MPI_Win_flush(0, win);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int64_t& value : fetched) {
    MPI_Fetch_and_op(&one, &value, MPI_INT64_T, 0, counter, MPI_SUM, win);
    MPI_Win_flush(0, win);
  }
  int64_t now = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const int64_t expected = kTurns * size;
  MPI_Compare_and_swap(&one, &expected, &now, MPI_INT64_T, 0, counter, win);
  MPI_Win_flush(0, win);
  expect(now == expected || now == 1, "compare and swap", window_kind, origin_kind);
  MPI_Win_unlock_all(win);
  MPI_Allgather(fetched.data(), kTurns, MPI_INT64_T, all.data(), kTurns, MPI_INT64_T, MPI_COMM_WORLD);
  std::vector<bool> seen(all.size());
  for (const int64_t value : all) {
    const bool fresh = value >= 0 && value < expected && !seen[static_cast<size_t>(value)];
    expect(fresh, "fetch and op", window_kind, origin_kind);
    if (fresh) seen[static_cast<size_t>(value)] = true;
  }
  MPI_Type_free(&vector);
  if (dynamic) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_detach(win, memory.data());
  }
  MPI_Win_free(&win);
}

/// Driver calls by which copies of this process begin.
unsigned long copies() {
  const auto& cuda = weft::test::cuda();
  return cuda.emulated() ? cuda.calls("cuMemcpyAsync") + cuda.calls("cuMemcpyBatchAsync") : 0;
}

/// Blocks of `length` words at the distance of `stride` words.
MPI_Datatype blocks(int count, int length, int stride) {
  MPI_Datatype type;
  MPI_Type_vector(count, length, stride, MPI_INT64_T, &type);
  MPI_Type_commit(&type);
  return type;
}

/// Puts and gets between different layouts: no driver call for each of their runs.
void layouts(Kind window_kind, Kind origin_kind, bool dynamic) {
  constexpr int kData = 1024;
  constexpr unsigned long kMaxCopies = 24;  // the layouts have 256 and 512 runs
  const auto target_word = [](size_t i) { return i / 4 * 7 + i % 4; };
  const auto origin_word = [](size_t i) { return 1 + i / 2 * 3 + i % 2; };
  Buffer memory(window_kind, kBytes, device_index), origin(origin_kind, kBytes, device_index);
  write(memory, values(rank));
  write(origin, values(size + rank));
  std::vector<MPI_Aint> bases;
  MPI_Win win = window_on(memory, dynamic, bases);
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  const MPI_Aint base = bases[static_cast<size_t>(to)];
  auto* const first = origin.data() + sizeof(int64_t);
  MPI_Win_fence(0, win);

  MPI_Datatype here = blocks(kData / 2, 2, 3), there = blocks(kData / 4, 4, 7);
  unsigned long before = copies();
  MPI_Get(first, 1, here, to, base, 1, there, win);
  MPI_Type_free(&here);
  MPI_Type_free(&there);
  MPI_Win_fence(0, win);
  const unsigned long got = copies() - before;
  auto model = values(size + rank);
  const auto theirs = values(to);
  for (size_t i = 0; i < kData; ++i) model[origin_word(i)] = theirs[target_word(i)];
  expect(read(origin) == model, "get between layouts", window_kind, origin_kind);
  MPI_Barrier(MPI_COMM_WORLD);

  write(origin, values(size + rank));
  here = blocks(kData / 2, 2, 3), there = blocks(kData / 4, 4, 7);
  before = copies();
  MPI_Put(first, 1, here, to, base, 1, there, win);
  MPI_Type_free(&here);
  MPI_Type_free(&there);
  MPI_Win_fence(0, win);
  const unsigned long put = copies() - before;
  model = values(rank);
  const auto sent = values(size + from);
  for (size_t i = 0; i < kData; ++i) model[target_word(i)] = sent[origin_word(i)];
  expect(read(memory) == model, "put between layouts", window_kind, origin_kind);
  if (window_kind == Kind::host || std::getenv("WEFT_FAKE_HOSTS") == nullptr) {
    expect(got <= kMaxCopies, "number of driver calls of a get", window_kind, origin_kind);
    expect(put <= kMaxCopies, "number of driver calls of a put", window_kind, origin_kind);
    if (got > kMaxCopies || put > kMaxCopies)
      std::fprintf(stderr, "%lu driver calls in a get, %lu in a put\n", got, put);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (dynamic) MPI_Win_detach(win, memory.data());
  MPI_Win_free(&win);
}

}  // namespace

int main(int argc, char** argv) {
  device_index = weft::test::own_device();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (const bool dynamic : {false, true}) {
    run(Kind::device, Kind::device, dynamic);
    run(Kind::device, Kind::host, dynamic);
    run(Kind::host, Kind::device, dynamic);
    run(Kind::managed, Kind::pool, dynamic);
    layouts(Kind::device, Kind::device, dynamic);
    layouts(Kind::device, Kind::host, dynamic);
    layouts(Kind::host, Kind::device, dynamic);
    layouts(Kind::device, Kind::managed, dynamic);
    layouts(Kind::managed, Kind::pool, dynamic);
  }
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
