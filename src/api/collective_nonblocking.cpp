// SPDX-License-Identifier: BSD-3-Clause
// Nonblocking collectives (MPI 5.0 section 6.12).
#include "api/collective_run.hpp"
#include "api/impl.hpp"

namespace weft::api::impl {

Status Ibarrier(core::Communicator& comm, MPI_Request* request) {
  return start(prepare::Barrier(comm), request);
}

Status Ibcast(void* buffer, MPI_Count count, datatype::Datatype& datatype, int root, core::Communicator& comm,
              MPI_Request* request) {
  return start(prepare::Bcast(buffer, count, datatype, root, comm), request);
}

Status Ireduce(const void* sendbuf, void* recvbuf, MPI_Count count, datatype::Datatype& datatype,
               core::Op& op, int root, core::Communicator& comm, MPI_Request* request) {
  return start(prepare::Reduce(sendbuf, recvbuf, count, datatype, op, root, comm), request);
}

Status Iallreduce(const void* sendbuf, void* recvbuf, MPI_Count count, datatype::Datatype& datatype,
                  core::Op& op, core::Communicator& comm, MPI_Request* request) {
  return start(prepare::Allreduce(sendbuf, recvbuf, count, datatype, op, comm), request);
}

Status Iscan(const void* sendbuf, void* recvbuf, MPI_Count count, datatype::Datatype& datatype, core::Op& op,
             core::Communicator& comm, MPI_Request* request) {
  return start(prepare::Scan(sendbuf, recvbuf, count, datatype, op, comm), request);
}

Status Iexscan(const void* sendbuf, void* recvbuf, MPI_Count count, datatype::Datatype& datatype,
               core::Op& op, core::Communicator& comm, MPI_Request* request) {
  return start(prepare::Exscan(sendbuf, recvbuf, count, datatype, op, comm), request);
}

Status Ireduce_scatter_block(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                             datatype::Datatype& datatype, core::Op& op, core::Communicator& comm,
                             MPI_Request* request) {
  return start(prepare::ReduceScatterBlock(sendbuf, recvbuf, recvcount, datatype, op, comm), request);
}

Status Ireduce_scatter(const void* sendbuf, void* recvbuf, CountArray recvcounts,
                       datatype::Datatype& datatype, core::Op& op, core::Communicator& comm,
                       MPI_Request* request) {
  return start(prepare::ReduceScatter(sendbuf, recvbuf, recvcounts, datatype, op, comm), request);
}

Status Igather(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
               MPI_Count recvcount, datatype::Datatype& recvtype, int root, core::Communicator& comm,
               MPI_Request* request) {
  return start(prepare::Gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm),
               request);
}

Status Igatherv(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                CountArray recvcounts, CountArray displs, datatype::Datatype& recvtype, int root,
                core::Communicator& comm, MPI_Request* request) {
  return start(
      prepare::Gatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm),
      request);
}

Status Iscatter(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                MPI_Count recvcount, datatype::Datatype& recvtype, int root, core::Communicator& comm,
                MPI_Request* request) {
  return start(prepare::Scatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm),
               request);
}

Status Iscatterv(const void* sendbuf, CountArray sendcounts, CountArray displs, datatype::Datatype& sendtype,
                 void* recvbuf, MPI_Count recvcount, datatype::Datatype& recvtype, int root,
                 core::Communicator& comm, MPI_Request* request) {
  return start(
      prepare::Scatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm),
      request);
}

Status Iallgather(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                  MPI_Count recvcount, datatype::Datatype& recvtype, core::Communicator& comm,
                  MPI_Request* request) {
  return start(prepare::Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm), request);
}

Status Iallgatherv(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                   CountArray recvcounts, CountArray displs, datatype::Datatype& recvtype,
                   core::Communicator& comm, MPI_Request* request) {
  return start(prepare::Allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm),
               request);
}

Status Ialltoall(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                 MPI_Count recvcount, datatype::Datatype& recvtype, core::Communicator& comm,
                 MPI_Request* request) {
  return start(prepare::Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm), request);
}

Status Ialltoallv(const void* sendbuf, CountArray sendcounts, CountArray sdispls,
                  datatype::Datatype& sendtype, void* recvbuf, CountArray recvcounts, CountArray rdispls,
                  datatype::Datatype& recvtype, core::Communicator& comm, MPI_Request* request) {
  return start(prepare::Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls,
                                  recvtype, comm),
               request);
}

Status Ialltoallw(const void* sendbuf, CountArray sendcounts, CountArray sdispls, DatatypeArray sendtypes,
                  void* recvbuf, CountArray recvcounts, CountArray rdispls, DatatypeArray recvtypes,
                  core::Communicator& comm, MPI_Request* request) {
  return start(prepare::Alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls,
                                  recvtypes, comm),
               request);
}

}  // namespace weft::api::impl
