// SPDX-License-Identifier: BSD-3-Clause
// Point-to-point calls that kernels execute.

#include "api/check.hpp"
#include "api/handles.hpp"
#include "api/kernel_requests.hpp"
#include "api/kernels.hpp"
#include "api/requests.hpp"
#include "api/status.hpp"
#include "stream/order/order.hpp"

namespace weft::api::kernels {
namespace {

using stream::Queue;
using stream::Request;
using stream::order::Order;
using Kind = Part::Kind;

HandleState check_request(const void* handle) { return Request::slab().check(handle); }

Error any_source() {
  return {
      Errc::unsupported,
      "source is MPI_ANY_SOURCE: all ranks of the communicator have promised not to use it, since kernels "
      "execute its messages (weft_stream_kernels)"};
}

Part part(Kind kind, const void* buf, MPI_Count count, const Datatype& type, int peer, int tag) {
  return {kind, p2p::buffer_of(buf, count, type), peer, tag};
}

Result<Part> receive(void* buf, MPI_Count count, const Datatype& type, int source, int tag) {
  if (source == MPI_ANY_SOURCE) return any_source();
  return part(Kind::receive, buf, count, type, source, tag);
}

/// Gives a request to the program, or destroys it after an error.
Status hand_over(Request& request, Status started, MPI_Request* handle) {
  if (!started.ok()) {
    request.destroy();
    return started;
  }
  *handle = handle_of(request);
  return with_earlier_error(*request.comm, {});
}

Status make_persistent(Request& request, MPI_Request* handle) {
  request.persistent = true;
  request.active = false;
  request.finish();
  *handle = handle_of(request);
  return {};
}

}  // namespace

Queue& queue_of(Communicator& comm) { return *Order::of(comm)->kernels; }

Result<Request*> create(const char* call, Communicator& comm) {
  static const bool registered = (register_request_slab(check_request), true);
  static_cast<void>(registered);
  Request* const request = Request::slab().create(comm, true);
  if (request == nullptr) return no_more_requests();
  request->name = call;
  return request;
}

Status with_earlier_error(Communicator& comm, Status outcome) {
  if (!outcome.ok()) return outcome;
  return Order::of(comm)->take_error();
}

Status allow_status(Communicator& comm, const MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return {};
  auto capture = Order::of(comm)->capture();
  if (!capture) return std::move(capture).error();
  return stream::order::allow_host_wait(*capture, "it returns a result in host memory");
}

Status complete(Queue& queue, Request& request, MPI_Status* status) {
  Request* const requests[] = {&request};
  if (status == MPI_STATUS_IGNORE) return with_earlier_error(queue.comm(), queue.await(requests));
  Status outcome = queue.finish(requests);
  fill(status, request.completion);
  if (outcome.ok()) outcome = std::move(request.outcome);
  request.destroy();
  return with_earlier_error(queue.comm(), std::move(outcome));
}

Status run(const char* call, Communicator& comm, std::span<const Part> parts, MPI_Status* status) {
  WEFT_TRY(allow_status(comm, status));
  auto request = create(call, comm);
  if (!request) return std::move(request).error();
  Queue& queue = queue_of(comm);
  if (Status started = queue.start(**request, parts); !started.ok()) {
    (*request)->destroy();
    return started;
  }
  return complete(queue, **request, status);
}

Status start(const char* call, Communicator& comm, std::span<const Part> parts, MPI_Request* handle) {
  auto request = create(call, comm);
  if (!request) return std::move(request).error();
  return hand_over(**request, queue_of(comm).start(**request, parts), handle);
}

Status prepare(const char* call, Communicator& comm, std::span<const Part> parts, MPI_Request* handle) {
  auto request = create(call, comm);
  if (!request) return std::move(request).error();
  (*request)->parts.assign(parts.begin(), parts.end());
  for (const Part& each : parts)
    (*request)->types.push_back(core::Ref<Datatype>::share(const_cast<Datatype*>(each.buffer.type)));
  return make_persistent(**request, handle);
}

Status start(const char* call, Communicator& comm, std::unique_ptr<stream::order::Call> enqueue,
             MPI_Request* handle) {
  auto request = create(call, comm);
  if (!request) return std::move(request).error();
  (*request)->collective = std::move(enqueue);
  return hand_over(**request, queue_of(comm).start_collective(**request), handle);
}

Status prepare(const char* call, Communicator& comm, std::unique_ptr<stream::order::Call> enqueue,
               MPI_Request* handle) {
  auto request = create(call, comm);
  if (!request) return std::move(request).error();
  (*request)->collective = std::move(enqueue);
  return make_persistent(**request, handle);
}

#define WEFT_SEND(Name, name, kind)                                                                          \
  Outcome Name(const char* call, const void* buf, MPI_Count count, Datatype& type, int dest, int tag,        \
               Communicator& comm) {                                                                         \
    const Part parts[] = {part(kind, buf, count, type, dest, tag)};                                          \
    return run(call, comm, parts, MPI_STATUS_IGNORE);                                                        \
  }                                                                                                          \
  Outcome I##name(const char* call, const void* buf, MPI_Count count, Datatype& type, int dest, int tag,     \
                  Communicator& comm, MPI_Request* request) {                                                \
    const Part parts[] = {part(kind, buf, count, type, dest, tag)};                                          \
    return start(call, comm, parts, request);                                                                \
  }                                                                                                          \
  Outcome Name##_init(const char* call, const void* buf, MPI_Count count, Datatype& type, int dest, int tag, \
                      Communicator& comm, MPI_Request* request) {                                            \
    const Part parts[] = {part(kind, buf, count, type, dest, tag)};                                          \
    return prepare(call, comm, parts, request);                                                              \
  }
