// SPDX-License-Identifier: BSD-3-Clause
// Helpers for tests of enqueued operations: this rank and its GPU, streams with their communicators, graphs.
#pragma once
#include <time.h>
#include <weft.h>

#include <cstdio>
#include <string>
#include <vector>

#include "device/mpi_main.hpp"

namespace weft::test::enqueued {

using weft::test::Buffer;
using weft::test::Stream;
using Kind = Buffer::Kind;

inline int rank = 0, ranks = 0, device = 0, failures = 0;
/// The driver, with the context of this rank's GPU current.
inline weft::test::Cuda& driver() {
  auto& cuda = weft::test::cuda();
  cuda.cuCtxSetCurrent(cuda.primary[static_cast<size_t>(device)]);
  return cuda;
}
inline int right() { return (rank + 1) % ranks; }
inline int left() { return (rank + ranks - 1) % ranks; }

inline std::vector<char> pattern(size_t n, int from, int salt) {
  std::vector<char> bytes(n);
  for (size_t i = 0; i < n; ++i)
    bytes[i] =
        static_cast<char>(static_cast<size_t>(from) * 31 + i * 7 + (i >> 9) + static_cast<size_t>(salt) * 13);
  return bytes;
}

inline void expect(bool good, const std::string& what) {
  if (good) return;
  if (++failures < 20) std::fprintf(stderr, "rank %d: wrong: %s\n", rank, what.c_str());
}
inline void expect_class(int code, int wanted, const std::string& what) {
  int error_class = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
  char message[400] = "";
  if (error_class != wanted) MPIX_Last_error_message(message, sizeof message, nullptr);
  expect(error_class == wanted, what + ": class " + std::to_string(error_class) + " " + message);
}

/// Waits for a stream that may be stuck: the emulated driver ends the process when a call of it has waited
/// for half a minute.
inline void poll_until_idle(Stream stream) {
  constexpr timespec kPause{0, 5'000'000};
  constexpr int kNotReady = 600;
  int code = driver().cuStreamQuery(stream);
  for (; code == kNotReady; code = driver().cuStreamQuery(stream)) nanosleep(&kPause, nullptr);
  expect(code == 0, "cuStreamQuery: code " + std::to_string(code));
}

/// Creates a stream of this rank's GPU, without hints.
inline void make_stream(Stream& stream, MPIX_Stream& mpi_stream) {
  driver().cuStreamCreate(&stream, 1);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "type", "cudaStream_t");
  MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
  expect_class(MPIX_Stream_create(info, &mpi_stream), MPI_SUCCESS, "MPIX_Stream_create");
  MPI_Info_free(&info);
}

/// A stream of this rank's GPU and its communicator.
class StreamComm {
 public:
  explicit StreamComm(MPI_Comm parent = MPI_COMM_WORLD) {
    make_stream(stream, mpi_stream);
    expect_class(MPIX_Stream_comm_create(parent, mpi_stream, &comm), MPI_SUCCESS, "MPIX_Stream_comm_create");
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  }
  ~StreamComm() {
    expect_class(MPI_Comm_free(&comm), MPI_SUCCESS, "MPI_Comm_free");
    MPIX_Stream_free(&mpi_stream);
    driver().cuStreamDestroy_v2(stream);
  }
  void synchronize() const { expect(driver().cuStreamSynchronize(stream) == 0, "cuStreamSynchronize"); }
  Stream stream = nullptr;
  MPIX_Stream mpi_stream = MPIX_STREAM_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
};

/// The work captured from a stream between construction and end(), launched any number of times.
class Graph {
 public:
  explicit Graph(Stream stream) : stream_(stream) {
    expect(driver().cuStreamBeginCapture_v2(stream, 0) == 0, "cuStreamBeginCapture");
  }
  void end() {
    expect(driver().cuStreamEndCapture(stream_, &graph_) == 0, "cuStreamEndCapture");
    expect(driver().cuGraphInstantiateWithFlags(&executable_, graph_, 0) == 0, "cuGraphInstantiate");
  }
  /// Ends the capture, whose work will never be launched.
  void discard() { expect(driver().cuStreamEndCapture(stream_, &graph_) == 0, "cuStreamEndCapture"); }
  void launch() const { expect(driver().cuGraphLaunch(executable_, stream_) == 0, "cuGraphLaunch"); }
  ~Graph() {
    driver().cuGraphExecDestroy(executable_);
    driver().cuGraphDestroy(graph_);
  }

 private:
  Stream stream_;
  void *graph_ = nullptr, *executable_ = nullptr;
};

}  // namespace weft::test::enqueued
