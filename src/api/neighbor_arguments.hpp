// SPDX-License-Identifier: BSD-3-Clause
// Arguments of neighborhood collectives: as collective_arguments.hpp, with one block per neighbor.
#pragma once
#include "api/collective_arguments.hpp"

namespace weft::api::prepare {

class Neighborhood : public Collective {
 protected:
  Neighborhood(coll::Collective what, core::Communicator& comm);
  /// Returns false after an error; MPI_IN_PLACE is an error for both buffers.
  bool valid(const void* send, const void* recv);
};

struct NeighborAllgather : Neighborhood {
  NeighborAllgather(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
                    MPI_Count recv_count, datatype::Datatype& recv_type, core::Communicator& comm,
                    coll::Collective what = coll::Collective::neighbor_allgather);
};

struct NeighborAlltoall : NeighborAllgather {
  NeighborAlltoall(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
                   MPI_Count recv_count, datatype::Datatype& recv_type, core::Communicator& comm)
      : NeighborAllgather(send, send_count, send_type, recv, recv_count, recv_type, comm,
                          coll::Collective::neighbor_alltoall) {}
};

struct NeighborAllgatherv : Neighborhood {
  NeighborAllgatherv(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
                     const CountArray& recv_counts, const CountArray& displacements,
                     datatype::Datatype& recv_type, core::Communicator& comm);
};

struct NeighborAlltoallv : Neighborhood {
  NeighborAlltoallv(const void* send, const CountArray& send_counts, const CountArray& send_displacements,
                    datatype::Datatype& send_type, void* recv, const CountArray& recv_counts,
                    const CountArray& recv_displacements, datatype::Datatype& recv_type,
                    core::Communicator& comm);
};

struct NeighborAlltoallw : Neighborhood {
  NeighborAlltoallw(const void* send, const CountArray& send_counts, const MPI_Aint* send_displacements,
                    const DatatypeArray& send_types, void* recv, const CountArray& recv_counts,
                    const MPI_Aint* recv_displacements, const DatatypeArray& recv_types,
                    core::Communicator& comm);

 private:
  TypeList types_[2];
};

}  // namespace weft::api::prepare
