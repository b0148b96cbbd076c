// SPDX-License-Identifier: BSD-3-Clause
// Collectives that kernels execute, and neighborhood collectives, which are messages of one launch.
#include <type_traits>
#include <utility>
#include <vector>

#include "api/handles.hpp"
#include "api/kernel_requests.hpp"
#include "api/kernels.hpp"
#include "api/neighbor_arguments.hpp"
#include "api/ordered.hpp"
#include "coll/algorithm/neighbor.hpp"
#include "coll/gpu/plan.hpp"

namespace weft::api::kernels {
namespace {

using Kind = Part::Kind;

constexpr int kNeighborTag = -16;  // tags of the program are not negative

/// Form of a call: blocking, nonblocking, or persistent.
struct Form {
  MPI_Request* request = nullptr;
  bool persistent = false;
};

/// Runs, starts or prepares a collective that `enqueue` puts into the stream.
template <class Enqueue>
Status collective(const char* call, Communicator& comm, const Form& form, Enqueue enqueue) {
  if (form.request == nullptr) {
    WEFT_TRY(queue_of(comm).before_host_call(false));  // nonblocking ones come before
    return with_earlier_error(comm, enqueue());
  }
  auto kept = std::make_unique<ordered::Closure<Enqueue>>(std::move(enqueue));
  return form.persistent ? prepare(call, comm, std::move(kept), form.request)
                         : start(call, comm, std::move(kept), form.request);
}

/// Enqueues a call of class Prepared.
template <class Prepared, class... Arguments>
Status enqueue(Communicator& comm, Arguments&&... arguments) {
  const Prepared prepared(arguments..., comm);
  if (!prepared.status.ok()) return prepared.status.error().copy();
  return queue_of(comm).collective(prepared.call);
}

/// Reductions: without a kernel the host executes the call.
template <class Prepared>
Outcome reduction(const char* call, const void* sendbuf, void* recvbuf, MPI_Count count, Datatype& type,
                  Op& op, Communicator& comm, const Form& form) {
  {
    const Prepared prepared(sendbuf, recvbuf, count, type, op, comm);
    if (!prepared.status.ok()) return Status(prepared.status.error().copy());
    if (prepared.call.scaled || !coll::gpu::has_kernel(prepared.call)) return std::nullopt;
  }
  return collective(call, comm, form,
                    [=, &comm, kept = ordered::keep(type), op_kept = ordered::keep(op)]() -> Status {
                      return enqueue<Prepared>(comm, sendbuf, recvbuf, count, *kept, *op_kept);
                    });
}

template <class Prepared>
Outcome exchange(const char* call, const void* sendbuf, MPI_Count sendcount, Datatype& sendtype,
                 void* recvbuf, MPI_Count recvcount, Datatype& recvtype, Communicator& comm,
                 const Form& form) {
  return collective(call, comm, form,
                    [=, &comm, out = ordered::keep(sendtype), in = ordered::keep(recvtype)]() -> Status {
                      return enqueue<Prepared>(comm, sendbuf, sendcount, *out, recvbuf, recvcount, *in);
                    });
}

Outcome broadcast(const char* call, void* buffer, MPI_Count count, Datatype& type, int root,
                  Communicator& comm, const Form& form) {
  return collective(call, comm, form, [=, &comm, kept = ordered::keep(type)]() -> Status {
    return enqueue<weft::api::prepare::Bcast>(comm, buffer, count, *kept, root);
  });
}

Outcome barrier(const char* call, Communicator& comm, const Form& form) {
  return collective(call, comm, form, [&comm]() -> Status {
    void* const word = queue_of(comm).barrier_word();
    return enqueue<weft::api::prepare::Allreduce>(comm, MPI_IN_PLACE, word, MPI_Count{1},
                                                  *to_datatype(MPI_INT), *to_op(MPI_SUM));
  });
}

/// A collective of messages of any sizes; nullopt: too few thread blocks run at a time.
Outcome blocks(const char* call, const weft::api::prepare::Collective& prepared, Communicator& comm,
               const Form& form) {
  if (!prepared.status.ok()) return Status(prepared.status.error().copy());
  auto planned = queue_of(comm).plan_blocks(prepared.call);
  if (!planned) return Status(std::move(planned).error());
  if (*planned == nullptr) return std::nullopt;
  return collective(call, comm, form, [&comm, kept = std::move(*planned)]() -> Status {
    return queue_of(comm).move_blocks(*kept);
  });
}

/// A neighborhood collective, else as messages. Empty ones are left out: both sides know the size.
Outcome neighborhood(const char* call, const weft::api::prepare::Collective& prepared, Communicator& comm,
                     const Form& form) {
  if (auto done = blocks(call, prepared, comm, form)) return done;
  const coll::Call& arguments = prepared.call;
  const bool same_to_all = arguments.what == coll::Collective::neighbor_allgather ||
                           arguments.what == coll::Collective::neighbor_allgatherv;
  const core::Topology& topology = *comm.topology;
  std::vector<Part> parts;
  const auto add = [&](Kind kind, p2p::Buffer buffer, int peer) {
    if (peer == MPI_PROC_NULL || coll::empty(buffer)) return;
    buffer.memory = nullptr;  // it belongs to `prepared`
    parts.push_back({kind, buffer, peer, kNeighborTag});
  };
  for (int i = 0; i < arguments.recv.blocks; ++i) {
    const int at = coll::algorithm::receive_index(topology, i);
    add(Kind::receive, arguments.recv.block(at), topology.sources[static_cast<size_t>(at)]);
  }
  for (int i = 0; i < arguments.send.blocks; ++i)
    add(Kind::send, same_to_all ? arguments.send.whole() : arguments.send.block(i),
        topology.destinations[static_cast<size_t>(i)]);
  if (form.request == nullptr) return run(call, comm, parts, MPI_STATUS_IGNORE);
  return form.persistent ? prepare(call, comm, parts, form.request) : start(call, comm, parts, form.request);
}

}  // namespace

Outcome Barrier(const char* call, Communicator& comm) { return barrier(call, comm, {}); }
Outcome Ibarrier(const char* call, Communicator& comm, MPI_Request* request) {
  return barrier(call, comm, {request});
}
Outcome Barrier_init(const char* call, Communicator& comm, Info*, MPI_Request* request) {
  return barrier(call, comm, {request, true});
}

/// The three forms of a collective, by a function with the arguments of the blocking form and the form.
#define WEFT_FORMS(Name, name, parameters, run_form)                                                    \
  Outcome Name(const char* call, WEFT_UNPACK parameters, Communicator& comm) {                          \
    const Form form;                                                                                    \
    return run_form;                                                                                    \
  }                                                                                                     \
  Outcome I##name(const char* call, WEFT_UNPACK parameters, Communicator& comm, MPI_Request* request) { \
    const Form form{request, false};                                                                    \
    return run_form;                                                                                    \
  }                                                                                                     \
  Outcome Name##_init(const char* call, WEFT_UNPACK parameters, Communicator& comm, Info*,              \
                      MPI_Request* request) {                                                           \
    const Form form{request, true};                                                                     \
    return run_form;                                                                                    \
  }
