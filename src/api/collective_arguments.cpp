// SPDX-License-Identifier: BSD-3-Clause
// Arguments of collectives: filling coll::Call.
#include "api/collective_arguments.hpp"

#include <string>
#include <utility>

#include "api/check.hpp"

namespace weft::api::prepare {
namespace {

using What = coll::Collective;

}  // namespace

Error not_allowed(const core::Op& op, const datatype::Datatype& type) {
  return Error(Errc::op, "op = " + op.name + " is not defined for " +
                             (type.name().empty() ? "a derived datatype" : type.name()) +
                             " (MPI 5.0 section 6.9.2): use another datatype, or MPI_Op_create");
}

Collective::Collective(What what, core::Communicator& comm, int root) {
  call.what = what;
  call.comm = &comm;
  call.rank = comm.rank();
  call.size = comm.size();
  call.root = root;
  if (!comm.inter()) [[likely]]
    return;
  call.size = call.rank = 0;  // no array is looked at
  fail(Error(Errc::unsupported, std::string(coll::name(what)) +
                                    " on an intercommunicator is not there yet: use an intracommunicator "
                                    "(MPI_Intercomm_merge makes one)"));
}

void Collective::fail(Error error) {
  if (status.ok()) status = Status(std::move(error));
}

bool Collective::in_place(const void* buffer, const char* name, bool allowed) {
  if (buffer != MPI_IN_PLACE) [[likely]]
    return false;
  if (!allowed)
    fail(Error(Errc::buffer, std::string(name) + " = MPI_IN_PLACE is not allowed here in " +
                                 coll::name(call.what) + " (MPI 5.0 chapter 6): give a buffer"));
  return allowed;
}

void Collective::set(coll::Operand& operand, const void* address, int64_t count,
                     const datatype::Datatype& type) {
  operand.address = const_cast<void*>(address);
  operand.count = count;
  operand.type = &type;
}

void Collective::set_reduction(const void* send, void* recv, int64_t count, datatype::Datatype& type,
                               core::Op& op, bool in_place_allowed) {
  call.op = &op;
  call.in_place = in_place(send, "sendbuf", in_place_allowed);
  if (in_place(recv, "recvbuf", false)) return;
  set(call.send, call.in_place ? recv : send, count, type);
  set(call.recv, recv, count, type);
  call.results = count;
  call.bytes = static_cast<uint64_t>(count * type.size());
  if (!op.allows(type)) [[unlikely]]
    fail(not_allowed(op, type));
}

void Collective::refuse_alias() {
  if (call.in_place || !checking()) return;
  const coll::Operand &send = call.send, &recv = call.recv;
  if (send.address != recv.address || send.address == nullptr || send.types != nullptr) [[likely]]
    return;
  const auto empty = [&](const coll::Operand& operand) {
    int64_t n = operand.count;
    for (int i = 0; operand.counts && i < call.size; ++i) n += operand.counts[i];
    return operand.type == nullptr || n * operand.type->size() == 0;
  };
  if (empty(send) || empty(recv)) return;
  fail(Error(Errc::buffer,
             std::string("sendbuf and recvbuf of ") + coll::name(call.what) +
                 " are the same buffer: give MPI_IN_PLACE as the one that the call allows it for"));
}

void Collective::classify() {
  if (!status.ok()) return;
  refuse_alias();
  call.send.classify();
  call.recv.classify();
}

coll::Numbers Widened::take(const CountArray& values, int n) {
  if (values.empty()) return {};
  if (n > kInline) heap_.reset(new int64_t[static_cast<size_t>(n)]);
  int64_t* out = heap_ != nullptr ? heap_.get() : inline_;
  for (int i = 0; i < n; ++i) out[i] = values[static_cast<size_t>(i)];
  return {out, true};
}

Barrier::Barrier(core::Communicator& comm) : Collective(What::barrier, comm) {}

Bcast::Bcast(void* buffer, MPI_Count count, datatype::Datatype& type, int root, core::Communicator& comm)
    : Collective(What::bcast, comm, root) {
  if (in_place(buffer, "buffer", false)) return;
  set(call.recv, buffer, count, type);
  call.bytes = static_cast<uint64_t>(count * type.size());
  classify();
}

Reduce::Reduce(const void* send, void* recv, MPI_Count count, datatype::Datatype& type, core::Op& op,
               int root, core::Communicator& comm)
    : Collective(What::reduce, comm, root) {
  const bool at_root = call.rank == root;
  set_reduction(send, at_root ? recv : nullptr, count, type, op, at_root);
  if (!at_root) call.results = 0;
  classify();
}

Allreduce::Allreduce(const void* send, void* recv, MPI_Count count, datatype::Datatype& type, core::Op& op,
                     core::Communicator& comm, What what)
    : Collective(what, comm) {
  set_reduction(send, recv, count, type, op);
  classify();
}

ReduceScatterBlock::ReduceScatterBlock(const void* send, void* recv, MPI_Count count,
                                       datatype::Datatype& type, core::Op& op, core::Communicator& comm)
    : Collective(What::reduce_scatter_block, comm) {
  set_reduction(send, recv, count * call.size, type, op);
  call.recv.count = call.results = count;
  classify();
}

ReduceScatter::ReduceScatter(const void* send, void* recv, const CountArray& counts, datatype::Datatype& type,
                             core::Op& op, core::Communicator& comm)
    : Collective(What::reduce_scatter, comm) {
  const coll::Numbers each = counts_.take(counts, call.size);
  int64_t total = 0;
  for (int i = 0; i < call.size; ++i) total += each[i];
  set_reduction(send, recv, total, type, op);
  call.recv.counts = each;
  if (call.size > 0) call.recv.count = call.results = each[call.rank];
  classify();
}

// Gather and Scatter: a rank that is not the root knows its own block only; at the root the other side is the
// one that always counts, since its own block may be in place.
Gather::Gather(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
               MPI_Count recv_count, datatype::Datatype& recv_type, int root, core::Communicator& comm)
    : Collective(What::gather, comm, root) {
  const bool at_root = call.rank == root;
  call.in_place = in_place(send, "sendbuf", at_root);
  if (!call.in_place) set(call.send, send, send_count, send_type);
  if (at_root && !in_place(recv, "recvbuf", false)) set(call.recv, recv, recv_count, recv_type);
  call.bytes = static_cast<uint64_t>(at_root ? recv_count * recv_type.size() : send_count * send_type.size());
  classify();
}

Gatherv::Gatherv(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
                 const CountArray& recv_counts, const CountArray& displacements,
                 datatype::Datatype& recv_type, int root, core::Communicator& comm)
    : Collective(What::gatherv, comm, root) {
  const bool at_root = call.rank == root;
  call.in_place = in_place(send, "sendbuf", at_root);
  if (!call.in_place) set(call.send, send, send_count, send_type);
  if (at_root && !in_place(recv, "recvbuf", false)) {
    set(call.recv, recv, 0, recv_type);
    call.recv.counts = counts_.take(recv_counts, call.size);
    call.recv.displacements = displacements_.take(displacements, call.size);
  }
  classify();
}

Scatter::Scatter(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
                 MPI_Count recv_count, datatype::Datatype& recv_type, int root, core::Communicator& comm)
    : Collective(What::scatter, comm, root) {
  const bool at_root = call.rank == root;
  call.in_place = in_place(recv, "recvbuf", at_root);
  if (!call.in_place) set(call.recv, recv, recv_count, recv_type);
  if (at_root && !in_place(send, "sendbuf", false)) set(call.send, send, send_count, send_type);
  call.bytes = static_cast<uint64_t>(at_root ? send_count * send_type.size() : recv_count * recv_type.size());
  classify();
}

Scatterv::Scatterv(const void* send, const CountArray& send_counts, const CountArray& displacements,
                   datatype::Datatype& send_type, void* recv, MPI_Count recv_count,
                   datatype::Datatype& recv_type, int root, core::Communicator& comm)
    : Collective(What::scatterv, comm, root) {
  const bool at_root = call.rank == root;
  call.in_place = in_place(recv, "recvbuf", at_root);
  if (!call.in_place) set(call.recv, recv, recv_count, recv_type);
  if (at_root && !in_place(send, "sendbuf", false)) {
    set(call.send, send, 0, send_type);
    call.send.counts = counts_.take(send_counts, call.size);
    call.send.displacements = displacements_.take(displacements, call.size);
  }
  classify();
}

Allgather::Allgather(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
                     MPI_Count recv_count, datatype::Datatype& recv_type, core::Communicator& comm, What what)
    : Collective(what, comm) {
  call.in_place = in_place(send, "sendbuf", true);
  if (in_place(recv, "recvbuf", false)) return;
  if (!call.in_place) set(call.send, send, send_count, send_type);
  set(call.recv, recv, recv_count, recv_type);
  call.bytes = static_cast<uint64_t>(recv_count * recv_type.size());
  classify();
}

Allgatherv::Allgatherv(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
                       const CountArray& recv_counts, const CountArray& displacements,
                       datatype::Datatype& recv_type, core::Communicator& comm)
    : Collective(What::allgatherv, comm) {
  call.in_place = in_place(send, "sendbuf", true);
  if (in_place(recv, "recvbuf", false)) return;
  if (!call.in_place) set(call.send, send, send_count, send_type);
  set(call.recv, recv, 0, recv_type);
  call.recv.counts = counts_.take(recv_counts, call.size);
  call.recv.displacements = displacements_.take(displacements, call.size);
  for (int i = 0; i < call.size; ++i)
    call.bytes += static_cast<uint64_t>(call.recv.counts[i] * recv_type.size());
  classify();
}

Alltoallv::Alltoallv(const void* send, const CountArray& send_counts, const CountArray& send_displacements,
                     datatype::Datatype& send_type, void* recv, const CountArray& recv_counts,
                     const CountArray& recv_displacements, datatype::Datatype& recv_type,
                     core::Communicator& comm)
    : Collective(What::alltoallv, comm) {
  call.in_place = in_place(send, "sendbuf", true);
  if (in_place(recv, "recvbuf", false)) return;
  if (!call.in_place) {
    set(call.send, send, 0, send_type);
    call.send.counts = numbers_[0].take(send_counts, call.size);
    call.send.displacements = numbers_[1].take(send_displacements, call.size);
  }
  set(call.recv, recv, 0, recv_type);
  call.recv.counts = numbers_[2].take(recv_counts, call.size);
  call.recv.displacements = numbers_[3].take(recv_displacements, call.size);
  classify();
}

Alltoallw::Alltoallw(const void* send, const CountArray& send_counts, const CountArray& send_displacements,
                     const DatatypeArray& send_types, void* recv, const CountArray& recv_counts,
                     const CountArray& recv_displacements, const DatatypeArray& recv_types,
                     core::Communicator& comm)
    : Collective(What::alltoallw, comm) {
  call.in_place = in_place(send, "sendbuf", true);
  if (in_place(recv, "recvbuf", false)) return;
  if (!call.in_place) {
    call.send.address = const_cast<void*>(send);
    call.send.counts = numbers_[0].take(send_counts, call.size);
    call.send.displacements = numbers_[1].take(send_displacements, call.size);
    call.send.types = take(send_types, 0);
  }
  call.recv.address = recv;
  call.recv.counts = numbers_[2].take(recv_counts, call.size);
  call.recv.displacements = numbers_[3].take(recv_displacements, call.size);
  call.recv.types = take(recv_types, 1);
  classify();
}

const datatype::Datatype* const* Alltoallw::take(const DatatypeArray& types, int side) {
  const auto n = static_cast<size_t>(call.size);
  types_[side].reset(new const datatype::Datatype*[n]);
  for (size_t i = 0; i < n; ++i) types_[side][i] = &types[i];
  return types_[side].get();
}

}  // namespace weft::api::prepare
