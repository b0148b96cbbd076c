// SPDX-License-Identifier: BSD-3-Clause
// Array sections in several threads, through the symbols of module mpi_f08: each thread has datatypes of its
// own, which the next thread inherits; MPI_Finalize frees those of ended threads and of threads that still
// run.
#include <mpi.h>

#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "fortran/descriptor.hpp"

using weft::fortran::Descriptor;

extern "C" {
void mpi_sendrecv_f08ts_(const Descriptor* sendbuf, const int* sendcount, const int* sendtype,
                         const int* dest, const int* sendtag, const Descriptor* recvbuf, const int* recvcount,
                         const int* recvtype, const int* source, const int* recvtag, const int* comm,
                         int* status, int* ierror);
void mpi_iallreduce_f08ts_(const Descriptor* sendbuf, const Descriptor* recvbuf, const int* count,
                           const int* datatype, const int* op, const int* comm, int* request, int* ierror);
void mpi_wait_(int* request, int* status, int* ierror);
}

namespace {

constexpr int kThreads = 4, kRounds = 6, kRepeat = 60, kSections = 24;  // more sections than a thread keeps

void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "not true: %s\n", what);
  std::abort();
}

/// Elements 0, stride, 2 * stride ... of an array of int.
Descriptor section(int* array, ptrdiff_t elements, ptrdiff_t stride) {
  Descriptor made{};
  made.base = array;
  made.element_bytes = sizeof(int);
  made.rank = 1;
  made.dimensions[0] = {0, elements, stride * static_cast<ptrdiff_t>(sizeof(int))};
  return made;
}

const int kInteger = MPI_Type_toint(MPI_INTEGER);

void exchange(int thread, int which) {
  const int stride = 2 + which % 5, count = 3 + which / 5, self = MPI_Comm_toint(MPI_COMM_SELF), zero = 0;
  std::vector<int> from(static_cast<size_t>(count * stride)),
      to(static_cast<size_t>(count * (stride + 1)), -1);
  for (int i = 0; i < count; ++i) from[static_cast<size_t>(i * stride)] = 1000 * thread + i;
  const Descriptor send = section(from.data(), count, stride),
                   receive = section(to.data(), count, stride + 1);
  MPI_Status status;
  int error = -1;
  mpi_sendrecv_f08ts_(&send, &count, &kInteger, &zero, &thread, &receive, &count, &kInteger, &zero, &thread,
                      &self, reinterpret_cast<int*>(&status), &error);
  expect(error == MPI_SUCCESS, "the exchange succeeds");
  for (int i = 0; i < count * (stride + 1); ++i)
    expect(to[static_cast<size_t>(i)] == (i % (stride + 1) == 0 ? 1000 * thread + i / (stride + 1) : -1),
           "the section has the message, and nothing else does");
}

/// A reduction whose copies another thread stores and frees.
struct Reduction {
  std::vector<int> from = std::vector<int>(10, 7), to = std::vector<int>(10, -1);
  int request = 0;
  void start(MPI_Comm comm) {
    const Descriptor send = section(from.data(), 5, 2), receive = section(to.data(), 5, 2);
    const int count = 5, sum = MPI_Op_toint(MPI_SUM), number = MPI_Comm_toint(comm);
    int error = -1;
    mpi_iallreduce_f08ts_(&send, &receive, &count, &kInteger, &sum, &number, &request, &error);
    expect(error == MPI_SUCCESS, "the reduction starts");
  }
  void finish() {
    MPI_Status status;
    int error = -1;
    mpi_wait_(&request, reinterpret_cast<int*>(&status), &error);
    expect(error == MPI_SUCCESS, "the reduction completes");
    for (size_t i = 0; i < to.size(); ++i) expect(to[i] == (i % 2 == 0 ? 7 : -1), "the section has the sum");
  }
};

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  expect(provided == MPI_THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE is there");
  std::vector<MPI_Comm> comms(kThreads);
  for (MPI_Comm& comm : comms) MPI_Comm_dup(MPI_COMM_SELF, &comm);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Reduction> reductions(kThreads);
    std::barrier started(kThreads);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        reductions[static_cast<size_t>(thread)].start(comms[static_cast<size_t>(thread)]);
        started.arrive_and_wait();
        reductions[static_cast<size_t>((thread + 1) % kThreads)].finish();
        for (int i = 0; i < kRepeat; ++i) exchange(thread, (i * (thread + 1)) % kSections);
      });
    for (std::thread& thread : threads) thread.join();
  }
  // A thread that still runs when MPI_Finalize frees its datatypes.
  std::atomic<bool> used{false}, finalized{false};
  std::thread late([&] {
    exchange(0, 0);
    used = true;
    used.notify_all();
    finalized.wait(false);
  });
  used.wait(false);
  for (MPI_Comm& comm : comms) MPI_Comm_free(&comm);
  MPI_Finalize();
  finalized = true;
  finalized.notify_all();
  late.join();
  return 0;
}
