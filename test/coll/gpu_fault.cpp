// SPDX-License-Identifier: BSD-3-Clause
// A collective whose kernel cannot be launched on one GPU: all dependent ranks return an error, no rank
// hangs, and the next call succeeds. Emulated driver only.
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

}  // namespace

int main(int argc, char** argv) {
  static_cast<void>(weft::test::own_device());
  if (!weft::test::cuda().emulated()) return 77;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const Form form : {Form::blocking, Form::nonblocking, Form::persistent})
    for (const int count : {2, 20'000, 700'000}) refuse("cuGraphLaunch:1:2", count, form);
  MPI_Finalize();
  return failures != 0;
}
