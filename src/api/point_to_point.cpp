// SPDX-License-Identifier: BSD-3-Clause
// Point-to-point calls (MPI 5.0 chapter 3). Blocking calls use a Transfer on the stack, others one from the
// slab.
#include <cstring>

#include "api/check.hpp"
#include "api/handles.hpp"
#include "api/impl.hpp"
#include "api/ordered.hpp"
#include "api/requests.hpp"
#include "api/status.hpp"
#include "p2p/p2p.hpp"

namespace weft::api::impl {
namespace {

using core::Communicator;
using datatype::Datatype;
using p2p::buffer_of;
using p2p::SendMode;
using p2p::Transfer;
using Kind = core::Request::Kind;

Status finish_blocking(Communicator& comm, Transfer& transfer) {
  core::wait(comm.instance, transfer);
  return std::move(transfer.outcome);
}

Status send(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm,
            SendMode mode) {
  Transfer transfer(Kind::send);
  p2p::post_send(transfer, buffer_of(buf, count, type), dest, tag, comm, mode);
  return finish_blocking(comm, transfer);
}

Status isend(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm,
             SendMode mode, MPI_Request* request) {
  Transfer* transfer = p2p::create_transfer(Kind::send);
  if (transfer == nullptr) return no_more_requests();
  *request = handle_of(*transfer);
  p2p::post_send(*transfer, buffer_of(buf, count, type), dest, tag, comm, mode);
  return {};
}

Status send_init(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm,
                 SendMode mode, MPI_Request* request) {
  Transfer* transfer = p2p::create_transfer(Kind::send);
  if (transfer == nullptr) return no_more_requests();
  p2p::prepare(*transfer, buffer_of(buf, count, type), dest, tag, comm, mode);
  *request = handle_of(*transfer);
  return {};
}

core::Operands probe_operands(int source, int tag) {
  return {.what = wait_table::What::probe, .rank = source, .tag = tag};
}

void poll_once(int source, int tag, Communicator& comm) {
  const core::Operands operands = probe_operands(source, tag);
  comm.instance.poll_once({.operands = &operands, .comm = &comm});
}

/// Polls until `probe_once()` finds something; null: nobody can send it any more.
template <class Look>
auto poll_until_found(int source, int tag, Communicator& comm, Look&& probe_once) {
  decltype(probe_once()) found = nullptr;
  const core::Operands operands = probe_operands(source, tag);
  core::wait_until(comm.instance,
                   [&] { return (found = probe_once()) != nullptr || !p2p::check_source(source, comm); },
                   {.operands = &operands, .comm = &comm});
  return found;
}

core::Completion proc_null_completion() { return {MPI_PROC_NULL, MPI_ANY_TAG, 0, false}; }

MPI_Message message_handle(p2p::UnexpectedMessage* message) { return reinterpret_cast<MPI_Message>(message); }

Result<p2p::UnexpectedMessage*> message_of(MPI_Message handle) {
  const auto state = handle == MPI_MESSAGE_NULL ? HandleState::foreign : p2p::check_message(handle);
  if (state != HandleState::live) return bad_handle(HandleKind::message, "message", handle);
  return reinterpret_cast<p2p::UnexpectedMessage*>(handle);
}

Status receive_from_proc_null(MPI_Message* message, MPI_Status* status) {
  *message = MPI_MESSAGE_NULL;
  fill(status, proc_null_completion());
  return {};
}

}  // namespace

Status Send(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm) {
  if (!reporting() && p2p::send_now(buffer_of(buf, count, type), dest, tag, comm)) [[likely]]
    return {};
  return send(buf, count, type, dest, tag, comm, SendMode::standard);
}
Status Bsend(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm) {
  return send(buf, count, type, dest, tag, comm, SendMode::buffered);
}
Status Ssend(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm) {
  return send(buf, count, type, dest, tag, comm, SendMode::synchronous);
}
Status Rsend(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm) {
  return send(buf, count, type, dest, tag, comm, SendMode::ready);
}

Status Isend(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm,
             MPI_Request* request) {
  if (!reporting() && p2p::send_now(buffer_of(buf, count, type), dest, tag, comm)) [[likely]] {
    *request = handle_of(*g_handles.completed_send);
    return {};
  }
  return isend(buf, count, type, dest, tag, comm, SendMode::standard, request);
}
Status Ibsend(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm,
              MPI_Request* request) {
  return isend(buf, count, type, dest, tag, comm, SendMode::buffered, request);
}
Status Issend(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm,
              MPI_Request* request) {
  return isend(buf, count, type, dest, tag, comm, SendMode::synchronous, request);
}
Status Irsend(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm,
              MPI_Request* request) {
  return isend(buf, count, type, dest, tag, comm, SendMode::ready, request);
}

Status Send_init(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm,
                 MPI_Request* request) {
  return send_init(buf, count, type, dest, tag, comm, SendMode::standard, request);
}
Status Bsend_init(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm,
                  MPI_Request* request) {
  return send_init(buf, count, type, dest, tag, comm, SendMode::buffered, request);
}
Status Ssend_init(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm,
                  MPI_Request* request) {
  return send_init(buf, count, type, dest, tag, comm, SendMode::synchronous, request);
}
Status Rsend_init(const void* buf, MPI_Count count, Datatype& type, int dest, int tag, Communicator& comm,
                  MPI_Request* request) {
  return send_init(buf, count, type, dest, tag, comm, SendMode::ready, request);
}

Status Recv(void* buf, MPI_Count count, Datatype& type, int source, int tag, Communicator& comm,
            MPI_Status* status) {
  Transfer transfer(Kind::receive);
  p2p::post_receive(transfer, buffer_of(buf, count, type), source, tag, comm);
  core::wait(comm.instance, transfer);
  fill(status, transfer.completion);
  return std::move(transfer.outcome);
}

Status Irecv(void* buf, MPI_Count count, Datatype& type, int source, int tag, Communicator& comm,
             MPI_Request* request) {
  Transfer* transfer = p2p::create_transfer(Kind::receive);
  if (transfer == nullptr) return no_more_requests();
  p2p::post_receive(*transfer, buffer_of(buf, count, type), source, tag, comm);
  *request = handle_of(*transfer);
  return {};
}

Status Recv_init(void* buf, MPI_Count count, Datatype& type, int source, int tag, Communicator& comm,
                 MPI_Request* request) {
  Transfer* transfer = p2p::create_transfer(Kind::receive);
  if (transfer == nullptr) return no_more_requests();
  p2p::prepare(*transfer, buffer_of(buf, count, type), source, tag, comm, SendMode::standard);
  *request = handle_of(*transfer);
  return {};
}

Status Probe(int source, int tag, Communicator& comm, MPI_Status* status) {
  if (source == MPI_PROC_NULL) return fill(status, proc_null_completion()), Status{};
  const auto* message = poll_until_found(source, tag, comm, [&] { return p2p::probe(source, tag, comm); });
  if (message == nullptr) return p2p::check_source(source, comm);
  fill(status, p2p::describe(*message));
  return {};
}

Status Iprobe(int source, int tag, Communicator& comm, int* flag, MPI_Status* status) {
  *flag = 1;
  if (source == MPI_PROC_NULL) return fill(status, proc_null_completion()), Status{};
  const auto* message = p2p::probe(source, tag, comm);
  if (message == nullptr) {
    poll_once(source, tag, comm);
    message = p2p::probe(source, tag, comm);
  }
  *flag = message != nullptr;
  if (message == nullptr) return p2p::check_source(source, comm);
  fill(status, p2p::describe(*message));
  return {};
}

Status Mprobe(int source, int tag, Communicator& comm, MPI_Message* message, MPI_Status* status) {
  *message = MPI_MESSAGE_NO_PROC;
  if (source == MPI_PROC_NULL) return fill(status, proc_null_completion()), Status{};
  auto* found = poll_until_found(source, tag, comm, [&] { return p2p::matched_probe(source, tag, comm); });
  if (found == nullptr) return p2p::check_source(source, comm);
  *message = message_handle(found);
  fill(status, p2p::describe(*found));
  return {};
}

Status Improbe(int source, int tag, Communicator& comm, int* flag, MPI_Message* message, MPI_Status* status) {
  *flag = 1;
  *message = MPI_MESSAGE_NO_PROC;
  if (source == MPI_PROC_NULL) return fill(status, proc_null_completion()), Status{};
  auto* found = p2p::matched_probe(source, tag, comm);
  if (found == nullptr) {
    poll_once(source, tag, comm);
    found = p2p::matched_probe(source, tag, comm);
  }
  *flag = found != nullptr;
  *message = found != nullptr ? message_handle(found) : MPI_MESSAGE_NULL;
  if (found == nullptr) return p2p::check_source(source, comm);
  fill(status, p2p::describe(*found));
  return {};
}

Status Mrecv(void* buf, MPI_Count count, Datatype& type, MPI_Message* message, MPI_Status* status) {
  if (*message == MPI_MESSAGE_NO_PROC) return receive_from_proc_null(message, status);
  auto found = message_of(*message);
  if (!found) return std::move(found).error();
  // The message's reference is released when the transfer completes.
  const auto held = core::Ref<Communicator>::share(p2p::communicator_of(**found));
  Communicator& comm = *held;
  if (comm.order != nullptr) [[unlikely]]
    WEFT_TRY(with_error_communicator(&comm, ordered::settle(comm, "MPI_Mrecv")));
  *message = MPI_MESSAGE_NULL;
  Transfer transfer(Kind::receive);
  p2p::post_matched_receive(transfer, buffer_of(buf, count, type), **found, comm);
  core::wait(comm.instance, transfer);
  fill(status, transfer.completion);
  return with_error_communicator(&comm, std::move(transfer.outcome));
}

Status Imrecv(void* buf, MPI_Count count, Datatype& type, MPI_Message* message, MPI_Request* request) {
  Transfer* transfer = nullptr;
  if (*message == MPI_MESSAGE_NO_PROC) {
    transfer = p2p::create_transfer(Kind::receive);
    if (transfer == nullptr) return no_more_requests();
    transfer->completion.source = MPI_PROC_NULL;
    transfer->finish();
  } else {
    auto found = message_of(*message);
    if (!found) return std::move(found).error();
    Communicator& comm = *p2p::communicator_of(**found);
    if (comm.order != nullptr) [[unlikely]]
      WEFT_TRY(with_error_communicator(&comm, ordered::settle(comm, "MPI_Imrecv")));
    transfer = p2p::create_transfer(Kind::receive);
    if (transfer == nullptr) return no_more_requests();
    p2p::post_matched_receive(*transfer, buffer_of(buf, count, type), **found, comm);
  }
  *message = MPI_MESSAGE_NULL;
  *request = handle_of(*transfer);
  return {};
}

}  // namespace weft::api::impl
