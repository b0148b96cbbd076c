// SPDX-License-Identifier: BSD-3-Clause
// A GPU failure in the middle of a staged send: both sides get an error, nobody hangs, the buffer is not read
// after the send returns, and later traffic works. Emulated driver only; with WEFT_GPU_PACK=off, since a
// rejected kernel launch is retried.
#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "../device/cuda_test_support.hpp"

namespace {

using weft::test::Buffer;
using Kind = Buffer::Kind;
constexpr int kBytes = 9 << 20;  // several pinned chunks
int rank = 0, failures = 0;

int class_of(int code) {
  int error_class = MPI_ERR_UNKNOWN;
  MPI_Error_class(code, &error_class);
  return error_class;
}

void expect(int got, int wanted, const char* what) {
  if (got == wanted) return;
  ++failures;
  std::fprintf(stderr, "rank %d: %s: %d, not %d\n", rank, what, got, wanted);
}

// Rank 0 sends from a pool, which cannot be mapped; `fault` makes a driver call fail. Invalid data never
// count as received.
void exchange(Kind to, const char* fault, bool fails) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    Buffer out(Kind::pool, kBytes);
    out.write(weft::test::pattern(kBytes, 5));
    weft::test::cuda().fail(fault);
    const int sent = class_of(MPI_Send(out.data(), kBytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
    weft::test::cuda().fail("");
    expect(sent == MPI_SUCCESS, !fails, "the send succeeded");
  } else {
    Buffer in(to, kBytes, 1);
    MPI_Status status;
    const int got = class_of(MPI_Recv(in.data(), kBytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status));
    expect(got, fails ? MPI_ERR_OTHER : MPI_SUCCESS, "class of the receive");
    int count = -1;
    MPI_Get_count(&status, MPI_BYTE, &count);
    expect(fails ? count < kBytes : count == kBytes, 1, "bytes counted as received");
    if (!fails) expect(in.read() == weft::test::pattern(kBytes, 5), 1, "the data");
  }
}

// A copy fails while other chunks are being packed: the buffer may be freed when the send returns, so that
// packing must have ended. Streams are delayed so that a send that does not wait returns earlier.
void refused_while_packing(const char* fault) {
  constexpr unsigned kDelayUs = 20'000;  // stream delay in us
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    Buffer out(Kind::pool, kBytes);
    MPI_Barrier(MPI_COMM_WORLD);
    weft::test::cuda().fail(fault);
    weft::test::cuda().delay(kDelayUs);
    const double begin = MPI_Wtime();
    expect(class_of(MPI_Send(out.data(), kBytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD)) == MPI_SUCCESS, 0,
           "the send succeeded");
    expect(MPI_Wtime() - begin > kDelayUs * 1e-6 / 2, 1, "the send waited for its packing");
    weft::test::cuda().delay(30);
    weft::test::cuda().fail("");
  } else {
    Buffer in(Kind::device, kBytes, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(class_of(MPI_Recv(in.data(), kBytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)),
           MPI_ERR_OTHER, "class of the receive");
  }
}

}  // namespace

int main(int argc, char** argv) {
  static_cast<void>(weft::test::own_device());
  if (!weft::test::cuda().emulated()) return 77;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (Kind to : {Kind::host, Kind::device}) {
    exchange(to, "", false);
    exchange(to, "cuMemcpyAsync:1:1", true);
    exchange(to, "cuMemcpyAsync:3:1", true);
    exchange(to, "", false);
  }
  for (int i = 0; i < 4; ++i) {  // chunks alternate between two streams, in the order of their return
    refused_while_packing("cuMemcpyAsync:2:1");
    refused_while_packing("cuMemcpyAsync:3:1");
    exchange(Kind::device, "", false);
  }
  exchange(Kind::host, "op:2:700", true);  // destroys the sender's context
  int out = rank, in = -1;
  MPI_Sendrecv(&out, 1, MPI_INT, 1 - rank, 2, &in, 1, MPI_INT, 1 - rank, 2, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  expect(in, 1 - rank, "host traffic afterwards");
  MPI_Finalize();
  return failures != 0;
}
