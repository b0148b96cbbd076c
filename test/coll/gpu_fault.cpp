// SPDX-License-Identifier: BSD-3-Clause
// A collective whose kernel cannot be launched on one GPU: all dependent ranks return an error, no rank
// hangs, nobody stores into the buffers any more, and the next call succeeds. Emulated driver only.
// Argument `direct`: of calls that store into the buffers of other ranks.
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "device/cuda_test_support.hpp"

namespace {

using weft::test::Buffer;
using Kind = Buffer::Kind;
int rank = 0, ranks = 0, failures = 0;

void expect(bool right, const char* what, const char* call) {
  if (right) return;
  ++failures;
  std::fprintf(stderr, "rank %d: %s: %s\n", rank, call, what);
}

enum class Form { blocking, nonblocking, persistent };

/// Sums `count` integers in one of the forms; returns the error code.
int allreduce(const Buffer& in, const Buffer& out, int count, Form form) {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  switch (form) {
    case Form::blocking:
      return MPI_Allreduce(in.data(), out.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    case Form::nonblocking:
      code = MPI_Iallreduce(in.data(), out.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
      break;
    case Form::persistent:
      code = MPI_Allreduce_init(in.data(), out.data(), count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                                &request);
      if (code == MPI_SUCCESS) code = MPI_Start(&request);
  }
  if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  return code;
}

void check_sum(const Buffer& in, const Buffer& out, int count, Form form) {
  expect(allreduce(in, out, count, form) == MPI_SUCCESS, "failed", "a call afterwards");
  const auto bytes = out.read();
  int got = 0;
  std::memcpy(&got, bytes.data() + bytes.size() - sizeof got, sizeof got);
  expect(got == ranks * (ranks + 1) / 2, "wrong sum", "a call afterwards");
}

/// Injects `fault` at the first launch of rank 1.
void refuse(const char* fault, int count, Form form) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(int);
  Buffer in(Kind::device, bytes, rank), out(Kind::device, bytes, rank);
  std::vector<char> own(bytes);
  for (size_t i = 0; i < bytes; i += sizeof(int)) {
    const int value = rank + 1;
    std::memcpy(own.data() + i, &value, sizeof value);
  }
  in.write(own);
  check_sum(in, out, count, form);
  for (int i = 0; i < 2; ++i) {
    if (rank == 1) weft::test::cuda().fail(fault);
    expect(allreduce(in, out, count, form) != MPI_SUCCESS, "succeeded", fault);
    if (rank == 1) weft::test::cuda().fail("");
    check_sum(in, out, count, form);
  }
}

/// A broadcast fails on rank 1 only, also as the last call before the epochs restart.
void fail_on_one_rank() {
  Buffer in(Kind::device, sizeof(int), rank), out(Kind::device, sizeof(int), rank);
  std::vector<char> own(sizeof(int));
  const int value = rank + 1;
  std::memcpy(own.data(), &value, sizeof value);
  in.write(own);
  for (int i = 0; i < 6; ++i) {
    if (rank == 1) weft::test::cuda().fail("cuGraphLaunch:1:2");
    const int code = MPI_Bcast(out.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    expect((code == MPI_SUCCESS) == (rank != 1), "another outcome", "a broadcast");
    if (rank == 1) weft::test::cuda().fail("");
    check_sum(in, out, 1, Form::blocking);
  }
}

/// Rank 1 uses its buffer again as soon as its call has failed.
void reuse_buffer() {
  constexpr size_t kBytes = 4 << 20;
  Buffer in(Kind::device, kBytes, rank), out(Kind::device, kBytes * static_cast<size_t>(ranks), rank);
  in.write(std::vector<char>(kBytes, static_cast<char>(rank)));
  const std::vector<char> own(kBytes * static_cast<size_t>(ranks), 'x');
  const auto gather = [&] {
    return MPI_Allgather(in.data(), kBytes, MPI_CHAR, out.data(), kBytes, MPI_CHAR, MPI_COMM_WORLD);
  };
  expect(gather() == MPI_SUCCESS, "failed", "a gather before");
  for (int i = 0; i < 3; ++i) {
    if (rank == 1) weft::test::cuda().fail("cuGraphLaunch:1:2");
    expect(gather() != MPI_SUCCESS, "succeeded", "a gather into buffers");
    if (rank == 1) weft::test::cuda().fail("");
    out.write(own);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(out.read() == own, "stored into a buffer after the error", "a peer");
  }
  expect(gather() == MPI_SUCCESS, "failed", "a gather afterwards");
  const std::vector<char> got = out.read();
  for (int i = 0; i < ranks; ++i)
    expect(got[static_cast<size_t>(i + 1) * kBytes - 1] == static_cast<char>(i), "wrong data", "a gather");
}

/// Strided blocks, whose messages pairs of ranks divide: `runs` integers to each rank, every other one.
void refuse_strided(int runs) {
  const size_t block = static_cast<size_t>(runs) * 2 * sizeof(int),
               bytes = block * static_cast<size_t>(ranks);
  Buffer in(Kind::device, bytes, rank), out(Kind::device, bytes, rank);
  std::vector<int> values(bytes / sizeof(int), rank + 1);
  std::vector<char> own(bytes);
  std::memcpy(own.data(), values.data(), bytes);
  in.write(own);
  MPI_Datatype strided, type;
  MPI_Type_vector(runs, 1, 2, MPI_INT, &strided);
  MPI_Type_create_resized(strided, 0, static_cast<MPI_Aint>(block), &type);
  MPI_Type_commit(&type);
  const auto exchange = [&] { return MPI_Alltoall(in.data(), 1, type, out.data(), 1, type, MPI_COMM_WORLD); };
  const auto check_exchange = [&] {
    out.write(std::vector<char>(bytes));
    expect(exchange() == MPI_SUCCESS, "failed", "an exchange of strided blocks");
    const std::vector<char> got = out.read();
    std::memcpy(values.data(), got.data(), bytes);
    bool right = true;
    for (size_t i = 0; i < values.size(); ++i)
      right = right && values[i] == (i % 2 != 0 ? 0 : static_cast<int>(i * sizeof(int) / block) + 1);
    expect(right, "wrong data", "an exchange of strided blocks");
  };
  const unsigned long before = weft::test::cuda().pair_collectives();
  check_exchange();
  for (int i = 0; i < 3; ++i) {
    if (rank == 1) weft::test::cuda().fail("cuGraphLaunch:1:2");
    expect(exchange() != MPI_SUCCESS, "succeeded", "an exchange of strided blocks");
    if (rank == 1) weft::test::cuda().fail("");
    check_exchange();
  }
  expect(weft::test::cuda().pair_collectives() >= before + 4, "not divided by pairs", "strided blocks");
  MPI_Type_free(&strided);
  MPI_Type_free(&type);
}

}  // namespace

int main(int argc, char** argv) {
  static_cast<void>(weft::test::own_device());
  if (!weft::test::cuda().emulated()) return 77;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc > 1 && std::strcmp(argv[1], "direct") == 0) reuse_buffer();
  for (const Form form : {Form::blocking, Form::nonblocking, Form::persistent})
    for (const int count : {2, 20'000, 700'000}) refuse("cuGraphLaunch:1:2", count, form);
  for (const int runs : {2, 20'000, 200'000}) refuse_strided(runs);
  if (argc == 1) fail_on_one_rank();
  MPI_Finalize();
  return failures != 0;
}
