// SPDX-License-Identifier: BSD-3-Clause
// Persistent requests on device memory: buffers are classified at init, even if their regions are withdrawn
// between two starts; mixed with other messages; new requests on memory that was freed and reallocated.
#include <mpi.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;
using weft::test::cuda;
using Kind = Buffer::Kind;

constexpr size_t kSizes[] = {8, 5000, 70'000, 300'000};
int rank = 0, ranks = 0, failures = 0;

void expect(bool good, const char* what, int round) {
  if (good) return;
  if (++failures < 20) std::fprintf(stderr, "rank %d: %s, round %d\n", rank, what, round);
}

unsigned seed_of(int of, int round, size_t i) {
  return static_cast<unsigned>(of * 1000 + round * 10) + static_cast<unsigned>(i);
}

/// A buffer of each size and a request on it.
struct Set {
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<MPI_Request> requests;
  Set() = default;
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;
  ~Set() {
    for (MPI_Request& request : requests) MPI_Request_free(&request);
  }
  void add(Kind kind, size_t size) {
    buffers.push_back(std::make_unique<Buffer>(kind, size, rank % cuda().devices));
    requests.push_back(MPI_REQUEST_NULL);
  }
};

void make(Set& out, Set& in, Kind from, Kind to) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  for (size_t i = 0; i < std::size(kSizes); ++i) {
    out.add(from, kSizes[i]);
    in.add(to, kSizes[i]);
    const int count = static_cast<int>(kSizes[i]), tag = static_cast<int>(i);
    MPI_Send_init(out.buffers[i]->data(), count, MPI_BYTE, right, tag, MPI_COMM_WORLD, &out.requests[i]);
    MPI_Recv_init(in.buffers[i]->data(), count, MPI_BYTE, left, tag, MPI_COMM_WORLD, &in.requests[i]);
  }
}

void fill(const Set& out, int round) {
  for (size_t i = 0; i < out.buffers.size(); ++i)
    out.buffers[i]->write(weft::test::pattern(kSizes[i], seed_of(rank, round, i)));
}

void check(const Set& in, int round, const char* what) {
  const int left = (rank + ranks - 1) % ranks;
  for (size_t i = 0; i < in.buffers.size(); ++i)
    expect(in.buffers[i]->read() == weft::test::pattern(kSizes[i], seed_of(left, round, i)), what, round);
}

void run(Set& out, Set& in) {
  const int count = static_cast<int>(out.requests.size());
  MPI_Startall(count, in.requests.data());
  MPI_Startall(count, out.requests.data());
  MPI_Waitall(count, in.requests.data(), MPI_STATUSES_IGNORE);
  MPI_Waitall(count, out.requests.data(), MPI_STATUSES_IGNORE);
}

// Between two starts other allocations are exported, so that bounded caches withdraw the regions.
void rounds(Kind from, Kind to, int count, bool disturbed, const char* what) {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  Set out, in;
  make(out, in, from, to);
  for (int round = 0; round < count; ++round) {
    fill(out, round);
    run(out, in);
    check(in, round, what);
    if (!disturbed) continue;
    Buffer other(Kind::device, 1000, rank % cuda().devices),
        others(Kind::device, 1000, rank % cuda().devices);
    MPI_Sendrecv(other.data(), 1000, MPI_BYTE, right, 99, others.data(), 1000, MPI_BYTE, left, 99,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

// New requests on memory whose addresses are reused.
void again() {
  for (int life = 0; life < 10; ++life) {
    Set out, in;
    make(out, in, Kind::device, Kind::device);
    for (int round = 0; round < 2; ++round) {
      fill(out, 10 * life + round);
      run(out, in);
      check(in, 10 * life + round, "made again");
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

// Persistent at one end only: matching is the same.
void mixed() {
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  constexpr size_t kBytes = 4000;
  const int count = static_cast<int>(kBytes), device = rank % cuda().devices;
  Buffer out(Kind::device, kBytes, device), in(Kind::device, kBytes, device);
  MPI_Request send, receive;
  MPI_Send_init(out.data(), count, MPI_BYTE, right, 1, MPI_COMM_WORLD, &send);
  MPI_Recv_init(in.data(), count, MPI_BYTE, left, 1, MPI_COMM_WORLD, &receive);
  for (int round = 0; round < 20; ++round) {
    out.write(weft::test::pattern(kBytes, seed_of(rank, round, 0)));
    if (round % 2 == 0) {
      MPI_Start(&send);
      MPI_Recv(in.data(), count, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Wait(&send, MPI_STATUS_IGNORE);
    } else {
      MPI_Start(&receive);
      MPI_Send(out.data(), count, MPI_BYTE, right, 1, MPI_COMM_WORLD);
      MPI_Wait(&receive, MPI_STATUS_IGNORE);
    }
    expect(in.read() == weft::test::pattern(kBytes, seed_of(left, round, 0)), "mixed", round);
  }
  MPI_Request_free(&send);
  MPI_Request_free(&receive);
}

// Starts issue no driver queries about the buffers; only the periodic sweep for freed allocations does.
void unasked() {
  const auto calls = cuda().calls;
  if (calls == nullptr) return;
  Set out, in;
  make(out, in, Kind::device, Kind::device);
  for (int i = 0; i < 2; ++i) run(out, in);
  const unsigned long before = calls("cuPointerGetAttributes");
  for (int i = 0; i < 50; ++i) run(out, in);
  const unsigned long sweeps = 2 * std::size(kSizes);
  expect(calls("cuPointerGetAttributes") <= before + sweeps, "starts classified the buffers", 0);
}

}  // namespace

int main(int argc, char** argv) {
  const bool bounded = argc > 1 && std::string(argv[1]) == "bounded";
  weft::test::start(argc, argv, rank, ranks);
  rounds(Kind::device, Kind::device, 20, bounded, "device to device");
  rounds(Kind::managed, Kind::device, 5, bounded, "managed to device");
  rounds(Kind::device, Kind::host, 5, bounded, "device to host");
  rounds(Kind::host, Kind::pool, 5, bounded, "host to pool");
  rounds(Kind::mapped, Kind::pinned, 5, bounded, "mapped to pinned");
  again();
  mixed();
  if (!bounded) unasked();
  return weft::test::finish(failures);
}
