// SPDX-License-Identifier: BSD-3-Clause
// Communicators whose operations go to other streams than their own, kernels that leave when the communicator
// is revoked, and streams that only kernels may serve. On the emulated driver, and unchanged on GPUs.
#include <unistd.h>

#include <cstdlib>

#include "stream/stream_comm.hpp"

namespace {

using namespace weft::test::enqueued;

constexpr int kCount = 5000;

int sum_of(const Buffer& buffer) {
  const std::vector<char> bytes = buffer.read(0, sizeof(int));
  return *reinterpret_cast<const int*>(bytes.data());
}
void fill(Buffer& buffer, int value) {
  std::vector<int> values(kCount, value);
  const char* const first = reinterpret_cast<const char*>(values.data());
  buffer.write(std::vector<char>(first, first + values.size() * sizeof(int)));
}

/// Puts alternating calls into two streams, and on GPUs a default stream, each behind the one before.
void alternate(const StreamComm& own) {
  Stream other = nullptr;
  driver().cuStreamCreate(&other, 1);
  // The emulated driver ends programs in which Weft uses a default stream.
  const Stream standard = std::getenv("WEFT_CUDA_DRIVER") != nullptr ? other : nullptr;
  Buffer data(Kind::device, kCount * sizeof(int), device), message(Kind::device, 64, device);
  fill(data, 1);
  int expected = 1;
  for (int i = 0; i < 9; ++i) {
    const Stream streams[] = {other, own.stream, standard};
    const Stream now = streams[i % 3];
    expect_class(MPIX_Stream_comm_redirect(own.comm, now), MPI_SUCCESS, "MPIX_Stream_comm_redirect");
    expect_class(MPIX_Allreduce_enqueue(MPI_IN_PLACE, data.data(), kCount, MPI_INT, MPI_SUM, own.comm),
                 MPI_SUCCESS, "MPIX_Allreduce_enqueue in another stream");
    MPIX_Send_enqueue(message.data(), 8, MPI_BYTE, rank, 0, own.comm);
    MPIX_Recv_enqueue(message.data(), 8, MPI_BYTE, rank, 0, own.comm, MPI_STATUS_IGNORE);
    expect(driver().cuStreamSynchronize(now) == 0, "cuStreamSynchronize");
    expected *= ranks;
    expect(sum_of(data) == expected, "sum " + std::to_string(i));
  }
  MPI_Request request;
  MPIX_Irecv_enqueue(message.data(), 8, MPI_BYTE, left(), 0, own.comm, &request);
  expect_class(MPIX_Stream_comm_redirect(own.comm, other), MPI_ERR_COMM, "redirect with an open request");
  MPIX_Send_enqueue(message.data(), 8, MPI_BYTE, right(), 0, own.comm);
  MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE);
  expect_class(MPIX_Stream_comm_redirect(own.comm, own.stream), MPI_SUCCESS, "redirect back");
  own.synchronize();
  expect_class(MPIX_Stream_comm_redirect(MPI_COMM_WORLD, other), MPI_ERR_COMM, "redirect without a stream");
  driver().cuStreamDestroy_v2(other);
}

/// The last rank does not take part in a call, and revokes the communicator.
void revoke() {
  StreamComm own;
  Buffer data(Kind::device, kCount * sizeof(int), device);
  fill(data, 1);
  MPIX_Allreduce_enqueue(MPI_IN_PLACE, data.data(), kCount, MPI_INT, MPI_SUM, own.comm);
  own.synchronize();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == ranks - 1) {
    ::usleep(20'000);  // the streams of the others wait
    expect_class(MPIX_Comm_revoke(own.comm), MPI_SUCCESS, "MPIX_Comm_revoke");
  } else {
    MPIX_Allreduce_enqueue(MPI_IN_PLACE, data.data(), kCount, MPI_INT, MPI_SUM, own.comm);
    MPIX_Bcast_enqueue(data.data(), kCount, MPI_INT, ranks - 1, own.comm);
    MPIX_Recv_enqueue(data.data(), 8, MPI_BYTE, ranks - 1, 0, own.comm, MPI_STATUS_IGNORE);
    for (int flag = 0; flag == 0;) MPIX_Comm_is_revoked(own.comm, &flag);
  }
  own.synchronize();
  expect_class(MPIX_Allreduce_enqueue(MPI_IN_PLACE, data.data(), kCount, MPI_INT, MPI_SUM, own.comm),
               MPIX_ERR_REVOKED, "a call after the revocation");
  own.synchronize();
}

/// Only kernels may execute the operations: refused for default streams and for streams of ordinary calls.
void kernels_only() {
  driver();
  const auto create = [](Stream handle, bool in_order, int expected) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "type", "cudaStream_t");
    MPI_Info_set(info, "weft_stream_kernels", rank == 0 ? "true" : "false");
    if (in_order) MPI_Info_set(info, "weft_stream_order", "true");
    MPIX_Info_set_hex(info, "value", &handle, sizeof handle);
    MPIX_Stream stream;
    expect_class(MPIX_Stream_create(info, &stream), MPI_SUCCESS, "MPIX_Stream_create");
    MPI_Info_free(&info);
    MPI_Comm comm = MPI_COMM_NULL;
    expect_class(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm), expected, "only kernels");
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    MPIX_Stream_free(&stream);
  };
  Stream made = nullptr;
  driver().cuStreamCreate(&made, 1);
  const bool shared = ranks > driver().devices && !weft::test::mps();
  create(nullptr, false, MPI_ERR_UNSUPPORTED_OPERATION);
  create(made, true, MPI_ERR_UNSUPPORTED_OPERATION);
  create(made, false, shared ? MPI_ERR_UNSUPPORTED_OPERATION : MPI_SUCCESS);
  driver().cuStreamDestroy_v2(made);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  {
    const StreamComm own;
    alternate(own);
  }
  revoke();
  kernels_only();
  return weft::test::finish(failures);
}