WEFT_SEND(Send, send, Kind::send)
WEFT_SEND(Rsend, rsend, Kind::send)
WEFT_SEND(Ssend, ssend, Kind::synchronous_send)

Outcome Recv(const char* call, void* buf, MPI_Count count, Datatype& type, int source, int tag,
             Communicator& comm, MPI_Status* status) {
  auto in = receive(buf, count, type, source, tag);
  if (!in) return std::move(in).error();
  return run(call, comm, {&*in, 1}, status);
}
Outcome Irecv(const char* call, void* buf, MPI_Count count, Datatype& type, int source, int tag,
              Communicator& comm, MPI_Request* request) {
  auto in = receive(buf, count, type, source, tag);
  if (!in) return std::move(in).error();
  return start(call, comm, {&*in, 1}, request);
}
Outcome Recv_init(const char* call, void* buf, MPI_Count count, Datatype& type, int source, int tag,
                  Communicator& comm, MPI_Request* request) {
  auto in = receive(buf, count, type, source, tag);
  if (!in) return std::move(in).error();
  return prepare(call, comm, {&*in, 1}, request);
}

Outcome Sendrecv(const char* call, const void* sendbuf, MPI_Count sendcount, Datatype& sendtype, int dest,
                 int sendtag, void* recvbuf, MPI_Count recvcount, Datatype& recvtype, int source, int recvtag,
                 Communicator& comm, MPI_Status* status) {
  auto in = receive(recvbuf, recvcount, recvtype, source, recvtag);
  if (!in) return std::move(in).error();
  const Part parts[] = {*in, part(Kind::send, sendbuf, sendcount, sendtype, dest, sendtag)};
  return run(call, comm, parts, status);
}

Outcome Isendrecv(const char* call, const void* sendbuf, MPI_Count sendcount, Datatype& sendtype, int dest,
                  int sendtag, void* recvbuf, MPI_Count recvcount, Datatype& recvtype, int source,
                  int recvtag, Communicator& comm, MPI_Request* request) {
  auto in = receive(recvbuf, recvcount, recvtype, source, recvtag);
  if (!in) return std::move(in).error();
  const Part parts[] = {*in, part(Kind::send, sendbuf, sendcount, sendtype, dest, sendtag)};
  return start(call, comm, parts, request);
}

Outcome Sendrecv_replace(const char* call, void* buf, MPI_Count count, Datatype& type, int dest, int sendtag,
                         int source, int recvtag, Communicator& comm, MPI_Status* status) {
  auto in = receive(buf, count, type, source, recvtag);
  if (!in) return std::move(in).error();
  if (Status allowed = allow_status(comm, status); !allowed.ok()) return allowed;
  auto request = create(call, comm);
  if (!request) return std::move(request).error();
  Queue& queue = queue_of(comm);
  Status started = queue.replace(**request, part(Kind::send, buf, count, type, dest, sendtag), *in);
  if (!started.ok()) {
    (*request)->destroy();
    return started;
  }
  return complete(queue, **request, status);
}

}  // namespace weft::api::kernels
