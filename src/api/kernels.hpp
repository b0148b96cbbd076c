// SPDX-License-Identifier: BSD-3-Clause
// Kernels: ordinary calls on communicators whose ranks all promise that kernels can execute them
// (docs/streams.md). The functions have the arguments of api/impl.hpp behind the name of the call, and return
// nullopt if the host has to execute the call, which depends on arguments that are equal on all ranks.
// Threading: under the instance lock. Precondition: ordered::by_kernels().
#pragma once
#include <mpi.h>

#include <optional>

#include "api/counts.hpp"
#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/info.hpp"
#include "core/op.hpp"
#include "datatype/datatype.hpp"

namespace weft::api::kernels {

using Outcome = std::optional<Status>;
using core::Communicator;
using core::Info;
using core::Op;
using datatype::Datatype;

// Point-to-point communication (kernel_messages.cpp).
#define WEFT_SEND(Name, name)                                                                              \
  [[nodiscard]] Outcome Name(const char* call, const void* buf, MPI_Count count, Datatype& type, int dest, \
                             int tag, Communicator& comm);                                                 \
  [[nodiscard]] Outcome I##name(const char* call, const void* buf, MPI_Count count, Datatype& type,        \
                                int dest, int tag, Communicator& comm, MPI_Request* request);              \
  [[nodiscard]] Outcome Name##_init(const char* call, const void* buf, MPI_Count count, Datatype& type,    \
                                    int dest, int tag, Communicator& comm, MPI_Request* request)
WEFT_SEND(Send, send);
WEFT_SEND(Ssend, ssend);
WEFT_SEND(Rsend, rsend);
#undef WEFT_SEND
[[nodiscard]] Outcome Recv(const char* call, void* buf, MPI_Count count, Datatype& type, int source, int tag,
                           Communicator& comm, MPI_Status* status);
[[nodiscard]] Outcome Irecv(const char* call, void* buf, MPI_Count count, Datatype& type, int source, int tag,
                            Communicator& comm, MPI_Request* request);
[[nodiscard]] Outcome Recv_init(const char* call, void* buf, MPI_Count count, Datatype& type, int source,
                                int tag, Communicator& comm, MPI_Request* request);
[[nodiscard]] Outcome Sendrecv(const char* call, const void* sendbuf, MPI_Count sendcount, Datatype& sendtype,
                               int dest, int sendtag, void* recvbuf, MPI_Count recvcount, Datatype& recvtype,
                               int source, int recvtag, Communicator& comm, MPI_Status* status);
[[nodiscard]] Outcome Isendrecv(const char* call, const void* sendbuf, MPI_Count sendcount,
                                Datatype& sendtype, int dest, int sendtag, void* recvbuf, MPI_Count recvcount,
                                Datatype& recvtype, int source, int recvtag, Communicator& comm,
                                MPI_Request* request);
[[nodiscard]] Outcome Sendrecv_replace(const char* call, void* buf, MPI_Count count, Datatype& type, int dest,
                                       int sendtag, int source, int recvtag, Communicator& comm,
                                       MPI_Status* status);

/// Parameters of a form of a collective behind its arguments: none, MPI_Request*, or Info* and MPI_Request*.
#define WEFT_FORMS(Name, name, ...)                                                                       \
  [[nodiscard]] Outcome Name(const char* call, __VA_ARGS__, Communicator& comm);                          \
  [[nodiscard]] Outcome I##name(const char* call, __VA_ARGS__, Communicator& comm, MPI_Request* request); \
  [[nodiscard]] Outcome Name##_init(const char* call, __VA_ARGS__, Communicator& comm, Info* info,        \
                                    MPI_Request* request)
// Collectives with a kernel (kernel_collectives.cpp).
[[nodiscard]] Outcome Barrier(const char* call, Communicator& comm);
[[nodiscard]] Outcome Ibarrier(const char* call, Communicator& comm, MPI_Request* request);
[[nodiscard]] Outcome Barrier_init(const char* call, Communicator& comm, Info* info, MPI_Request* request);
WEFT_FORMS(Bcast, bcast, void* buffer, MPI_Count count, Datatype& type, int root);
WEFT_FORMS(Allreduce, allreduce, const void* sendbuf, void* recvbuf, MPI_Count count, Datatype& type, Op& op);
WEFT_FORMS(Reduce_scatter_block, reduce_scatter_block, const void* sendbuf, void* recvbuf,
           MPI_Count recvcount, Datatype& type, Op& op);
WEFT_FORMS(Allgather, allgather, const void* sendbuf, MPI_Count sendcount, Datatype& sendtype, void* recvbuf,
           MPI_Count recvcount, Datatype& recvtype);
WEFT_FORMS(Alltoall, alltoall, const void* sendbuf, MPI_Count sendcount, Datatype& sendtype, void* recvbuf,
           MPI_Count recvcount, Datatype& recvtype);
// Collectives of messages of any sizes.
WEFT_FORMS(Allgatherv, allgatherv, const void* sendbuf, MPI_Count sendcount, Datatype& sendtype,
           void* recvbuf, CountArray recvcounts, CountArray displs, Datatype& recvtype);
WEFT_FORMS(Alltoallv, alltoallv, const void* sendbuf, CountArray sendcounts, CountArray sdispls,
           Datatype& sendtype, void* recvbuf, CountArray recvcounts, CountArray rdispls, Datatype& recvtype);
WEFT_FORMS(Alltoallw, alltoallw, const void* sendbuf, CountArray sendcounts, CountArray sdispls,
           DatatypeArray sendtypes, void* recvbuf, CountArray recvcounts, CountArray rdispls,
           DatatypeArray recvtypes);
WEFT_FORMS(Neighbor_allgather, neighbor_allgather, const void* sendbuf, MPI_Count sendcount,
           Datatype& sendtype, void* recvbuf, MPI_Count recvcount, Datatype& recvtype);
WEFT_FORMS(Neighbor_allgatherv, neighbor_allgatherv, const void* sendbuf, MPI_Count sendcount,
           Datatype& sendtype, void* recvbuf, CountArray recvcounts, CountArray displs, Datatype& recvtype);
WEFT_FORMS(Neighbor_alltoall, neighbor_alltoall, const void* sendbuf, MPI_Count sendcount, Datatype& sendtype,
           void* recvbuf, MPI_Count recvcount, Datatype& recvtype);
WEFT_FORMS(Neighbor_alltoallv, neighbor_alltoallv, const void* sendbuf, CountArray sendcounts,
           CountArray sdispls, Datatype& sendtype, void* recvbuf, CountArray recvcounts, CountArray rdispls,
           Datatype& recvtype);
WEFT_FORMS(Neighbor_alltoallw, neighbor_alltoallw, const void* sendbuf, CountArray sendcounts,
           const MPI_Aint* sdispls, DatatypeArray sendtypes, void* recvbuf, CountArray recvcounts,
           const MPI_Aint* rdispls, DatatypeArray recvtypes);
#undef WEFT_FORMS

}  // namespace weft::api::kernels