#define WEFT_UNPACK(...) __VA_ARGS__

WEFT_FORMS(Bcast, bcast, (void* buffer, MPI_Count count, Datatype& type, int root),
           broadcast(call, buffer, count, type, root, comm, form))
WEFT_FORMS(Allreduce, allreduce,
           (const void* sendbuf, void* recvbuf, MPI_Count count, Datatype& type, Op& op),
           reduction<weft::api::prepare::Allreduce>(call, sendbuf, recvbuf, count, type, op, comm, form))
WEFT_FORMS(Reduce_scatter_block, reduce_scatter_block,
           (const void* sendbuf, void* recvbuf, MPI_Count recvcount, Datatype& type, Op& op),
           reduction<weft::api::prepare::ReduceScatterBlock>(call, sendbuf, recvbuf, recvcount, type, op,
                                                             comm, form))
WEFT_FORMS(Allgather, allgather,
           (const void* sendbuf, MPI_Count sendcount, Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
            Datatype& recvtype),
           exchange<weft::api::prepare::Allgather>(call, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                                   recvtype, comm, form))
WEFT_FORMS(Alltoall, alltoall,
           (const void* sendbuf, MPI_Count sendcount, Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
            Datatype& recvtype),
           exchange<weft::api::prepare::Alltoall>(call, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                                  recvtype, comm, form))
