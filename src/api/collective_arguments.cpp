// SPDX-License-Identifier: BSD-3-Clause
// Arguments of collectives: fills in a coll::Call.
#include "api/collective_arguments.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "api/check.hpp"

namespace weft::api::prepare {
namespace {

using CollectiveKind = coll::Collective;

}  // namespace

Error not_allowed(const core::Op& op, const datatype::Datatype& type) {
  if (op.scaling != core::Op::Scaling::none)
    return Error(Errc::op,
                 "op = " + op.name + " is not defined here for " +
                     (type.name().empty() ? "a derived datatype" : type.name()) +
                     ": it scales predefined types of numbers, one of MPIX_Op_create_premul_sum its "
                     "own type, in the reductions Reduce, Allreduce, Reduce_scatter and "
                     "Reduce_scatter_block on intracommunicators");
  return Error(Errc::op, "op = " + op.name + " is not defined for " +
                             (type.name().empty() ? "a derived datatype" : type.name()) +
                             " (MPI 5.0 section 6.9.2): use another datatype, or MPI_Op_create");
}

void report_extension(const core::Op& op, const datatype::Datatype& type) {
  static std::atomic<bool> reported{false};
  const bool character = !op.user && type.predefined() && type.basic() == datatype::Basic::character;
  if (character && !reported.exchange(true))
    report("op = " + op.name + " on " + type.name() +
           " is an extension (MPI 5.0 section 6.9.2 excludes characters): use MPI_SIGNED_CHAR or "
           "MPI_UNSIGNED_CHAR");
}

Collective::Collective(CollectiveKind what, core::Communicator& comm, int root) {
  call.what = what;
  call.comm = &comm;
  call.rank = comm.rank();
  call.size = comm.size();
  call.root = root;
  call.send.blocks = call.recv.blocks = comm.remote_size();
}

void Collective::reject_intercommunicator() {
  if (call.inter())
    fail(Error(Errc::comm, std::string(coll::name(call.what)) +
                               " is not defined on an intercommunicator (MPI 5.0 section 6.2.2): use "
                               "MPI_Intercomm_merge first"));
}

void Collective::fail(Error error) {
  if (status.ok()) status = Status(std::move(error));
}

bool Collective::in_place(const void* buffer, const char* name, bool allowed) {
  if (buffer != MPI_IN_PLACE) [[likely]]
    return false;
  allowed = allowed && !call.inter();
  if (!allowed)
    fail(Error(Errc::buffer, std::string(name) + " = MPI_IN_PLACE is not allowed here in " +
                                 coll::name(call.what) + " (MPI 5.0 chapter 6): pass a buffer"));
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
  if (reporting()) [[unlikely]]
    report_extension(op, type);
  if (!op.allows(type) && participates(*call.comm, call.root)) [[unlikely]] {
    call.scaled = op.scales(type) && !call.inter() && call.what != CollectiveKind::scan &&
                  call.what != CollectiveKind::exscan;
    if (!call.scaled) fail(not_allowed(op, type));
  }
}

// A send block and a receive block whose data begin at the same address are an error for any layout. Blocks
// of other ranks are compared only if both buffers start at the same address, which is legal with
// displacements, and with datatypes whose data begin elsewhere, such as the faces and the halo of a cube as
// subarrays.
bool Collective::has_aliased_buffers() const {
  const coll::Operand &send = call.send, &recv = call.recv;
  const auto absent = [](const coll::Operand& operand) {
    return operand.type == nullptr && operand.types == nullptr;
  };
  if (absent(send) || absent(recv)) return false;
  const auto begin = [](const p2p::Buffer& buffer) {
    return reinterpret_cast<intptr_t>(buffer.address) + buffer.type->true_lb();
  };
  const auto same = [begin](const p2p::Buffer& a, const p2p::Buffer& b) {
    return !coll::empty(a) && !coll::empty(b) && begin(a) == begin(b);
  };
  const bool same_address = send.address == recv.address && send.address != nullptr;
  switch (call.what) {
    case CollectiveKind::gather:
    case CollectiveKind::gatherv:
    case CollectiveKind::allgather:
    case CollectiveKind::allgatherv:
    case CollectiveKind::neighbor_allgather:
    case CollectiveKind::neighbor_allgatherv:
      if (call.rank < recv.blocks && same(send.whole(), recv.block(call.rank))) return true;
      for (int i = 0; same_address && i < recv.blocks; ++i)
        if (same(send.whole(), recv.block(i))) return true;
      return false;
    case CollectiveKind::scatter:
    case CollectiveKind::scatterv:
      return call.rank < send.blocks && same(recv.whole(), send.block(call.rank));
    case CollectiveKind::alltoall:
    case CollectiveKind::alltoallv:
    case CollectiveKind::alltoallw:
    case CollectiveKind::neighbor_alltoall:
    case CollectiveKind::neighbor_alltoallv:
    case CollectiveKind::neighbor_alltoallw:
      for (int i = 0; same_address && i < std::min(send.blocks, recv.blocks); ++i)
        if (same(send.block(i), recv.block(i))) return true;
      return false;
    default:
      return same_address && same(send.whole(), recv.part(0, call.results));
  }
}

void Collective::reject_aliasing() {
  if (call.in_place || !checking() || !has_aliased_buffers()) [[likely]]
    return;
  fail(Error(Errc::buffer, std::string("sendbuf and recvbuf of ") + coll::name(call.what) +
                               " are the same buffer: pass MPI_IN_PLACE for the argument that allows it"));
}

void Collective::classify() {
  if (!status.ok()) return;
  reject_aliasing();
  call.recv.classify();
  if (call.in_place && call.send.address == call.recv.address && call.send.type == call.recv.type) {
    call.send.memory = call.recv.memory;
    call.send.classified = call.recv.classified;
  } else {
    call.send.classify();
  }
}

const datatype::Datatype* const* TypeList::assign(const DatatypeArray& types, int n) {
  const auto entries = static_cast<size_t>(n);
  if (entries > kInline) heap_.reset(new const datatype::Datatype*[entries]);
  const datatype::Datatype** const objects = heap_ != nullptr ? heap_.get() : inline_;
  for (size_t i = 0; i < entries; ++i) objects[i] = &types[i];
  return objects;
}

Barrier::Barrier(core::Communicator& comm) : Collective(CollectiveKind::barrier, comm) {}

Bcast::Bcast(void* buffer, MPI_Count count, datatype::Datatype& type, int root, core::Communicator& comm)
    : Collective(CollectiveKind::bcast, comm, root) {
  if (participates(comm, root) && in_place(buffer, "buffer", false)) return;
  set(call.recv, buffer, count, type);
  call.bytes = static_cast<uint64_t>(count * type.size());
  classify();
}

Reduce::Reduce(const void* send, void* recv, MPI_Count count, datatype::Datatype& type, core::Op& op,
               int root, core::Communicator& comm)
    : Collective(CollectiveKind::reduce, comm, root) {
  const bool is_root = has_root_arguments(comm, root);
  set_reduction(has_nonroot_arguments(comm, root) ? send : nullptr, is_root ? recv : nullptr, count, type, op,
                is_root);
  if (!is_root) call.results = 0;
  classify();
}

Allreduce::Allreduce(const void* send, void* recv, MPI_Count count, datatype::Datatype& type, core::Op& op,
                     core::Communicator& comm, CollectiveKind what)
    : Collective(what, comm) {
  set_reduction(send, recv, count, type, op);
  classify();
}

ReduceScatterBlock::ReduceScatterBlock(const void* send, void* recv, MPI_Count count,
                                       datatype::Datatype& type, core::Op& op, core::Communicator& comm)
    : Collective(CollectiveKind::reduce_scatter_block, comm) {
  set_reduction(send, recv, count * call.size, type, op);
  call.recv.count = call.results = count;
  classify();
}

ReduceScatter::ReduceScatter(const void* send, void* recv, const CountArray& counts, datatype::Datatype& type,
                             core::Op& op, core::Communicator& comm)
    : Collective(CollectiveKind::reduce_scatter, comm) {
  const coll::CountView each = view_of(counts);
  int64_t total = 0;
  for (int i = 0; i < call.size; ++i) total += each[i];
  set_reduction(send, recv, total, type, op);
  call.recv.counts = each;
  call.recv.blocks = call.size;
  call.recv.count = call.results = each[call.rank];
  classify();
}

// Gather and Scatter: `bytes` is the block size. At the root it comes from the root's arguments, because its
// own block may be in place.
Gather::Gather(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
               MPI_Count recv_count, datatype::Datatype& recv_type, int root, core::Communicator& comm)
    : Collective(CollectiveKind::gather, comm, root) {
  const bool is_root = has_root_arguments(comm, root);
  const bool sends = has_nonroot_arguments(comm, root);
  call.in_place = sends && in_place(send, "sendbuf", is_root);
  if (sends && !call.in_place) set(call.send, send, send_count, send_type);
  if (is_root && !in_place(recv, "recvbuf", false)) set(call.recv, recv, recv_count, recv_type);
  call.bytes = static_cast<uint64_t>(is_root ? recv_count * recv_type.size() : send_count * send_type.size());
  classify();
}

Gatherv::Gatherv(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
                 const CountArray& recv_counts, const CountArray& displacements,
                 datatype::Datatype& recv_type, int root, core::Communicator& comm)
    : Collective(CollectiveKind::gatherv, comm, root) {
  const bool is_root = has_root_arguments(comm, root);
  const bool sends = has_nonroot_arguments(comm, root);
  call.in_place = sends && in_place(send, "sendbuf", is_root);
  if (sends && !call.in_place) set(call.send, send, send_count, send_type);
  if (is_root && !in_place(recv, "recvbuf", false)) {
    set(call.recv, recv, 0, recv_type);
    call.recv.counts = view_of(recv_counts);
    call.recv.displacements = view_of(displacements);
  }
  classify();
}

Scatter::Scatter(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
                 MPI_Count recv_count, datatype::Datatype& recv_type, int root, core::Communicator& comm)
    : Collective(CollectiveKind::scatter, comm, root) {
  const bool is_root = has_root_arguments(comm, root);
  const bool receives = has_nonroot_arguments(comm, root);
  call.in_place = receives && in_place(recv, "recvbuf", is_root);
  if (receives && !call.in_place) set(call.recv, recv, recv_count, recv_type);
  if (is_root && !in_place(send, "sendbuf", false)) set(call.send, send, send_count, send_type);
  call.bytes = static_cast<uint64_t>(is_root ? send_count * send_type.size() : recv_count * recv_type.size());
  classify();
}

Scatterv::Scatterv(const void* send, const CountArray& send_counts, const CountArray& displacements,
                   datatype::Datatype& send_type, void* recv, MPI_Count recv_count,
                   datatype::Datatype& recv_type, int root, core::Communicator& comm)
    : Collective(CollectiveKind::scatterv, comm, root) {
  const bool is_root = has_root_arguments(comm, root);
  const bool receives = has_nonroot_arguments(comm, root);
  call.in_place = receives && in_place(recv, "recvbuf", is_root);
  if (receives && !call.in_place) set(call.recv, recv, recv_count, recv_type);
  if (is_root && !in_place(send, "sendbuf", false)) {
    set(call.send, send, 0, send_type);
    call.send.counts = view_of(send_counts);
    call.send.displacements = view_of(displacements);
  }
  classify();
}

Allgather::Allgather(const void* send, MPI_Count send_count, datatype::Datatype& send_type, void* recv,
                     MPI_Count recv_count, datatype::Datatype& recv_type, core::Communicator& comm,
                     CollectiveKind what)
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
    : Collective(CollectiveKind::allgatherv, comm) {
  call.in_place = in_place(send, "sendbuf", true);
  if (in_place(recv, "recvbuf", false)) return;
  if (!call.in_place) set(call.send, send, send_count, send_type);
  set(call.recv, recv, 0, recv_type);
  call.recv.counts = view_of(recv_counts);
  call.recv.displacements = view_of(displacements);
  for (int i = 0; i < peers(); ++i)
    call.bytes += static_cast<uint64_t>(call.recv.counts[i] * recv_type.size());
  classify();
}

Alltoallv::Alltoallv(const void* send, const CountArray& send_counts, const CountArray& send_displacements,
                     datatype::Datatype& send_type, void* recv, const CountArray& recv_counts,
                     const CountArray& recv_displacements, datatype::Datatype& recv_type,
                     core::Communicator& comm)
    : Collective(CollectiveKind::alltoallv, comm) {
  call.in_place = in_place(send, "sendbuf", true);
  if (in_place(recv, "recvbuf", false)) return;
  if (!call.in_place) {
    set(call.send, send, 0, send_type);
    call.send.counts = view_of(send_counts);
    call.send.displacements = view_of(send_displacements);
  }
  set(call.recv, recv, 0, recv_type);
  call.recv.counts = view_of(recv_counts);
  call.recv.displacements = view_of(recv_displacements);
  classify();
}

Alltoallw::Alltoallw(const void* send, const CountArray& send_counts, const CountArray& send_displacements,
                     const DatatypeArray& send_types, void* recv, const CountArray& recv_counts,
                     const CountArray& recv_displacements, const DatatypeArray& recv_types,
                     core::Communicator& comm)
    : Collective(CollectiveKind::alltoallw, comm) {
  call.in_place = in_place(send, "sendbuf", true);
  if (in_place(recv, "recvbuf", false)) return;
  if (!call.in_place) {
    call.send.address = const_cast<void*>(send);
    call.send.counts = view_of(send_counts);
    call.send.displacements = view_of(send_displacements);
    call.send.types = types_[0].assign(send_types, peers());
  }
  call.recv.address = recv;
  call.recv.counts = view_of(recv_counts);
  call.recv.displacements = view_of(recv_displacements);
  call.recv.types = types_[1].assign(recv_types, peers());
  classify();
}

}  // namespace weft::api::prepare
