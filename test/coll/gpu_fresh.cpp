// SPDX-License-Identifier: BSD-3-Clause
// Nonblocking collectives on new communicators, and what is called before they end: a persistent one is made
// while the first one opens the domain; hints change. All ranks have to take the same path. Arguments:
// communicators.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "device/mpi_main.hpp"

namespace {

using weft::test::Buffer;

constexpr int kInts = 100;
int rank, ranks, device, failures;

/// A vector of ints in GPU memory.
class Vector {
 public:
  void fill(int value) {
    const std::vector<int> values(kInts, value);
    std::vector<char> bytes(kInts * sizeof(int));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    buffer_.write(bytes);
  }
  void expect(int value, const char* what, int number) const {
    const std::vector<char> bytes = buffer_.read();
    std::vector<int> values(kInts);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    if (values == std::vector<int>(kInts, value)) return;
    ++failures;
    std::fprintf(stderr, "rank %d of %d: %s, communicator %d\n", rank, ranks, what, number);
  }
  [[nodiscard]] void* data() const { return buffer_.data(); }

 private:
  Buffer buffer_{Buffer::Kind::device, kInts * sizeof(int), device};
};

void persistent_beside_nonblocking(int number) {
  static Vector in, first, second;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  in.fill(rank + number);
  first.fill(-1);
  second.fill(-1);
  MPI_Request requests[2];
  MPI_Iallreduce(in.data(), first.data(), kInts, MPI_INT, MPI_SUM, comm, &requests[0]);
  MPI_Allreduce_init(in.data(), second.data(), kInts, MPI_INT, MPI_MAX, comm, MPI_INFO_NULL, &requests[1]);
  MPI_Start(&requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  first.expect(ranks * (ranks - 1) / 2 + ranks * number, "the nonblocking sum", number);
  second.expect(ranks - 1 + number, "the persistent maximum", number);
  MPI_Request_free(&requests[1]);
  MPI_Comm_free(&comm);
}

/// One rank calls late: the others have changed the hints before they know that all have called.
void hints_beside_nonblocking(int number) {
  static Vector in, out;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "weft_coll_device_packets_max", "0");
  for (int i = 0; i < 2; ++i) {
    in.fill(rank + i + number);
    out.fill(-1);
    MPI_Barrier(comm);
    if (rank == number % ranks) std::this_thread::sleep_for(std::chrono::microseconds(300));
    MPI_Request request;
    MPI_Iallreduce(in.data(), out.data(), kInts, MPI_INT, MPI_SUM, comm, &request);
    if (i != 0) MPI_Comm_set_info(comm, info);  // the first call opens the domain
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    out.expect(ranks * (ranks - 1) / 2 + ranks * (number + i), "a sum while hints change", number);
  }
  MPI_Info_free(&info);
  MPI_Comm_free(&comm);
}

/// On the emulator: kernels did all calls, the persistent ones too.
void check_kernels(unsigned long wanted) {
  if (weft::test::cuda().collectives == nullptr) return;
  unsigned long late = 0;
  const unsigned long done = weft::test::cuda().collectives(&late);
  if (done >= wanted) return;
  ++failures;
  std::fprintf(stderr, "rank %d of %d: kernels did %lu of %lu calls\n", rank, ranks, done, wanted);
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks);
  const int communicators = argc > 1 ? std::atoi(argv[1]) : 100;
  for (int number = 0; number < communicators; ++number) {
    persistent_beside_nonblocking(number);
    hints_beside_nonblocking(number);
  }
  check_kernels(4ul * static_cast<unsigned long>(communicators));
  return weft::test::finish(failures);
}
