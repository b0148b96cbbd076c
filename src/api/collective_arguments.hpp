// SPDX-License-Identifier: BSD-3-Clause
// Arguments of collectives: conversion of MPI arguments to a coll::Call, with the checks that need MPI types.
// One class per collective, shared by its blocking, nonblocking and persistent forms.
#pragma once
#include <mpi.h>

#include <memory>

#include "api/counts.hpp"
#include "base/result.hpp"
#include "coll/schedule/call.hpp"

namespace weft::api::prepare {

/// Reports a reduction that only Weft, MPICH and Open MPI define. Precondition: reporting().
[[gnu::cold]] void report_extension(const core::Op& op, const datatype::Datatype& type);
/// Error for a reduction operation that is not defined for `type`.
[[nodiscard]] Error not_allowed(const core::Op& op, const datatype::Datatype& type);

/// A call that is ready to run if `status` is ok. Views in `call` may point into this object.
class Collective {
 public:
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  coll::Call call;
  Status status;

 protected:
  Collective(coll::Collective what, core::Communicator& comm, int root = 0);
  /// Returns true if `buffer` is MPI_IN_PLACE; sets an error unless `allowed`.
  bool in_place(const void* buffer, const char* name, bool allowed);
  static void set(coll::Operand& operand, const void* address, int64_t count, const datatype::Datatype& type);
  /// Sets both operands of a reduction of `count` elements and checks that the operation allows the type.
  void set_reduction(const void* send, void* recv, int64_t count, datatype::Datatype& type, core::Op& op,
                     bool in_place_allowed = true);
  /// Returns true if send and receive buffer are the same, which MPI forbids.
  [[nodiscard]] bool has_aliased_buffers() const;
  void reject_aliasing();
  void classify();
  /// Number of blocks: the size of the group, on an intercommunicator of the remote group.
  [[nodiscard]] int peers() const { return call.comm->remote_size(); }
  void reject_intercommunicator();
  void fail(Error error);
};

/// Counts or displacements of the caller, which outlive a blocking call; others copy them.
[[nodiscard]] inline coll::CountView view_of(const CountArray& values) {
  return {values.data(), values.wide()};
}

/// The Datatype objects of an array of handles; without heap memory up to kInline ranks.
class TypeList {
 public:
  const datatype::Datatype* const* assign(const DatatypeArray& types, int n);

 private:
  static constexpr size_t kInline = 32;
  const datatype::Datatype* inline_[kInline];
  std::unique_ptr<const datatype::Datatype*[]> heap_;
};

struct Barrier : Collective {
  explicit Barrier(core::Communicator& comm);
};

struct Bcast : Collective {
  Bcast(void* buffer, MPI_Count count, datatype::Datatype& type, int root, core::Communicator& comm);
};

struct Reduce : Collective {
  Reduce(const void* send, void* recv, MPI_Count count, datatype::Datatype& type, core::Op& op, int root,
         core::Communicator& comm);
};

struct Allreduce : Collective {
  Allreduce(const void* send, void* recv, MPI_Count count, datatype::Datatype& type, core::Op& op,
            core::Communicator& comm, coll::Collective what = coll::Collective::allreduce);
};

struct Scan : Allreduce {
  Scan(const void* send, void* recv, MPI_Count count, datatype::Datatype& type, core::Op& op,
       core::Communicator& comm)
      : Allreduce(send, recv, count, type, op, comm, coll::Collective::scan) {
    reject_intercommunicator();
  }
};

struct Exscan : Allreduce {
  Exscan(const void* send, void* recv, MPI_Count count, datatype::Datatype& type, core::Op& op,
         core::Communicator& comm)
      : Allreduce(send, recv, count, type, op, comm, coll::Collective::exscan) {
    reject_intercommunicator();
    if (comm.rank() == 0) call.results = 0;
  }
};

struct ReduceScatterBlock : Collective {
  ReduceScatterBlock(const void* send, void* recv, MPI_Count count, datatype::Datatype& type, core::Op& op,
                     core::Communicator& comm);
};

struct ReduceScatter : Collective {
  ReduceScatter(const void* send, void* recv, const CountArray& counts, datatype::Datatype& type,
                core::Op& op, core::Communicator& comm);
};

struct Gather : Collective {
  Gather(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
         MPI_Count recv_count, datatype::Datatype& recv_type, int root, core::Communicator& comm);
};

struct Gatherv : Collective {
  Gatherv(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
          const CountArray& recv_counts, const CountArray& displacements, datatype::Datatype& recv_type,
          int root, core::Communicator& comm);
};

struct Scatter : Collective {
  Scatter(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
          MPI_Count recv_count, datatype::Datatype& recv_type, int root, core::Communicator& comm);
};

struct Scatterv : Collective {
  Scatterv(const void* send, const CountArray& send_counts, const CountArray& displacements,
           datatype::Datatype& send_type, void* recv, MPI_Count recv_count, datatype::Datatype& recv_type,
           int root, core::Communicator& comm);
};

struct Allgather : Collective {
  Allgather(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
            MPI_Count recv_count, datatype::Datatype& recv_type, core::Communicator& comm,
            coll::Collective what = coll::Collective::allgather);
};

struct Alltoall : Allgather {
  Alltoall(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
           MPI_Count recv_count, datatype::Datatype& recv_type, core::Communicator& comm)
      : Allgather(send, send_count, send_type, recv, recv_count, recv_type, comm,
                  coll::Collective::alltoall) {}
};

struct Allgatherv : Collective {
  Allgatherv(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
             const CountArray& recv_counts, const CountArray& displacements, datatype::Datatype& recv_type,
             core::Communicator& comm);
};

struct Alltoallv : Collective {
  Alltoallv(const void* send, const CountArray& send_counts, const CountArray& send_displacements,
            datatype::Datatype& send_type, void* recv, const CountArray& recv_counts,
            const CountArray& recv_displacements, datatype::Datatype& recv_type, core::Communicator& comm);
};

struct Alltoallw : Collective {
  Alltoallw(const void* send, const CountArray& send_counts, const CountArray& send_displacements,
            const DatatypeArray& send_types, void* recv, const CountArray& recv_counts,
            const CountArray& recv_displacements, const DatatypeArray& recv_types, core::Communicator& comm);

 private:
  TypeList types_[2];
};

}  // namespace weft::api::prepare
