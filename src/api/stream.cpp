// SPDX-License-Identifier: BSD-3-Clause
// Streams and enqueued operations: functions of weft.h, compatible with MPICH.
#include "api/stream.hpp"

#include <mpi.h>
#include <weft.h>

#include <string>
#include <vector>

#include "api/check.hpp"
#include "api/data_check.hpp"
#include "api/errors.hpp"
#include "api/extension.hpp"
#include "api/handles.hpp"
#include "api/impl.hpp"
#include "api/instance.hpp"
#include "api/objects.hpp"
#include "api/ordered.hpp"
#include "coll/construct/communicators.hpp"
#include "device/memory.hpp"
#include "stream/multiplex.hpp"
#include "stream/ordered.hpp"
#include "stream/queue.hpp"

namespace weft::api {
namespace {

using core::Communicator;
using datatype::Datatype;
using stream::Queue;
using stream::Stream;

MPIX_Stream stream_handle(const Stream* stream) {
  return reinterpret_cast<MPIX_Stream>(reinterpret_cast<uintptr_t>(stream));
}
Status stream_create(core::Info* info, MPIX_Stream* handle) {
  auto stream = Stream::create(info);
  if (!stream) return std::move(stream).error();
  (*stream)->open_handle();
  *handle = stream_handle(*stream);
  return {};
}

Status set_hex(core::Info& info, const char* key, const void* value, int size) {
  if (key == nullptr || *key == '\0') return Error(Errc::info_key, "key is empty");
  if (size < 0 || (value == nullptr && size != 0))
    return Error(Errc::arg, "value_size = " + std::to_string(size));
  if (2 * static_cast<size_t>(size) >= MPI_MAX_INFO_VAL)
    return Error(Errc::info_value, "value is longer than an info value can hold in hexadecimal digits");
  if (&info == core::Info::environment())
    return Error(Errc::info, "info is MPI_INFO_ENV, which is read-only");
  std::string text;
  for (int i = 0; i < size; ++i) {
    static constexpr char kDigits[] = "0123456789abcdef";
    const unsigned byte = static_cast<const unsigned char*>(value)[i];
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  info.set(key, text);
  return {};
}

Status comm_create(Communicator& parent, MPIX_Stream handle, MPI_Comm* newcomm) {
  if (parent.inter()) return Error(Errc::comm, "comm is an intercommunicator: pass an intracommunicator");
  Stream* stream = handle == MPIX_STREAM_NULL ? nullptr : to_stream(handle);
  if (handle != MPIX_STREAM_NULL && stream == nullptr) return bad_stream("stream");
  auto child = coll::duplicate(parent);
  if (!child) return std::move(child).error();
  parent.instance.failures.make_part(**child, parent);
  Status attached = stream::attach(**child, core::Ref<Stream>::share(stream));
  WEFT_TRY(stream::end_creation(**child, std::move(attached)));
  *newcomm = api::handle_of(**child);
  return {};
}

/// Resolved arguments of an enqueued send or receive.
struct EnqueueArguments {
  Communicator* comm = nullptr;
  Datatype* type = nullptr;
  Queue* queue = nullptr;  ///< null: the host executes the operation
};

/// Resolves handles and checks arguments of an enqueued send or receive.
Result<EnqueueArguments> check(EntryPoint& entry, const void* buf, MPI_Count count, MPI_Datatype datatype,
                               int rank, int tag, MPI_Comm comm, bool receives) {
  EnqueueArguments found;
  found.comm = to_communicator(comm);
  if (found.comm == nullptr) return bad_handle(HandleKind::communicator, "comm", comm);
  entry.set_error_owner(*found.comm);
  found.type = to_datatype(datatype);
  if (found.type == nullptr) return bad_handle(HandleKind::datatype, "datatype", datatype);
  if (count < 0) return negative(Errc::count, "count", count);
  if (!found.type->committed()) return uncommitted("datatype", *found.type);
  const char* const name = receives ? "source" : "dest";
  const bool by_host = ordered::enqueues_extensions(*found.comm);
  if (receives && rank == MPI_ANY_SOURCE && !by_host)
    return Error(
        Errc::unsupported,
        "source is MPI_ANY_SOURCE: an enqueued receive needs a specific source (MPI_ANY_TAG is allowed)");
  if (rank != MPI_PROC_NULL && !is_valid_rank(rank, found.comm->size()) &&
      !(receives && rank == MPI_ANY_SOURCE))
    return bad_rank(name, rank, found.comm->size(), false);
  if (!is_valid_tag(tag) && !(receives && tag == MPI_ANY_TAG)) return bad_tag("tag", tag, receives);
  if (!valid_data(buf, count, *found.type) && (rank != MPI_PROC_NULL || !valid_size(count, *found.type)))
    return bad_data("buf", "count", count, *found.type);
  if (by_host) return found;
  auto queue = stream::queue_of(*found.comm);
  if (!queue) return std::move(queue).error();
  found.queue = *queue;
  return found;
}

/// The GPU writes the status, so it must be in memory that the GPU can write.
Result<stream::StatusAddress> status_address(MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return stream::StatusAddress{nullptr};
  const device::Memory memory = device::classify_in_stream(status);
  if (memory.known_to_driver() && !memory.on_device()) return stream::StatusAddress{status};
  return Error(
      Errc::arg,
      "status is not in memory accessible to host and GPU: pass MPI_STATUS_IGNORE, or a status in pinned or "
      "managed memory (cudaMallocHost), which is valid once the stream has completed the operation");
}

int send(const char* call, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
         MPI_Comm comm) {
  EntryPoint entry(call);
  return guarded(entry, [&]() -> int {
    auto checked = check(entry, buf, count, datatype, dest, tag, comm, false);
    if (!checked) return entry.fail(std::move(checked).error());
    if (checked->queue == nullptr)
      return entry.finish(
          ordered::run({*checked->comm, call, {buf}, {checked->type}},
                       [=, type = ordered::keep(*checked->type), target = checked->comm]() -> Status {
                         return impl::Send(buf, count, *type, dest, tag, *target);
                       }));
    return entry.finish(checked->queue->send(p2p::buffer_of(buf, count, *checked->type), dest, tag));
  });
}

int receive(const char* call, void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
            MPI_Comm comm, MPI_Status* status) {
  EntryPoint entry(call);
  return guarded(entry, [&]() -> int {
    auto checked = check(entry, buf, count, datatype, source, tag, comm, true);
    if (!checked) return entry.fail(std::move(checked).error());
    auto address = status_address(status);
    if (!address) return entry.fail(std::move(address).error());
    if (checked->queue == nullptr)
      return entry.finish(
          ordered::run({*checked->comm, call, {buf}, {checked->type}},
                       [=, type = ordered::keep(*checked->type), target = checked->comm]() -> Status {
                         return impl::Recv(buf, count, *type, source, tag, *target, status);
                       }));
    return entry.finish(
        checked->queue->receive(p2p::buffer_of(buf, count, *checked->type), source, tag, *address));
  });
}

HandleState check_request(const void* handle) { return stream::Request::slab().check(handle); }

int start(const char* call, const void* buf, MPI_Count count, MPI_Datatype datatype, int rank, int tag,
          MPI_Comm comm, MPI_Request* request, bool receives) {
  EntryPoint entry(call);
  return guarded(entry, [&]() -> int {
    auto checked = check(entry, buf, count, datatype, rank, tag, comm, receives);
    if (!checked) return entry.fail(std::move(checked).error());
    if (request == nullptr) return entry.fail(null_pointer("request"));
    if (checked->queue == nullptr)
      return entry.finish(ordered::start(
          {*checked->comm, call, {buf}, {checked->type}}, request,
          [=, type = ordered::keep(*checked->type), target = checked->comm](MPI_Request* made) -> Status {
            return receives ? impl::Irecv(const_cast<void*>(buf), count, *type, rank, tag, *target, made)
                            : impl::Isend(buf, count, *type, rank, tag, *target, made);
          }));
    const p2p::Buffer buffer = p2p::buffer_of(buf, count, *checked->type);
    register_request_slab(check_request);
    auto started = receives ? checked->queue->start_receive(buffer, rank, tag)
                            : checked->queue->start_send(buffer, rank, tag);
    if (!started) return entry.fail(std::move(started).error());
    *request = api::handle_of(**started);
    return MPI_SUCCESS;
  });
}

/// The enqueued operation of a handle; null for MPI_REQUEST_NULL.
Result<stream::Request*> enqueued(MPI_Request handle, size_t index) {
  if (handle == MPI_REQUEST_NULL) return static_cast<stream::Request*>(nullptr);
  if (check_request(handle) != HandleState::live) {
    if (to_request(handle) == nullptr)
      return bad_handle_at(HandleKind::request, "array_of_requests", index, handle);
    return Error(Errc::request, "array_of_requests[" + std::to_string(index) +
                                    "] is not an enqueued operation: complete it with MPI_Wait");
  }
  return reinterpret_cast<stream::Request*>(handle);
}

/// Whether the requests of a list are executed by the host.
bool by_host(int count, const MPI_Request* handles) {
  for (int i = 0; i < count; ++i) {
    if (handles[i] == MPI_REQUEST_NULL) continue;
    const core::Request* const request = to_request(handles[i]);
    return request != nullptr && request->kind == core::Request::Kind::ordered;
  }
  return false;
}

Status wait_by_host(const char* call, int count, MPI_Request* handles, MPI_Status* statuses) {
  for (int i = 0; i < count; ++i) {
    const core::Request* const request = handles[i] == MPI_REQUEST_NULL ? nullptr : to_request(handles[i]);
    if (handles[i] != MPI_REQUEST_NULL && (request == nullptr || request->detached))
      return bad_handle_at(HandleKind::request, "array_of_requests", static_cast<size_t>(i), handles[i]);
    auto address = status_address(statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + i);
    if (!address) return std::move(address).error();
  }
  auto left = ordered::wait_in_stream(call, {handles, static_cast<size_t>(count)},
                                      {.extension = true, .statuses = statuses});
  if (!left) return std::move(left).error();
  return *left ? Status() : impl::Waitall(count, handles, statuses);
}

/// Enqueues one wait for all requests. They must belong to one communicator, because its queue launches the
/// wait.
Status wait(EntryPoint& entry, int count, MPI_Request* handles, MPI_Status* statuses) {
  if (by_host(count, handles)) return wait_by_host(entry.call(), count, handles, statuses);
  std::vector<stream::Request*> requests;
  std::vector<stream::StatusAddress> addresses;
  for (int i = 0; i < count; ++i) {
    auto request = enqueued(handles[i], static_cast<size_t>(i));
    if (!request) return std::move(request).error();
    auto address = status_address(statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + i);
    if (!address) return std::move(address).error();
    if (*request == nullptr) continue;
    requests.push_back(*request);
    addresses.push_back(*address);
  }
  for (stream::Request* request : requests)
    if (request->comm != requests.front()->comm)
      return Error(Errc::request,
                   "the requests belong to several communicators: wait for each communicator separately");
  if (requests.empty()) return {};
  entry.set_error_owner(*requests.front()->comm);
  auto queue = stream::queue_of(*requests.front()->comm);
  if (!queue) return std::move(queue).error();
  WEFT_TRY((*queue)->wait(requests, addresses));
  for (int i = 0; i < count; ++i) handles[i] = MPI_REQUEST_NULL;
  return {};
}

}  // namespace

Stream* to_stream(MPIX_Stream handle) {
  const auto* value = reinterpret_cast<const void*>(handle);
  if (Stream::slab().check(value) != HandleState::live) return nullptr;
  auto* stream = reinterpret_cast<Stream*>(handle);
  return stream->has_handle() ? stream : nullptr;
}

Error bad_stream(const char* name) {
  return Error(Errc::arg, std::string(name) +
                              " is not a stream: pass one from MPIX_Stream_create, or MPIX_STREAM_NULL "
                              "to create a communicator");
}

Error enqueued_request() {
  return {Errc::request,
          "request is an enqueued operation, whose completion is not visible to the host: complete it in its "
          "stream with MPIX_Wait_enqueue, or free it with MPI_Request_free"};
}

Status adopt_enqueued(core::Request& request) {
  if (reject_enqueued(request).ok()) [[likely]]
    return {};
  auto queue = stream::queue_of(*request.comm);
  if (!queue) return std::move(queue).error();
  (*queue)->adopt(static_cast<stream::Request&>(request));
  return {};
}

}  // namespace weft::api

using namespace weft::api;  // for the entry points below
using weft::Errc;
using weft::Error;

extern "C" {

WEFT_EXPORT int PMPIX_Info_set_hex(MPI_Info info, const char* key, const void* value, int value_size) {
  EntryPoint entry("MPIX_Info_set_hex", EntryPoint::AnyTime{});
  return guarded(entry, [&]() -> int {
    weft::core::Info* object = to_info(info);
    if (object == nullptr) return entry.fail(bad_handle(HandleKind::info, "info", info));
    return entry.finish(set_hex(*object, key, value, value_size));
  });
}
WEFT_ALIAS(MPIX_Info_set_hex, (MPI_Info info, const char* key, const void* value, int value_size));

WEFT_EXPORT int PMPIX_Stream_create(MPI_Info info, MPIX_Stream* stream) {
  EntryPoint entry("MPIX_Stream_create");
  return guarded(entry, [&]() -> int {
    if (stream == nullptr) return entry.fail(null_pointer("stream"));
    weft::core::Info* object = info == MPI_INFO_NULL ? nullptr : to_info(info);
    if (info != MPI_INFO_NULL && object == nullptr)
      return entry.fail(bad_handle(HandleKind::info, "info", info));
    return entry.finish(stream_create(object, stream));
  });
}
WEFT_ALIAS(MPIX_Stream_create, (MPI_Info info, MPIX_Stream* stream));

WEFT_EXPORT int PMPIX_Stream_free(MPIX_Stream* stream) {
  EntryPoint entry("MPIX_Stream_free");
  return guarded(entry, [&]() -> int {
    if (stream == nullptr) return entry.fail(null_pointer("stream"));
    Stream* object = to_stream(*stream);
    if (object == nullptr) return entry.fail(bad_stream("stream"));
    object->close_handle();
    *stream = MPIX_STREAM_NULL;
    return MPI_SUCCESS;
  });
}
WEFT_ALIAS(MPIX_Stream_free, (MPIX_Stream * stream));

/// Creates the communicator under an EntryPoint.
static int create_stream_comm(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm, bool& by_host) {
  EntryPoint entry("MPIX_Stream_comm_create");
  return guarded(entry, [&]() -> int {
    Communicator* object = to_communicator(comm);
    if (object == nullptr) return entry.fail(bad_handle(HandleKind::communicator, "comm", comm));
    entry.set_error_owner(*object);
    if (newcomm == nullptr) return entry.fail(null_pointer("newcomm"));
    if (object->order != nullptr)  // its earlier calls come first
      if (weft::Status settled = weft::api::ordered::settle(*object, entry.call()); !settled.ok())
        return entry.fail(std::move(settled).error());
    weft::Status created = comm_create(*object, stream, newcomm);
    by_host = created.ok() && to_communicator(*newcomm)->order != nullptr;
    return entry.finish(std::move(created));
  });
}

WEFT_EXPORT int PMPIX_Stream_comm_create(MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm) {
  bool by_host = false;
  const int code = create_stream_comm(comm, stream, newcomm, by_host);
  if (!by_host) return code;
  if (weft::Status taken = take_locks(); !taken.ok())
    return fail("MPIX_Stream_comm_create", *to_communicator(*newcomm), std::move(taken).error());
  return code;
}
WEFT_ALIAS(MPIX_Stream_comm_create, (MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm));

WEFT_EXPORT int PMPIX_Comm_get_stream(MPI_Comm comm, int idx, MPIX_Stream* stream) {
  EntryPoint entry("MPIX_Comm_get_stream");
  return guarded(entry, [&]() -> int {
    Communicator* object = to_communicator(comm);
    if (object == nullptr) return entry.fail(bad_handle(HandleKind::communicator, "comm", comm));
    entry.set_error_owner(*object);
    if (stream == nullptr) return entry.fail(null_pointer("stream"));
    const auto* multiplex = weft::stream::Multiplex::of(*object);
    const int count = multiplex == nullptr ? 1 : multiplex->count();
    if (idx < 0 || idx >= count)
      return entry.fail(Error(Errc::arg, "idx = " + std::to_string(idx) + ": comm has " +
                                             std::to_string(count) + " streams here"));
    Stream* found = multiplex == nullptr ? weft::stream::stream_of(*object) : multiplex->at(idx);
    *stream = found == nullptr || !found->has_handle() ? MPIX_STREAM_NULL : stream_handle(found);
    return MPI_SUCCESS;
  });
}
WEFT_ALIAS(MPIX_Comm_get_stream, (MPI_Comm comm, int idx, MPIX_Stream* stream));

WEFT_EXPORT int PMPIX_Comm_set_stream(MPI_Comm comm, MPIX_Stream stream) {
  weft::Status taken = g_state.load() == State::running ? take_locks() : weft::Status();
  EntryPoint entry("MPIX_Comm_set_stream");
  return guarded(entry, [&]() -> int {
    if (!taken.ok()) return entry.fail(std::move(taken).error());
    Communicator* object = to_communicator(comm);
    if (object == nullptr) return entry.fail(bad_handle(HandleKind::communicator, "comm", comm));
    entry.set_error_owner(*object);
    Stream* found = stream == MPIX_STREAM_NULL ? nullptr : to_stream(stream);
    if (stream != MPIX_STREAM_NULL && found == nullptr) return entry.fail(bad_stream("stream"));
    return entry.finish(weft::stream::set_stream(*object, found));
  });
}
WEFT_ALIAS(MPIX_Comm_set_stream, (MPI_Comm comm, MPIX_Stream stream));

WEFT_EXPORT int PMPIX_Comm_stream_error(MPI_Comm comm, int* errorclass) {
  EntryPoint entry("MPIX_Comm_stream_error");
  return guarded(entry, [&]() -> int {
    Communicator* object = to_communicator(comm);
    if (object == nullptr) return entry.fail(bad_handle(HandleKind::communicator, "comm", comm));
    entry.set_error_owner(*object);
    if (errorclass == nullptr) return entry.fail(null_pointer("errorclass"));
    auto* const order = weft::stream::order::Order::of(*object);
    weft::Status failed = order != nullptr ? order->take_error() : weft::Status();
    if (failed.ok() && order != nullptr && order->kernels != nullptr) failed = order->kernels->failure();
    *errorclass = failed.ok() ? MPI_SUCCESS : code_of(failed.error());
    if (!failed.ok()) remember_error(*errorclass, failed.error().message());
    return MPI_SUCCESS;
  });
}
WEFT_ALIAS(MPIX_Comm_stream_error, (MPI_Comm comm, int* errorclass));

#define WEFT_ENQUEUE(suffix, Count)                                                                          \
  WEFT_EXPORT int PMPIX_Send_enqueue##suffix(const void* buf, Count count, MPI_Datatype datatype, int dest,  \
                                             int tag, MPI_Comm comm) {                                       \
    return send("MPIX_Send_enqueue" #suffix, buf, count, datatype, dest, tag, comm);                         \
  }                                                                                                          \
  WEFT_ALIAS(MPIX_Send_enqueue##suffix,                                                                      \
             (const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm));       \
  WEFT_EXPORT int PMPIX_Recv_enqueue##suffix(void* buf, Count count, MPI_Datatype datatype, int source,      \
                                             int tag, MPI_Comm comm, MPI_Status* status) {                   \
    return receive("MPIX_Recv_enqueue" #suffix, buf, count, datatype, source, tag, comm, status);            \
  }                                                                                                          \
  WEFT_ALIAS(MPIX_Recv_enqueue##suffix, (void* buf, Count count, MPI_Datatype datatype, int source, int tag, \
                                         MPI_Comm comm, MPI_Status* status));                                \
  WEFT_EXPORT int PMPIX_Isend_enqueue##suffix(const void* buf, Count count, MPI_Datatype datatype, int dest, \
                                              int tag, MPI_Comm comm, MPI_Request* request) {                \
    return start("MPIX_Isend_enqueue" #suffix, buf, count, datatype, dest, tag, comm, request, false);       \
  }                                                                                                          \
  WEFT_ALIAS(MPIX_Isend_enqueue##suffix, (const void* buf, Count count, MPI_Datatype datatype, int dest,     \
                                          int tag, MPI_Comm comm, MPI_Request* request));                    \
  WEFT_EXPORT int PMPIX_Irecv_enqueue##suffix(void* buf, Count count, MPI_Datatype datatype, int source,     \
                                              int tag, MPI_Comm comm, MPI_Request* request) {                \
    return start("MPIX_Irecv_enqueue" #suffix, buf, count, datatype, source, tag, comm, request, true);      \
  }                                                                                                          \
  WEFT_ALIAS(MPIX_Irecv_enqueue##suffix, (void* buf, Count count, MPI_Datatype datatype, int source,         \
                                          int tag, MPI_Comm comm, MPI_Request* request))
