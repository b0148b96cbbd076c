// SPDX-License-Identifier: BSD-3-Clause
// Persistent collectives (MPI 5.0 section 6.13). No info keys are defined.
#include "api/collective_run.hpp"
#include "api/impl.hpp"

namespace weft::api::impl {

Status Barrier_init(core::Communicator& comm, core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(prepare::Barrier(comm), request);
}

Status Bcast_init(void* buffer, MPI_Count count, datatype::Datatype& datatype, int root,
                  core::Communicator& comm, core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(prepare::Bcast(buffer, count, datatype, root, comm), request);
}

Status Reduce_init(const void* sendbuf, void* recvbuf, MPI_Count count, datatype::Datatype& datatype,
                   core::Op& op, int root, core::Communicator& comm, core::Info* /*info*/,
                   MPI_Request* request) {
  return init_persistent(prepare::Reduce(sendbuf, recvbuf, count, datatype, op, root, comm), request);
}

Status Allreduce_init(const void* sendbuf, void* recvbuf, MPI_Count count, datatype::Datatype& datatype,
                      core::Op& op, core::Communicator& comm, core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(prepare::Allreduce(sendbuf, recvbuf, count, datatype, op, comm), request);
}

Status Scan_init(const void* sendbuf, void* recvbuf, MPI_Count count, datatype::Datatype& datatype,
                 core::Op& op, core::Communicator& comm, core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(prepare::Scan(sendbuf, recvbuf, count, datatype, op, comm), request);
}

Status Exscan_init(const void* sendbuf, void* recvbuf, MPI_Count count, datatype::Datatype& datatype,
                   core::Op& op, core::Communicator& comm, core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(prepare::Exscan(sendbuf, recvbuf, count, datatype, op, comm), request);
}

Status Reduce_scatter_block_init(const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                                 datatype::Datatype& datatype, core::Op& op, core::Communicator& comm,
                                 core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(prepare::ReduceScatterBlock(sendbuf, recvbuf, recvcount, datatype, op, comm),
                         request);
}

Status Reduce_scatter_init(const void* sendbuf, void* recvbuf, CountArray recvcounts,
                           datatype::Datatype& datatype, core::Op& op, core::Communicator& comm,
                           core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(prepare::ReduceScatter(sendbuf, recvbuf, recvcounts, datatype, op, comm), request);
}

Status Gather_init(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                   MPI_Count recvcount, datatype::Datatype& recvtype, int root, core::Communicator& comm,
                   core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(
      prepare::Gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm), request);
}

Status Gatherv_init(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                    CountArray recvcounts, CountArray displs, datatype::Datatype& recvtype, int root,
                    core::Communicator& comm, core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(
      prepare::Gatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm),
      request);
}

Status Scatter_init(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                    MPI_Count recvcount, datatype::Datatype& recvtype, int root, core::Communicator& comm,
                    core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(
      prepare::Scatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm), request);
}

Status Scatterv_init(const void* sendbuf, CountArray sendcounts, CountArray displs,
                     datatype::Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
                     datatype::Datatype& recvtype, int root, core::Communicator& comm, core::Info* /*info*/,
                     MPI_Request* request) {
  return init_persistent(
      prepare::Scatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm),
      request);
}

Status Allgather_init(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                      MPI_Count recvcount, datatype::Datatype& recvtype, core::Communicator& comm,
                      core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(prepare::Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm),
                         request);
}

Status Allgatherv_init(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                       CountArray recvcounts, CountArray displs, datatype::Datatype& recvtype,
                       core::Communicator& comm, core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(
      prepare::Allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm),
      request);
}

Status Alltoall_init(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype, void* recvbuf,
                     MPI_Count recvcount, datatype::Datatype& recvtype, core::Communicator& comm,
                     core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(prepare::Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm),
                         request);
}

Status Alltoallv_init(const void* sendbuf, CountArray sendcounts, CountArray sdispls,
                      datatype::Datatype& sendtype, void* recvbuf, CountArray recvcounts, CountArray rdispls,
                      datatype::Datatype& recvtype, core::Communicator& comm, core::Info* /*info*/,
                      MPI_Request* request) {
  return init_persistent(prepare::Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                                            rdispls, recvtype, comm),
                         request);
}

Status Alltoallw_init(const void* sendbuf, CountArray sendcounts, CountArray sdispls, DatatypeArray sendtypes,
                      void* recvbuf, CountArray recvcounts, CountArray rdispls, DatatypeArray recvtypes,
                      core::Communicator& comm, core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(prepare::Alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
                                            rdispls, recvtypes, comm),
                         request);
}

}  // namespace weft::api::impl
