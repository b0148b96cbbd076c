// SPDX-License-Identifier: BSD-3-Clause
// Windows of large strided messages between two GPUs in both directions: planes of long runs, read directly
// by the receiver's kernels, mixed with planes of short runs, which are packed while they are unpacked.
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "../device/cuda_test_support.hpp"

namespace {

using weft::test::Buffer;
using Kind = Buffer::Kind;
constexpr int kMessages = 14;
constexpr size_t kRun = 4096, kRows = 300, kPitch = 2 * kRun;  // 1.2 MiB
constexpr size_t kWords = 40'000, kWordPitch = 48, kWord = 8;  // 0.3 MiB
constexpr size_t kRoom = kRows * kPitch;
static_assert(kWords * kWordPitch <= kRoom);
int rank = 0, failures = 0;

bool is_long(int message) { return message % 4 != 3; }

/// Returns the address of byte `i` of the message.
size_t offset_of(int message, size_t i) {
  return is_long(message) ? i / kRun * kPitch + i % kRun : i / kWord * kWordPitch + i % kWord;
}

size_t bytes_of(int message) { return is_long(message) ? kRows * kRun : kWords * kWord; }

void check(const Buffer& in, int message, const std::vector<char>& sent) {
  const auto got = in.read();
  std::vector<char> wanted(kRoom, 0x55);
  for (size_t i = 0; i < bytes_of(message); ++i) wanted[offset_of(message, i)] = sent[offset_of(message, i)];
  if (got == wanted) return;
  ++failures;
  std::fprintf(stderr, "rank %d: message %d is wrong\n", rank, message);
}

}  // namespace

int main(int argc, char** argv) {
  const int device = weft::test::own_device();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Datatype types[2];
  MPI_Type_vector(kRows, kRun, kPitch, MPI_BYTE, &types[0]);
  MPI_Type_vector(kWords, 1, kWordPitch / kWord, MPI_DOUBLE, &types[1]);
  for (MPI_Datatype& type : types) MPI_Type_commit(&type);
  const auto theirs = weft::test::pattern(kRoom, static_cast<unsigned>(1 - rank));
  Buffer out(Kind::device, kRoom, device);
  out.write(weft::test::pattern(kRoom, static_cast<unsigned>(rank)));
  std::vector<std::unique_ptr<Buffer>> in;
  for (int i = 0; i < kMessages; ++i) in.push_back(std::make_unique<Buffer>(Kind::device, kRoom, device));
  for (int round = 0; round < 2; ++round) {
    MPI_Request requests[2 * kMessages];
    for (int i = 0; i < kMessages; ++i) in[static_cast<size_t>(i)]->write(std::vector<char>(kRoom, 0x55));
    for (int i = 0; i < kMessages; ++i)
      MPI_Irecv(in[static_cast<size_t>(i)]->data(), 1, types[is_long(i) ? 0 : 1], 1 - rank, i, MPI_COMM_WORLD,
                &requests[i]);
    for (int i = 0; i < kMessages; ++i)
      MPI_Isend(out.data(), 1, types[is_long(i) ? 0 : 1], 1 - rank, i, MPI_COMM_WORLD,
                &requests[kMessages + i]);
    MPI_Waitall(2 * kMessages, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kMessages; ++i) check(*in[static_cast<size_t>(i)], i, theirs);
  }
  for (MPI_Datatype& type : types) MPI_Type_free(&type);
  in.clear();
  MPI_Finalize();
  return failures != 0;
}
