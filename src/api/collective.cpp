// SPDX-License-Identifier: BSD-3-Clause
// Blocking collectives (MPI 5.0 chapter 6).
#include "api/collective_run.hpp"
#include "api/impl.hpp"

namespace weft::api::impl {

Status Barrier(core::Communicator& comm) { return run(prepare::Barrier(comm)); }

Status Bcast(void* buffer, MPI_Count count, datatype::Datatype& datatype, int root,
             core::Communicator& comm) {
  return run(prepare::Bcast(buffer, count, datatype, root, comm));
}

Status Reduce(const void* sendbuf, void* recvbuf, MPI_Count count, datatype::Datatype& datatype, core::Op& op,
              int root, core::Communicator& comm) {
  return run(prepare::Reduce(sendbuf, recvbuf, count, datatype, op, root, comm));
}

Status Allreduce(const void* sendbuf, void* recvbuf, MPI_Count count, datatype::Datatype& datatype,
                 core::Op& op, core::Communicator& comm) {
  return run(prepare::Allreduce(sendbuf, recvbuf, count, datatype, op, comm));
}

Status Scan(const void* sendbuf, void* recvbuf, MPI_Count count, datatype::Datatype& datatype, core::Op& op,
            core::Communicator& comm) {
  return run(prepare::Scan(sendbuf, recvbuf, count, datatype, op, comm));
}

Status Exscan(const void* sendbuf, void* recvbuf, MPI_Count count, datatype::Datatype& datatype, core::Op& op,
              core::Communicator& comm) {
  return run(prepare::Exscan(sendbuf, recvbuf, count, datatype, op, comm));
}

Status Reduce_scatter_block(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                            datatype::Datatype& datatype, core::Op& op, core::Communicator& comm) {
  return run(prepare::ReduceScatterBlock(sendbuf, recvbuf, recvcount, datatype, op, comm));
}

Status Reduce_scatter(const void* sendbuf, void* recvbuf, CountArray recvcounts, datatype::Datatype& datatype,
                      core::Op& op, core::Communicator& comm) {
  return run(prepare::ReduceScatter(sendbuf, recvbuf, recvcounts, datatype, op, comm));
}

Status Gather(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
              MPI_Count recvcount, datatype::Datatype& recvtype, int root, core::Communicator& comm) {
  return run(prepare::Gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm));
}

Status Gatherv(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
               CountArray recvcounts, CountArray displs, datatype::Datatype& recvtype, int root,
               core::Communicator& comm) {
  return run(
      prepare::Gatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm));
}

Status Scatter(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
               MPI_Count recvcount, datatype::Datatype& recvtype, int root, core::Communicator& comm) {
  return run(prepare::Scatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm));
}

Status Scatterv(const void* sendbuf, CountArray sendcounts, CountArray displs, datatype::Datatype& sendtype,
                void* recvbuf, MPI_Count recvcount, datatype::Datatype& recvtype, int root,
                core::Communicator& comm) {
  return run(
      prepare::Scatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm));
}

Status Allgather(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                 MPI_Count recvcount, datatype::Datatype& recvtype, core::Communicator& comm) {
  return run(prepare::Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm));
}

Status Allgatherv(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                  CountArray recvcounts, CountArray displs, datatype::Datatype& recvtype,
                  core::Communicator& comm) {
  return run(prepare::Allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm));
}

Status Alltoall(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                MPI_Count recvcount, datatype::Datatype& recvtype, core::Communicator& comm) {
  return run(prepare::Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm));
}

Status Alltoallv(const void* sendbuf, CountArray sendcounts, CountArray sdispls, datatype::Datatype& sendtype,
                 void* recvbuf, CountArray recvcounts, CountArray rdispls, datatype::Datatype& recvtype,
                 core::Communicator& comm) {
  return run(prepare::Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls,
                                recvtype, comm));
}

Status Alltoallw(const void* sendbuf, CountArray sendcounts, CountArray sdispls, DatatypeArray sendtypes,
                 void* recvbuf, CountArray recvcounts, CountArray rdispls, DatatypeArray recvtypes,
                 core::Communicator& comm) {
  return run(prepare::Alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls,
                                recvtypes, comm));
}

}  // namespace weft::api::impl
