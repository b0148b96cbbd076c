// SPDX-License-Identifier: BSD-3-Clause
// Neighborhood collectives (MPI 5.0 sections 8.7 to 8.9): blocking, nonblocking, persistent.
#include "api/collective_run.hpp"
#include "api/impl.hpp"
#include "api/neighbor_arguments.hpp"

namespace weft::api::impl {

Status Neighbor_allgather(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype,
                          void* recvbuf, MPI_Count recvcount, datatype::Datatype& recvtype,
                          core::Communicator& comm) {
  return run(prepare::NeighborAllgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm));
}

Status Neighbor_allgatherv(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype,
                           void* recvbuf, CountArray recvcounts, CountArray displs,
                           datatype::Datatype& recvtype, core::Communicator& comm) {
  return run(
      prepare::NeighborAllgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm));
}

Status Neighbor_alltoall(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype,
                         void* recvbuf, MPI_Count recvcount, datatype::Datatype& recvtype,
                         core::Communicator& comm) {
  return run(prepare::NeighborAlltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm));
}

Status Neighbor_alltoallv(const void* sendbuf, CountArray sendcounts, CountArray sdispls,
                          datatype::Datatype& sendtype, void* recvbuf, CountArray recvcounts,
                          CountArray rdispls, datatype::Datatype& recvtype, core::Communicator& comm) {
  return run(prepare::NeighborAlltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls,
                                        recvtype, comm));
}

Status Neighbor_alltoallw(const void* sendbuf, CountArray sendcounts, const MPI_Aint* sdispls,
                          DatatypeArray sendtypes, void* recvbuf, CountArray recvcounts,
                          const MPI_Aint* rdispls, DatatypeArray recvtypes, core::Communicator& comm) {
  return run(prepare::NeighborAlltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls,
                                        recvtypes, comm));
}

Status Ineighbor_allgather(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype,
                           void* recvbuf, MPI_Count recvcount, datatype::Datatype& recvtype,
                           core::Communicator& comm, MPI_Request* request) {
  return start(prepare::NeighborAllgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm),
               request);
}

Status Ineighbor_allgatherv(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype,
                            void* recvbuf, CountArray recvcounts, CountArray displs,
                            datatype::Datatype& recvtype, core::Communicator& comm, MPI_Request* request) {
  return start(
      prepare::NeighborAllgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm),
      request);
}

Status Ineighbor_alltoall(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype,
                          void* recvbuf, MPI_Count recvcount, datatype::Datatype& recvtype,
                          core::Communicator& comm, MPI_Request* request) {
  return start(prepare::NeighborAlltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm),
               request);
}

Status Ineighbor_alltoallv(const void* sendbuf, CountArray sendcounts, CountArray sdispls,
                           datatype::Datatype& sendtype, void* recvbuf, CountArray recvcounts,
                           CountArray rdispls, datatype::Datatype& recvtype, core::Communicator& comm,
                           MPI_Request* request) {
  return start(prepare::NeighborAlltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                                          rdispls, recvtype, comm),
               request);
}

Status Ineighbor_alltoallw(const void* sendbuf, CountArray sendcounts, const MPI_Aint* sdispls,
                           DatatypeArray sendtypes, void* recvbuf, CountArray recvcounts,
                           const MPI_Aint* rdispls, DatatypeArray recvtypes, core::Communicator& comm,
                           MPI_Request* request) {
  return start(prepare::NeighborAlltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
                                          rdispls, recvtypes, comm),
               request);
}

Status Neighbor_allgather_init(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype,
                               void* recvbuf, MPI_Count recvcount, datatype::Datatype& recvtype,
                               core::Communicator& comm, core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(
      prepare::NeighborAllgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm), request);
}

Status Neighbor_allgatherv_init(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype,
                                void* recvbuf, CountArray recvcounts, CountArray displs,
                                datatype::Datatype& recvtype, core::Communicator& comm, core::Info* /*info*/,
                                MPI_Request* request) {
  return init_persistent(
      prepare::NeighborAllgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm),
      request);
}

Status Neighbor_alltoall_init(const void* sendbuf, MPI_Count sendcount, datatype::Datatype& sendtype,
                              void* recvbuf, MPI_Count recvcount, datatype::Datatype& recvtype,
                              core::Communicator& comm, core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(
      prepare::NeighborAlltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm), request);
}

Status Neighbor_alltoallv_init(const void* sendbuf, CountArray sendcounts, CountArray sdispls,
                               datatype::Datatype& sendtype, void* recvbuf, CountArray recvcounts,
                               CountArray rdispls, datatype::Datatype& recvtype, core::Communicator& comm,
                               core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(prepare::NeighborAlltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                                    recvcounts, rdispls, recvtype, comm),
                         request);
}

Status Neighbor_alltoallw_init(const void* sendbuf, CountArray sendcounts, const MPI_Aint* sdispls,
                               DatatypeArray sendtypes, void* recvbuf, CountArray recvcounts,
                               const MPI_Aint* rdispls, DatatypeArray recvtypes, core::Communicator& comm,
                               core::Info* /*info*/, MPI_Request* request) {
  return init_persistent(prepare::NeighborAlltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf,
                                                    recvcounts, rdispls, recvtypes, comm),
                         request);
}

}  // namespace weft::api::impl
