// SPDX-License-Identifier: BSD-3-Clause
// Fault tolerance (ULFM): functions of weft.h with the names and semantics of the MPI Forum's proposal.
#include <mpi.h>
#include <weft.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "api/check.hpp"
#include "api/errors.hpp"
#include "api/extension.hpp"
#include "api/handles.hpp"
#include "api/objects.hpp"
#include "ft/operation.hpp"
#include "p2p/p2p.hpp"

namespace weft::api {
namespace {

using core::Communicator;
using core::Group;
using core::ProcessId;

template <class Object, class Handle, class Resolve, class Body>
int with_object(const char* call, HandleKind kind, const char* name, Handle handle, Resolve&& resolve,
                Body&& body) {
  EntryPoint entry(call);
  return guarded(entry, [&]() -> int {
    Object* const object = resolve(handle);
    if (object == nullptr) return entry.fail(bad_handle(kind, name, handle));
    entry.set_error_owner(*object);
    return entry.finish(body(*object));
  });
}

/// Resolves a handle and runs `body(object)`.
template <class Body>
int with(const char* call, MPI_Comm comm, Body&& body) {
  return with_object<Communicator>(call, HandleKind::communicator, "comm", comm, to_communicator,
                                   std::forward<Body>(body));
}
template <class Body>
int with(const char* call, MPI_Win win, Body&& body) {
  return with_object<rma::Window>(call, HandleKind::window, "win", win, to_window,
                                  [&](rma::Window& window) { return body(*window.comm); });
}
template <class Body>
int with(const char* call, MPI_File file, Body&& body) {
  return with_object<io::File>(call, HandleKind::file, "fh", file, to_file,
                               [&](io::File& opened) { return body(*opened.comm); });
}

Status revoke_object(Communicator& comm) {
  comm.instance.failures.revoke(comm);
  return {};
}

/// Progresses once, so that a program that only asks learns what has happened.
void update(Communicator& comm) {
  comm.instance.poll_once({});
  ft::Service::of(comm.instance).learn();
}

Status is_revoked(Communicator& comm, int* flag) {
  if (flag == nullptr) return null_pointer("flag");
  update(comm);
  *flag = comm.instance.failures.revoked(comm) ? 1 : 0;
  return {};
}

/// A group of processes of a communicator; the caller gets a handle.
Status return_group(const Communicator& comm, std::vector<ProcessId> processes, MPI_Group* group) {
  Group* const made =
      processes.empty() ? Group::empty() : Group::create(std::move(processes), comm.instance.self);
  if (made != nullptr && made != Group::empty()) made->session = comm.group->session;
  return return_new_object(made, group);
}

Status get_failed(Communicator& comm, MPI_Group* group) {
  if (group == nullptr) return null_pointer("failedgrp");
  update(comm);
  return return_group(comm, comm.instance.failures.failed_in(comm), group);
}

/// Acknowledges the first failures that are known here.
void acknowledge(Communicator& comm, size_t failures) {
  ft::Service::of(comm.instance).learn();
  const size_t known = comm.instance.failures.failed_in(comm).size();
  comm.acknowledged_failures = std::max(comm.acknowledged_failures, std::min(known, failures));
  p2p::resume_receives(comm);
}

Result<core::Request*> request_of(Result<ft::Operation*> started) {
  static const bool registered = (register_request_slab(ft::check_request), true);
  (void)registered;
  if (!started) return std::move(started).error();
  return static_cast<core::Request*>(*started);
}

}  // namespace
}  // namespace weft::api

using namespace weft::api;  // for the entry points below
using weft::Status;
using weft::core::Communicator;
using weft::ft::Operation;

