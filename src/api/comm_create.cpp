// SPDX-License-Identifier: BSD-3-Clause
// Communicator constructors (MPI 5.0 sections 7.4.2 and 7.6.2).
#include <string>
#include <string_view>

#include "api/check.hpp"
#include "api/hints.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"
#include "coll/construct/communicators.hpp"
#include "coll/schedule/collective.hpp"
#include "core/instance.hpp"
#include "p2p/p2p.hpp"

namespace weft::api::impl {
namespace {

using core::Communicator;

/// return_communicator() for a communicator without a parent: error handler and hints come from the caller.
Status return_parentless_communicator(coll::NewCommunicator made, const core::Info* info,
                                      core::Errhandler& errhandler, MPI_Comm* handle) {
  if (made.ok() && *made != nullptr) {
    (*made)->errhandler = core::Ref<core::Errhandler>::share(&errhandler);
    if (Status status = apply_hints(**made, info); !status.ok()) {
      (*made)->release();
      return status;
    }
  }
  return return_communicator(std::move(made), handle);
}

std::string_view string_tag(const char* text) { return {text, strnlen(text, MPI_MAX_STRINGTAG_LEN)}; }

/// Copies the attributes of the parent and applies the hints of the caller. Releases the child on an error.
Status finish_duplicate(Communicator& parent, Communicator& child, const core::Info* info) {
  auto* const handle = reinterpret_cast<void*>(child.handle);
  Status status =
      parent.attributes.copy_to(parent.instance, reinterpret_cast<void*>(parent.handle), child.attributes);
  if (status.ok()) status = apply_hints(child, info);
  if (status.ok()) return {};
  (void)child.attributes.clear(child.instance, handle);  // report the first error
  child.has_handle = false;
  child.release();
  return status;
}

}  // namespace

Status Comm_dup_with_info(Communicator& comm, core::Info* info, MPI_Comm* newcomm) {
  auto child = coll::duplicate(comm);
  if (!child) return std::move(child).error();
  WEFT_TRY(finish_duplicate(comm, **child, info));
  *newcomm = handle_of(**child);
  return {};
}

Status Comm_dup(Communicator& comm, MPI_Comm* newcomm) { return Comm_dup_with_info(comm, nullptr, newcomm); }

Status Comm_idup_with_info(Communicator& comm, core::Info* info, MPI_Comm* newcomm, MPI_Request* request) {
  auto pending = coll::start_duplicate(comm);
  if (!pending) return std::move(pending).error();
  if (Status status = finish_duplicate(comm, *pending->child, info); !status.ok()) {
    // Complete the collective part: other processes wait for it.
    core::wait(comm.instance, *pending->request);
    pending->request->destroy();
    return status;
  }
  register_request_slab(coll::check_request);
  *newcomm = handle_of(*pending->child);
  *request = handle_of(*pending->request);
  return {};
}

Status Comm_idup(Communicator& comm, MPI_Comm* newcomm, MPI_Request* request) {
  return Comm_idup_with_info(comm, nullptr, newcomm, request);
}

Status Comm_create(Communicator& comm, core::Group& group, MPI_Comm* newcomm) {
  return return_communicator(coll::create(comm, group), newcomm);
}

Status Comm_create_group(Communicator& comm, core::Group& group, int tag, MPI_Comm* newcomm) {
  return return_communicator(coll::create_group(comm, group, tag), newcomm);
}

Status Comm_create_from_group(core::Group& group, const char* stringtag, core::Info* info,
                              core::Errhandler& errhandler, MPI_Comm* newcomm) {
  if (group.size() > 1) WEFT_TRY(p2p::connect(*g_instance));
  return return_parentless_communicator(coll::create_from_group(*g_instance, group, string_tag(stringtag)),
                                        info, errhandler, newcomm);
}

Status Intercomm_create_from_groups(core::Group& local_group, int local_leader, core::Group& remote_group,
                                    int remote_leader, const char* stringtag, core::Info* info,
                                    core::Errhandler& errhandler, MPI_Comm* newintercomm) {
  const bool empty = local_group.size() == 0 || remote_group.size() == 0;
  if (!empty && !is_valid_rank(local_leader, local_group.size()))
    return bad_group_rank("local_leader", local_leader, local_group.size());
  if (!empty && !is_valid_rank(remote_leader, remote_group.size()))
    return bad_group_rank("remote_leader", remote_leader, remote_group.size());
  WEFT_TRY(p2p::connect(*g_instance));
  return return_parentless_communicator(
      coll::intercomm_create_from_groups(*g_instance, local_group, local_leader, remote_group, remote_leader,
                                         string_tag(stringtag)),
      info, errhandler, newintercomm);
}

Status Comm_split(Communicator& comm, int color, int key, MPI_Comm* newcomm) {
  if (color < 0 && color != MPI_UNDEFINED)
    return Error(Errc::arg, "color = " + std::to_string(color) + ": use 0 or more, or MPI_UNDEFINED");
  return return_communicator(coll::split(comm, color, key), newcomm);
}

Status Intercomm_create(Communicator& local_comm, int local_leader, Communicator& peer_comm,
                        int remote_leader, int tag, MPI_Comm* newintercomm) {
  if (local_comm.inter())
    return Error(Errc::comm, "local_comm is an intercommunicator: pass an intracommunicator");
  if (local_comm.rank() == local_leader && !is_valid_rank(remote_leader, peer_comm.remote_size()))
    return bad_rank("remote_leader", remote_leader, peer_comm.remote_size(), false);
  return return_communicator(coll::intercomm_create(local_comm, local_leader, &peer_comm, remote_leader, tag),
                             newintercomm);
}

Status Intercomm_merge(Communicator& intercomm, int high, MPI_Comm* newintracomm) {
  if (!intercomm.inter()) return Error(Errc::comm, "intercomm is an intracommunicator");
  return return_communicator(coll::intercomm_merge(intercomm, high != 0), newintracomm);
}

}  // namespace weft::api::impl