WEFT_FORMS(Allgatherv, allgatherv,
           (const void* sendbuf, MPI_Count sendcount, Datatype& sendtype, void* recvbuf,
            CountArray recvcounts, CountArray displs, Datatype& recvtype),
           blocks(call,
                  weft::api::prepare::Allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                                                 recvtype, comm),
                  comm, form))
WEFT_FORMS(Alltoallv, alltoallv,
           (const void* sendbuf, CountArray sendcounts, CountArray sdispls, Datatype& sendtype, void* recvbuf,
            CountArray recvcounts, CountArray rdispls, Datatype& recvtype),
           blocks(call,
                  weft::api::prepare::Alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                                                rdispls, recvtype, comm),
                  comm, form))
WEFT_FORMS(Alltoallw, alltoallw,
           (const void* sendbuf, CountArray sendcounts, CountArray sdispls, DatatypeArray sendtypes,
            void* recvbuf, CountArray recvcounts, CountArray rdispls, DatatypeArray recvtypes),
           blocks(call,
                  weft::api::prepare::Alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
                                                rdispls, recvtypes, comm),
                  comm, form))
WEFT_FORMS(Neighbor_allgather, neighbor_allgather,
           (const void* sendbuf, MPI_Count sendcount, Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
            Datatype& recvtype),
           neighborhood(call,
                        weft::api::prepare::NeighborAllgather(sendbuf, sendcount, sendtype, recvbuf,
                                                              recvcount, recvtype, comm),
                        comm, form))
WEFT_FORMS(Neighbor_allgatherv, neighbor_allgatherv,
           (const void* sendbuf, MPI_Count sendcount, Datatype& sendtype, void* recvbuf,
            CountArray recvcounts, CountArray displs, Datatype& recvtype),
           neighborhood(call,
                        weft::api::prepare::NeighborAllgatherv(sendbuf, sendcount, sendtype, recvbuf,
                                                               recvcounts, displs, recvtype, comm),
                        comm, form))
WEFT_FORMS(Neighbor_alltoall, neighbor_alltoall,
           (const void* sendbuf, MPI_Count sendcount, Datatype& sendtype, void* recvbuf, MPI_Count recvcount,
            Datatype& recvtype),
           neighborhood(call,
                        weft::api::prepare::NeighborAlltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                                             recvtype, comm),
                        comm, form))
WEFT_FORMS(Neighbor_alltoallv, neighbor_alltoallv,
           (const void* sendbuf, CountArray sendcounts, CountArray sdispls, Datatype& sendtype, void* recvbuf,
            CountArray recvcounts, CountArray rdispls, Datatype& recvtype),
           neighborhood(call,
                        weft::api::prepare::NeighborAlltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                                              recvcounts, rdispls, recvtype, comm),
                        comm, form))
WEFT_FORMS(Neighbor_alltoallw, neighbor_alltoallw,
           (const void* sendbuf, CountArray sendcounts, const MPI_Aint* sdispls, DatatypeArray sendtypes,
            void* recvbuf, CountArray recvcounts, const MPI_Aint* rdispls, DatatypeArray recvtypes),
           neighborhood(call,
                        weft::api::prepare::NeighborAlltoallw(sendbuf, sendcounts, sdispls, sendtypes,
                                                              recvbuf, recvcounts, rdispls, recvtypes, comm),
                        comm, form))

}  // namespace weft::api::kernels