extern "C" {

WEFT_EXPORT int PMPIX_Comm_revoke(MPI_Comm comm) { return with("MPIX_Comm_revoke", comm, revoke_object); }
WEFT_ALIAS(MPIX_Comm_revoke, (MPI_Comm comm));

WEFT_EXPORT int PMPIX_Comm_is_revoked(MPI_Comm comm, int* flag) {
  return with("MPIX_Comm_is_revoked", comm, [&](Communicator& of) { return is_revoked(of, flag); });
}
WEFT_ALIAS(MPIX_Comm_is_revoked, (MPI_Comm comm, int* flag));

WEFT_EXPORT int PMPIX_Comm_get_failed(MPI_Comm comm, MPI_Group* failedgrp) {
  return with("MPIX_Comm_get_failed", comm, [&](Communicator& of) { return get_failed(of, failedgrp); });
}
WEFT_ALIAS(MPIX_Comm_get_failed, (MPI_Comm comm, MPI_Group* failedgrp));

WEFT_EXPORT int PMPIX_Comm_ack_failed(MPI_Comm comm, int num_to_ack, int* num_acked) {
  return with("MPIX_Comm_ack_failed", comm, [&](Communicator& of) -> Status {
    if (num_acked == nullptr) return null_pointer("num_acked");
    if (num_to_ack < 0) return negative(weft::Errc::arg, "num_to_ack", num_to_ack);
    acknowledge(of, static_cast<size_t>(num_to_ack));
    *num_acked = static_cast<int>(of.acknowledged_failures);
    return {};
  });
}
WEFT_ALIAS(MPIX_Comm_ack_failed, (MPI_Comm comm, int num_to_ack, int* num_acked));

WEFT_EXPORT int PMPIX_Comm_failure_ack(MPI_Comm comm) {
  return with("MPIX_Comm_failure_ack", comm, [](Communicator& of) -> Status {
    acknowledge(of, SIZE_MAX);
    return {};
  });
}
WEFT_ALIAS(MPIX_Comm_failure_ack, (MPI_Comm comm));

WEFT_EXPORT int PMPIX_Comm_failure_get_acked(MPI_Comm comm, MPI_Group* failedgrp) {
  return with("MPIX_Comm_failure_get_acked", comm, [&](Communicator& of) -> Status {
    if (failedgrp == nullptr) return null_pointer("failedgrp");
    auto failed = of.instance.failures.failed_in(of);
    failed.resize(of.acknowledged_failures);
    return return_group(of, std::move(failed), failedgrp);
  });
}
WEFT_ALIAS(MPIX_Comm_failure_get_acked, (MPI_Comm comm, MPI_Group* failedgrp));

WEFT_EXPORT int PMPIX_Comm_agree(MPI_Comm comm, int* flag) {
  return with("MPIX_Comm_agree", comm, [&](Communicator& of) -> Status {
    if (flag == nullptr) return null_pointer("flag");
    auto started = Operation::agree(of, flag);
    return started ? (*started)->finish_now() : Status(std::move(started).error());
  });
}
WEFT_ALIAS(MPIX_Comm_agree, (MPI_Comm comm, int* flag));

WEFT_EXPORT int PMPIX_Comm_iagree(MPI_Comm comm, int* flag, MPI_Request* request) {
  return with("MPIX_Comm_iagree", comm, [&](Communicator& of) -> Status {
    if (flag == nullptr) return null_pointer("flag");
    if (request == nullptr) return null_pointer("request");
    auto started = request_of(Operation::agree(of, flag));
    if (!started) return std::move(started).error();
    *request = handle_of(**started);
    return {};
  });
}
WEFT_ALIAS(MPIX_Comm_iagree, (MPI_Comm comm, int* flag, MPI_Request* request));

WEFT_EXPORT int PMPIX_Comm_shrink(MPI_Comm comm, MPI_Comm* newcomm) {
  return with("MPIX_Comm_shrink", comm, [&](Communicator& of) -> Status {
    if (newcomm == nullptr) return null_pointer("newcomm");
    Communicator* child = nullptr;
    auto started = Operation::shrink(of, &child);
    if (!started) return std::move(started).error();
    Status made = (*started)->finish_now();
    if (made.ok())
      *newcomm = handle_of(*child);
    else
      child->release();
    return made;
  });
}
WEFT_ALIAS(MPIX_Comm_shrink, (MPI_Comm comm, MPI_Comm* newcomm));

WEFT_EXPORT int PMPIX_Comm_ishrink(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) {
  return with("MPIX_Comm_ishrink", comm, [&](Communicator& of) -> Status {
    if (newcomm == nullptr) return null_pointer("newcomm");
    if (request == nullptr) return null_pointer("request");
    Communicator* child = nullptr;
    auto started = request_of(Operation::shrink(of, &child));
    if (!started) return std::move(started).error();
    *newcomm = handle_of(*child);
    *request = handle_of(**started);
    return {};
  });
}
WEFT_ALIAS(MPIX_Comm_ishrink, (MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request));

#define WEFT_REVOCABLE(Kind, Handle, argument)                                       \
  WEFT_EXPORT int PMPIX_##Kind##_revoke(Handle argument) {                           \
    return with("MPIX_" #Kind "_revoke", argument, revoke_object);                   \
  }                                                                                  \
  WEFT_ALIAS(MPIX_##Kind##_revoke, (Handle argument));                               \
  WEFT_EXPORT int PMPIX_##Kind##_is_revoked(Handle argument, int* flag) {            \
    return with("MPIX_" #Kind "_is_revoked", argument,                               \
                [&](Communicator& of) { return is_revoked(of, flag); });             \
  }                                                                                  \
  WEFT_ALIAS(MPIX_##Kind##_is_revoked, (Handle argument, int* flag));                \
  WEFT_EXPORT int PMPIX_##Kind##_get_failed(Handle argument, MPI_Group* failedgrp) { \
    return with("MPIX_" #Kind "_get_failed", argument,                               \
                [&](Communicator& of) { return get_failed(of, failedgrp); });        \
  }                                                                                  \
  WEFT_ALIAS(MPIX_##Kind##_get_failed, (Handle argument, MPI_Group * failedgrp))

WEFT_REVOCABLE(Win, MPI_Win, win);
WEFT_REVOCABLE(File, MPI_File, fh);

}  // extern "C"
