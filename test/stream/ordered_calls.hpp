// SPDX-License-Identifier: BSD-3-Clause
// Calls of MPI for tests of stream order: each runs on any communicator and memory, so that a communicator
// without stream and host memory are the oracle.
#pragma once
#include <mpi.h>

#include <cstring>
#include <vector>

namespace weft::test::ordered {

/// Arguments of a call: `in` and `out` have room for 2 x n ints per rank.
struct Arguments {
  MPI_Comm comm, grid;  ///< `grid`: a periodic ring of the same ranks
  int *in, *out;
  int n, rank, ranks;
  bool capturing = false;
  bool wildcards = true;  ///< MPI_ANY_SOURCE may be used
  [[nodiscard]] int right() const { return (rank + 1) % ranks; }
  [[nodiscard]] int left() const { return (rank + ranks - 1) % ranks; }
};
struct NamedCall {
  const char* name;
  void (*run)(const Arguments&);
};

/// Every second int.
inline MPI_Datatype strided(int n) {
  MPI_Datatype type;
  MPI_Type_vector(n, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}
inline void wait_all(std::vector<MPI_Request>& requests) {
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}
inline std::vector<int> all(int ranks, int value) {
  return std::vector<int>(static_cast<size_t>(ranks), value);
}
inline std::vector<int> steps(int ranks, int width) {
  std::vector<int> values(static_cast<size_t>(ranks));
  for (int i = 0; i < ranks; ++i) values[static_cast<size_t>(i)] = i * width;
  return values;
}

// Arrays and types are freed before an enqueued call runs.
inline const NamedCall kCalls[] = {
    {"Sendrecv",
     [](const Arguments& a) {
       MPI_Sendrecv(a.in, a.n, MPI_INT, a.right(), 3, a.out, a.n, MPI_INT, a.left(), 3, a.comm,
                    MPI_STATUS_IGNORE);
     }},
    {"Isend, Irecv, Waitall",
     [](const Arguments& a) {
       std::vector<MPI_Request> requests(2);
       MPI_Irecv(a.out, a.n, MPI_INT, a.left(), 4, a.comm, &requests[0]);
       MPI_Isend(a.in, a.n, MPI_INT, a.right(), 4, a.comm, &requests[1]);
       wait_all(requests);
     }},
    {"Send, Recv",
     [](const Arguments& a) {
       if (a.ranks % 2 != 0) return;
       for (int turn = 0; turn < 2; ++turn)
         if (a.rank % 2 == turn)
           MPI_Ssend(a.in, a.n, MPI_INT, a.rank ^ 1, 5, a.comm);
         else
           MPI_Recv(a.out, a.n, MPI_INT, a.rank ^ 1, MPI_ANY_TAG, a.comm, MPI_STATUS_IGNORE);
     }},
    {"ANY_SOURCE",
     [](const Arguments& a) {
       MPI_Request request;
       MPI_Irsend(a.in, 0, MPI_INT, MPI_PROC_NULL, 5, a.comm, &request);
       MPI_Wait(&request, MPI_STATUS_IGNORE);
       MPI_Isend(a.in, a.n, MPI_INT, a.right(), 6, a.comm, &request);
       MPI_Recv(a.out, 2 * a.n, MPI_INT, a.wildcards ? MPI_ANY_SOURCE : a.left(), 6, a.comm,
                MPI_STATUS_IGNORE);
       MPI_Wait(&request, MPI_STATUS_IGNORE);
     }},
    {"persistent",
     [](const Arguments& a) {
       if (a.capturing) return;
       std::vector<MPI_Request> requests(2);
       MPI_Recv_init(a.out, a.n, MPI_INT, a.left(), 7, a.comm, &requests[0]);
       MPI_Send_init(a.in, a.n, MPI_INT, a.right(), 7, a.comm, &requests[1]);
       for (int round = 0; round < 3; ++round) {
         MPI_Startall(2, requests.data());
         wait_all(requests);
       }
       for (MPI_Request& request : requests) MPI_Request_free(&request);
     }},
    {"Sendrecv_replace",
     [](const Arguments& a) {
       MPI_Sendrecv(a.in, a.n, MPI_INT, a.rank, 8, a.out, a.n, MPI_INT, a.rank, 8, a.comm, MPI_STATUS_IGNORE);
       MPI_Sendrecv_replace(a.out, a.n, MPI_INT, a.right(), 9, a.left(), 9, a.comm, MPI_STATUS_IGNORE);
     }},
    {"Isendrecv",
     [](const Arguments& a) {
       MPI_Request request;
       MPI_Isendrecv(a.in, a.n, MPI_INT, a.left(), 10, a.out, a.n, MPI_INT, a.right(), 10, a.comm, &request);
       MPI_Wait(&request, MPI_STATUS_IGNORE);
     }},
    {"strided types",
     [](const Arguments& a) {
       MPI_Datatype type = strided(a.n);
       MPI_Sendrecv(a.in, 1, type, a.right(), 11, a.out, 1, type, a.left(), 11, a.comm, MPI_STATUS_IGNORE);
       MPI_Type_free(&type);
     }},
    {"Barrier", [](const Arguments& a) { MPI_Barrier(a.comm); }},
    {"Bcast",
     [](const Arguments& a) {
       MPI_Bcast(a.rank == a.ranks - 1 ? a.in : a.out, a.n, MPI_INT, a.ranks - 1, a.comm);
     }},
    {"Reduce", [](const Arguments& a) { MPI_Reduce(a.in, a.out, a.n, MPI_INT, MPI_MAX, 0, a.comm); }},
    {"Allreduce", [](const Arguments& a) { MPI_Allreduce(a.in, a.out, a.n, MPI_INT, MPI_SUM, a.comm); }},
    {"Allreduce in place",
     [](const Arguments& a) {
       MPI_Sendrecv(a.in, a.n, MPI_INT, a.rank, 8, a.out, a.n, MPI_INT, a.rank, 8, a.comm, MPI_STATUS_IGNORE);
       MPI_Allreduce(MPI_IN_PLACE, a.out, a.n, MPI_INT, MPI_SUM, a.comm);
     }},
    {"Iallreduce",
     [](const Arguments& a) {
       MPI_Request request;
       MPI_Iallreduce(a.in, a.out, a.n, MPI_INT, MPI_SUM, a.comm, &request);
       MPI_Wait(&request, MPI_STATUS_IGNORE);
     }},
    {"Allreduce_init",
     [](const Arguments& a) {
       if (a.capturing) return;
       MPI_Request request;
       MPI_Allreduce_init(a.in, a.out, a.n, MPI_INT, MPI_SUM, a.comm, MPI_INFO_NULL, &request);
       for (int round = 0; round < 2; ++round) {
         MPI_Start(&request);
         MPI_Wait(&request, MPI_STATUS_IGNORE);
       }
       MPI_Request_free(&request);
     }},
    {"Gatherv",
     [](const Arguments& a) {
       const auto counts = all(a.ranks, a.n), displacements = steps(a.ranks, a.n);
       MPI_Gatherv(a.in, a.n, MPI_INT, a.out, counts.data(), displacements.data(), MPI_INT, 0, a.comm);
     }},
    {"Scatter", [](const Arguments& a) { MPI_Scatter(a.in, a.n, MPI_INT, a.out, a.n, MPI_INT, 0, a.comm); }},
    {"Allgather", [](const Arguments& a) { MPI_Allgather(a.in, a.n, MPI_INT, a.out, a.n, MPI_INT, a.comm); }},
    {"Iallgatherv",
     [](const Arguments& a) {
       MPI_Request request;
       {
         const auto counts = all(a.ranks, a.n), displacements = steps(a.ranks, a.n);
         MPI_Iallgatherv(a.in, a.n, MPI_INT, a.out, counts.data(), displacements.data(), MPI_INT, a.comm,
                         &request);
       }
       MPI_Wait(&request, MPI_STATUS_IGNORE);
     }},
    {"Alltoall", [](const Arguments& a) { MPI_Alltoall(a.in, a.n, MPI_INT, a.out, a.n, MPI_INT, a.comm); }},
    {"Alltoallv",
     [](const Arguments& a) {
       const auto counts = all(a.ranks, a.n), displacements = steps(a.ranks, 2 * a.n);
       MPI_Alltoallv(a.in, counts.data(), displacements.data(), MPI_INT, a.out, counts.data(),
                     displacements.data(), MPI_INT, a.comm);
     }},
    {"Alltoallw",
     [](const Arguments& a) {
       const auto counts = all(a.ranks, 1), displacements = steps(a.ranks, 8 * a.n);
       MPI_Datatype type = strided(a.n);
       const std::vector<MPI_Datatype> types(static_cast<size_t>(a.ranks), type);
       MPI_Alltoallw(a.in, counts.data(), displacements.data(), types.data(), a.out, counts.data(),
                     displacements.data(), types.data(), a.comm);
       MPI_Type_free(&type);
     }},
    {"Reduce_scatter",
     [](const Arguments& a) {
       const auto counts = all(a.ranks, a.n);
       MPI_Reduce_scatter(a.in, a.out, counts.data(), MPI_INT, MPI_SUM, a.comm);
     }},
    {"Reduce_scatter_block",
     [](const Arguments& a) { MPI_Reduce_scatter_block(a.in, a.out, a.n, MPI_INT, MPI_SUM, a.comm); }},
    {"Scan", [](const Arguments& a) { MPI_Scan(a.in, a.out, a.n, MPI_INT, MPI_SUM, a.comm); }},
    {"Iexscan",
     [](const Arguments& a) {
       MPI_Request request;
       MPI_Iexscan(a.in, a.out, a.n, MPI_INT, MPI_SUM, a.comm, &request);
       MPI_Wait(&request, MPI_STATUS_IGNORE);
     }},
    {"Neighbor_alltoall",
     [](const Arguments& a) { MPI_Neighbor_alltoall(a.in, a.n, MPI_INT, a.out, a.n, MPI_INT, a.grid); }},
    {"Ineighbor_alltoallw",
     [](const Arguments& a) {
       MPI_Request request;
       const auto counts = all(2, a.n);
       const std::vector<MPI_Aint> displacements = {0, a.n * static_cast<MPI_Aint>(sizeof(int))};
       const std::vector<MPI_Datatype> types(2, MPI_INT);
       MPI_Ineighbor_alltoallw(a.in, counts.data(), displacements.data(), types.data(), a.out, counts.data(),
                               displacements.data(), types.data(), a.grid, &request);
       MPI_Wait(&request, MPI_STATUS_IGNORE);
     }},
};

}  // namespace weft::test::ordered
