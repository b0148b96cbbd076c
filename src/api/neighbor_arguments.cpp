// SPDX-License-Identifier: BSD-3-Clause
#include "api/neighbor_arguments.hpp"

#include <string>

#include "api/check.hpp"

namespace weft::api::prepare {
namespace {

using CollectiveKind = coll::Collective;

}  // namespace

Neighborhood::Neighborhood(CollectiveKind what, core::Communicator& comm) : Collective(what, comm) {
  call.recv.blocks = indegree(comm);
  call.send.blocks = outdegree(comm);
  if (comm.topology == nullptr)
    fail(Error(Errc::topology, std::string(coll::name(what)) +
                                   " needs a communicator with a topology: MPI_Cart_create, "
                                   "MPI_Dist_graph_create_adjacent and others make one"));
}

bool Neighborhood::valid(const void* send, const void* recv) {
  const bool sends_in_place = in_place(send, "sendbuf", false);
  return !in_place(recv, "recvbuf", false) && !sends_in_place && status.ok();
}

NeighborAllgather::NeighborAllgather(const void* send, MPI_Count send_count, datatype::Datatype& send_type,
                                     void* recv, MPI_Count recv_count, datatype::Datatype& recv_type,
                                     core::Communicator& comm, CollectiveKind what)
    : Neighborhood(what, comm) {
  if (!valid(send, recv)) return;
  set(call.send, send, send_count, send_type);
  set(call.recv, recv, recv_count, recv_type);
  classify();
}

NeighborAllgatherv::NeighborAllgatherv(const void* send, MPI_Count send_count, datatype::Datatype& send_type,
                                       void* recv, const CountArray& recv_counts,
                                       const CountArray& displacements, datatype::Datatype& recv_type,
                                       core::Communicator& comm)
    : Neighborhood(CollectiveKind::neighbor_allgatherv, comm) {
  if (!valid(send, recv)) return;
  set(call.send, send, send_count, send_type);
  set(call.recv, recv, 0, recv_type);
  call.recv.counts = view_of(recv_counts);
  call.recv.displacements = view_of(displacements);
  classify();
}

NeighborAlltoallv::NeighborAlltoallv(const void* send, const CountArray& send_counts,
                                     const CountArray& send_displacements, datatype::Datatype& send_type,
                                     void* recv, const CountArray& recv_counts,
                                     const CountArray& recv_displacements, datatype::Datatype& recv_type,
                                     core::Communicator& comm)
    : Neighborhood(CollectiveKind::neighbor_alltoallv, comm) {
  if (!valid(send, recv)) return;
  set(call.send, send, 0, send_type);
  call.send.counts = view_of(send_counts);
  call.send.displacements = view_of(send_displacements);
  set(call.recv, recv, 0, recv_type);
  call.recv.counts = view_of(recv_counts);
  call.recv.displacements = view_of(recv_displacements);
  classify();
}

NeighborAlltoallw::NeighborAlltoallw(const void* send, const CountArray& send_counts,
                                     const MPI_Aint* send_displacements, const DatatypeArray& send_types,
                                     void* recv, const CountArray& recv_counts,
                                     const MPI_Aint* recv_displacements, const DatatypeArray& recv_types,
                                     core::Communicator& comm)
    : Neighborhood(CollectiveKind::neighbor_alltoallw, comm) {
  if (!valid(send, recv)) return;
  call.send.address = const_cast<void*>(send);
  call.send.counts = view_of(send_counts);
  call.send.displacements = {send_displacements, true};
  call.send.types = types_[0].assign(send_types, call.send.blocks);
  call.recv.address = recv;
  call.recv.counts = view_of(recv_counts);
  call.recv.displacements = {recv_displacements, true};
  call.recv.types = types_[1].assign(recv_types, call.recv.blocks);
  classify();
}

}  // namespace weft::api::prepare
