// SPDX-License-Identifier: BSD-3-Clause
// Synchronous copies and fills of GPU memory that return before they are done: cudaMemcpy from pageable
// memory and between GPU buffers, cudaMemset. A send or an all-reduce right after one delivers what it wrote,
// and a receive right after one does not change what it read. Argument: kinds of memory,
// "device,pool,mapped,managed" by default.
#include <mpi.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Address;
using weft::test::Buffer;
using weft::test::cuda;
using weft::test::pattern;

constexpr Buffer::Kind kKinds[] = {Buffer::Kind::device, Buffer::Kind::pool, Buffer::Kind::mapped,
                                   Buffer::Kind::managed};
constexpr size_t kSizes[] = {8, 64 << 10, 1 << 20};
constexpr int kRounds = 3;
int rank = 0, ranks = 0, failures = 0, device = 0;

enum class Write { from_host, from_device, fill };
constexpr const char* kWrites[] = {"a copy from host memory", "a copy of GPU memory", "a fill"};

Address address(const Buffer& buffer) { return reinterpret_cast<Address>(buffer.data()); }

/// Bytes that every rank can compute.
std::vector<char> content(Write how, size_t size, unsigned seed) {
  return how == Write::fill ? std::vector<char>(size, static_cast<char>(seed)) : pattern(size, seed);
}

/// Writes `bytes`, the content of `seed`, by a call that may return before it is done. `source` holds them
/// already.
void write(Write how, const Buffer& to, const Buffer& source, const std::vector<char>& bytes, unsigned seed) {
  cuda().cuCtxSetCurrent(cuda().primary[static_cast<size_t>(device)]);
  if (how == Write::from_host) (void)cuda().cuMemcpyHtoD_v2(address(to), bytes.data(), bytes.size());
  if (how == Write::from_device) (void)cuda().cuMemcpyDtoD_v2(address(to), address(source), bytes.size());
  if (how == Write::fill)
    (void)cuda().cuMemsetD8_v2(address(to), static_cast<unsigned char>(seed), bytes.size());
}

void expect(bool right, const std::string& what) {
  if (!right && ++failures < 20) std::fprintf(stderr, "rank %d: %s\n", rank, what.c_str());
}

/// Rank 0 writes and sends at once; rank 1 receives, copies away, and receives the next message at once.
void send_and_receive(Buffer::Kind kind, Write how, size_t size, bool fresh) {
  const std::string what = std::string(weft::test::name(kind)) + ", " + std::to_string(size) + " bytes, " +
                           (fresh ? "fresh" : "kept") + ", after " + kWrites[static_cast<int>(how)];
  auto buffer = std::make_unique<Buffer>(kind, size, device);
  Buffer other(Buffer::Kind::device, size, device);
  std::vector<char> before;
  for (unsigned round = 1; round <= kRounds; ++round) {
    if (fresh) buffer = std::make_unique<Buffer>(kind, size, device);
    const auto bytes = content(how, size, round);
    const int count = static_cast<int>(size);
    if (rank == 0) {
      other.write(bytes);
      if (fresh) buffer->write(std::vector<char>(size));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      write(how, *buffer, other, bytes, round);
      MPI_Send(buffer->data(), count, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    } else if (rank == 1) {
      if (!fresh && round > 1) write(Write::from_device, other, *buffer, before, 0);
      MPI_Recv(buffer->data(), count, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      expect(buffer->read() == bytes, "old bytes were sent: " + what);
      if (!fresh && round > 1) expect(other.read() == before, "overwritten while it was copied: " + what);
      before = bytes;
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// Starts a persistent send right after a copy, while another send from the same allocation is active.
void start_persistent(Buffer::Kind kind, size_t size) {
  const std::string what = std::string(weft::test::name(kind)) + ", " + std::to_string(size) + " bytes";
  const Buffer both(kind, 2 * size, device);
  const int count = static_cast<int>(size);
  char* const second = both.data() + size;
  MPI_Request requests[2];
  if (rank == 0)
    MPI_Send_init(second, count, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[1]);
  else
    MPI_Recv_init(second, count, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[1]);
  for (unsigned round = 1; round <= kRounds; ++round) {
    const auto bytes = pattern(size, round);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      MPI_Isend(both.data(), count, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[0]);
      cuda().cuCtxSetCurrent(cuda().primary[static_cast<size_t>(device)]);
      (void)cuda().cuMemcpyHtoD_v2(reinterpret_cast<Address>(second), bytes.data(), size);
    } else {
      MPI_Irecv(both.data(), count, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[0]);
    }
    MPI_Start(&requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (rank == 1) expect(both.read(size, size) == bytes, "old bytes of a persistent request: " + what);
  }
  MPI_Request_free(&requests[1]);
}

/// All-reduces right after a copy, by calls or by starts of one request.
void reduce(Buffer::Kind kind, size_t size, bool persistent) {
  const Buffer in(kind, size, device), out(kind, size, device), none(kind, size, device);
  const size_t count = size / sizeof(int);
  MPI_Request request = MPI_REQUEST_NULL;
  if (persistent)
    MPI_Allreduce_init(in.data(), out.data(), static_cast<int>(count), MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &request);
  for (unsigned round = 1; round <= kRounds; ++round) {
    std::vector<char> bytes(size);
    for (size_t i = 0; i < count; ++i)
      reinterpret_cast<int*>(bytes.data())[i] = static_cast<int>(round * 1000 + i);
    MPI_Barrier(MPI_COMM_WORLD);
    write(Write::from_host, in, none, bytes, 0);
    if (persistent) {
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    for (size_t i = 0; i < count; ++i) reinterpret_cast<int*>(bytes.data())[i] *= ranks;
    expect(out.read() == bytes,
           std::string(persistent ? "wrong sum of a persistent request: " : "wrong sum: ") +
               weft::test::name(kind) + ", " + std::to_string(size));
  }
  if (persistent) MPI_Request_free(&request);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string chosen = argc > 1 ? argv[1] : "device,pool,mapped,managed";
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  for (const Buffer::Kind kind : kKinds) {
    if (chosen.find(weft::test::name(kind)) == std::string::npos) continue;
    for (const size_t size : kSizes) {
      for (const Write how : {Write::from_host, Write::from_device, Write::fill})
        for (const bool fresh : {false, true}) send_and_receive(kind, how, size, fresh);
      start_persistent(kind, size);
      for (const bool persistent : {false, true}) reduce(kind, size, persistent);
    }
  }
  return weft::test::finish(failures);
}
