// SPDX-License-Identifier: BSD-3-Clause
// Communicators: queries, names, hints, freeing (MPI 5.0 sections 7.4.1, 7.4.3, 7.4.4, 7.6.1, 7.8
// and 11.10.4).
#include <string>

#include "api/hints.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"
#include "api/process.hpp"
#include "coll/construct/connect.hpp"
#include "coll/dispatch/path.hpp"
#include "core/instance.hpp"
#include "p2p/p2p.hpp"
#include "stream/order/followers.hpp"
#include "stream/order/order.hpp"
#include "stream/queue.hpp"

namespace weft::api::impl {
namespace {

bool is_predefined(const core::Communicator& comm) { return comm.handle < kPredefinedEnd; }

int compare_groups(const core::Group& a, const core::Group& b) {
  switch (a.compare(b)) {
    case core::Comparison::identical:
    case core::Comparison::congruent:
      return MPI_CONGRUENT;
    case core::Comparison::similar:
      return MPI_SIMILAR;
    case core::Comparison::unequal:
      break;
  }
  return MPI_UNEQUAL;
}

/// Returns the error of a call in the communicator's stream too, which no later call could return.
Status check_freeable(const core::Communicator& comm) {
  if (is_predefined(comm)) return Error(Errc::comm, "comm is " + comm.name + ", which MPI_Finalize frees");
  auto* const order = stream::order::Order::of(comm);
  return order != nullptr ? order->take_error() : Status();
}

/// Delete callbacks run first: if one fails, the communicator stays valid.
Status close_handle(core::Communicator& comm, MPI_Comm* handle) {
  WEFT_TRY(comm.attributes.clear(comm.instance, reinterpret_cast<void*>(comm.handle)));
  WEFT_TRY(stream::detach(comm));
  p2p::forget_buffer(comm.instance, &comm);
  stream::order::keep_orders(comm);
  forget_parent(comm);
  comm.has_handle = false;
  *handle = MPI_COMM_NULL;
  return {};
}

}  // namespace

Status Comm_size(core::Communicator& comm, int* size) {
  *size = comm.size();
  return {};
}

Status Comm_rank(core::Communicator& comm, int* rank) {
  *rank = comm.rank();
  return {};
}

Status Comm_compare(core::Communicator& comm1, core::Communicator& comm2, int* result) {
  if (&comm1 == &comm2) {
    *result = MPI_IDENT;
    return {};
  }
  *result = MPI_UNEQUAL;
  if (comm1.inter() != comm2.inter()) return {};
  *result = compare_groups(*comm1.group, *comm2.group);
  if (comm1.inter()) {
    const int remote = compare_groups(*comm1.remote_group, *comm2.remote_group);
    if (*result == MPI_UNEQUAL || remote == MPI_UNEQUAL)
      *result = MPI_UNEQUAL;
    else if (remote == MPI_SIMILAR)
      *result = MPI_SIMILAR;
  }
  return {};
}

Status Comm_test_inter(core::Communicator& comm, int* flag) {
  *flag = comm.inter();
  return {};
}

Status Topo_test(core::Communicator& comm, int* status) {
  *status = MPI_UNDEFINED;
  if (comm.topology == nullptr) return {};
  switch (comm.topology->kind) {
    case core::Topology::Kind::cartesian:
      *status = MPI_CART;
      break;
    case core::Topology::Kind::graph:
      *status = MPI_GRAPH;
      break;
    case core::Topology::Kind::distributed_graph:
      *status = MPI_DIST_GRAPH;
  }
  return {};
}

Status Comm_remote_size(core::Communicator& comm, int* size) {
  if (!comm.inter()) return Error(Errc::comm, "comm is an intracommunicator: it has no remote group");
  *size = comm.remote_size();
  return {};
}

Status Comm_set_name(core::Communicator& comm, const char* name) {
  comm.name.assign(name, strnlen(name, MPI_MAX_OBJECT_NAME - 1));
  return {};
}

Status Comm_get_name(core::Communicator& comm, char* name, int* resultlen) {
  copy_text(comm.name, name, MPI_MAX_OBJECT_NAME, resultlen);
  return {};
}

Status Comm_set_info(core::Communicator& comm, core::Info* info) {
  coll::dispatch::decide_all(comm);
  return apply_hints(comm, info);
}

Status Comm_get_info(core::Communicator& comm, MPI_Info* info) {
  return return_new_object(hints_of(comm), info);
}

Status Comm_free(MPI_Comm* handle) {
  core::Communicator& comm = *to_communicator(*handle);
  WEFT_TRY(check_freeable(comm));
  WEFT_TRY(close_handle(comm, handle));
  comm.release();
  return {};
}

Status Comm_disconnect(MPI_Comm* handle) {
  core::Communicator& comm = *to_communicator(*handle);
  WEFT_TRY(check_freeable(comm));
  // Pending operations hold references: with one reference left, all communication is complete.
  core::wait_until(comm.instance, [&] { return comm.references() <= 1; });
  WEFT_TRY(close_handle(comm, handle));
  return coll::disconnect_job(&comm);
}

}  // namespace weft::api::impl