WEFT_ENQUEUE(, int);
WEFT_ENQUEUE(_c, MPI_Count);

WEFT_EXPORT int PMPIX_Wait_enqueue(MPI_Request* request, MPI_Status* status) {
  EntryPoint entry("MPIX_Wait_enqueue");
  return guarded(entry, [&]() -> int {
    if (request == nullptr) return entry.fail(null_pointer("request"));
    return entry.finish(weft::api::wait(entry, 1, request, status));
  });
}
WEFT_ALIAS(MPIX_Wait_enqueue, (MPI_Request * request, MPI_Status* status));

WEFT_EXPORT int PMPIX_Waitall_enqueue(int count, MPI_Request array_of_requests[],
                                      MPI_Status* array_of_statuses) {
  EntryPoint entry("MPIX_Waitall_enqueue");
  return guarded(entry, [&]() -> int {
    if (count < 0) return entry.fail(negative(Errc::count, "count", count));
    if (array_of_requests == nullptr && count != 0) return entry.fail(null_pointer("array_of_requests"));
    return entry.finish(weft::api::wait(entry, count, array_of_requests, array_of_statuses));
  });
}
WEFT_ALIAS(MPIX_Waitall_enqueue, (int count, MPI_Request array_of_requests[], MPI_Status* array_of_statuses));

}  // extern "C"
