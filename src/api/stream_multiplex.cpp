// SPDX-License-Identifier: BSD-3-Clause
// Several streams per rank: MPIX_Stream_comm_create_multiplex, and sends and receives between two streams,
// with the signatures of MPICH.
#include <mpi.h>
#include <weft.h>

#include <string>
#include <vector>

#include "api/check.hpp"
#include "api/data_check.hpp"
#include "api/errors.hpp"
#include "api/extension.hpp"
#include "api/handles.hpp"
#include "api/objects.hpp"
#include "api/ordered.hpp"
#include "api/requests.hpp"
#include "api/status.hpp"
#include "api/stream.hpp"
#include "coll/construct/communicators.hpp"
#include "p2p/p2p.hpp"
#include "stream/multiplex.hpp"
#include "stream/ordered.hpp"

namespace weft::api {
namespace {

using core::Communicator;
using datatype::Datatype;
using p2p::Transfer;
using stream::Multiplex;
using stream::Stream;
using Kind = core::Request::Kind;

constexpr int kMaxStreams = 1024;  // per rank

Status create(Communicator& parent, int count, const MPIX_Stream* handles, MPI_Comm* newcomm) {
  if (parent.inter()) return Error(Errc::comm, "comm is an intercommunicator: pass an intracommunicator");
  if (count < 1 || count > kMaxStreams)
    return Error(Errc::arg,
                 "count = " + std::to_string(count) + " streams: pass 1 to " + std::to_string(kMaxStreams));
  std::vector<core::Ref<Stream>> streams;
  for (int i = 0; i < count; ++i) {
    Stream* stream = handles[i] == MPIX_STREAM_NULL ? nullptr : to_stream(handles[i]);
    if (handles[i] != MPIX_STREAM_NULL && stream == nullptr)
      return bad_stream(("array_of_streams[" + std::to_string(i) + "]").c_str());
    streams.push_back(core::Ref<Stream>::share(stream));
  }
  auto child = coll::duplicate(parent);
  if (!child) return std::move(child).error();
  parent.instance.failures.make_part(**child, parent);
  Status attached = Multiplex::attach(**child, std::move(streams));
  WEFT_TRY(stream::end_creation(**child, std::move(attached)));
  *newcomm = api::handle_of(**child);
  return {};
}

/// Resolved arguments of a call.
struct StreamTransferArguments {
  p2p::Buffer buffer{};
  Communicator* comm = nullptr;
  core::ContextId context = 0;
};

Error bad_index(const char* name, int index, int count) {
  return Error(Errc::arg, std::string(name) + " = " + std::to_string(index) + ": that rank has " +
                              std::to_string(count) + (count == 1 ? " stream" : " streams"));
}

/// Context id of a stream pair; `from` and `to`: number of streams of sender and receiver.
Result<core::ContextId> context_of(const Communicator& comm, int from, int to, int source_index,
                                   int dest_index) {
  if (source_index < 0 || source_index >= from) return bad_index("source_stream_index", source_index, from);
  if (dest_index < 0 || dest_index >= to) return bad_index("dest_stream_index", dest_index, to);
  const Multiplex* multiplex = Multiplex::of(comm);
  return multiplex == nullptr ? comm.context(core::Channel::user)
                              : multiplex->context(source_index, dest_index);
}

Result<StreamTransferArguments> check(EntryPoint& entry, const void* buf, MPI_Count count,
                                      MPI_Datatype datatype, int rank, int tag, MPI_Comm comm,
                                      int source_index, int dest_index, bool receives) {
  StreamTransferArguments message;
  message.comm = to_communicator(comm);
  if (message.comm == nullptr) return bad_handle(HandleKind::communicator, "comm", comm);
  entry.set_error_owner(*message.comm);
  Datatype* type = to_datatype(datatype);
  if (type == nullptr) return bad_handle(HandleKind::datatype, "datatype", datatype);
  if (count < 0) return negative(Errc::count, "count", count);
  if (!type->committed()) return uncommitted("datatype", *type);
  if (receives && rank == MPI_ANY_SOURCE)
    return Error(Errc::unsupported,
                 "source is MPI_ANY_SOURCE: a receive from a stream needs a specific source");
  if (rank != MPI_PROC_NULL && !is_valid_rank(rank, message.comm->size()))
    return bad_rank(receives ? "source" : "dest", rank, message.comm->size(), false);
  if (!is_valid_tag(tag) && !(receives && tag == MPI_ANY_TAG)) return bad_tag("tag", tag, receives);
  if (!valid_data(buf, count, *type) && (rank != MPI_PROC_NULL || !valid_size(count, *type)))
    return bad_data("buf", "count", count, *type);
  message.buffer = p2p::buffer_of(buf, count, *type);
  message.context = message.comm->context(core::Channel::user);
  if (rank == MPI_PROC_NULL) return message;
  const Multiplex* multiplex = Multiplex::of(*message.comm);
  const int local_count = multiplex == nullptr ? 1 : multiplex->count(),
            remote_count = multiplex == nullptr ? 1 : multiplex->count_of(rank);
  auto context = receives ? context_of(*message.comm, remote_count, local_count, source_index, dest_index)
                          : context_of(*message.comm, local_count, remote_count, source_index, dest_index);
  if (!context) return std::move(context).error();
  message.context = *context;
  return message;
}

int send(const char* call, const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
         MPI_Comm comm, int source_index, int dest_index) {
  EntryPoint entry(call);
  return guarded(entry, [&]() -> int {
    auto message = check(entry, buf, count, datatype, dest, tag, comm, source_index, dest_index, false);
    if (!message) return entry.fail(std::move(message).error());
    Transfer transfer(Kind::send);
    p2p::post_send_in(message->context, transfer, message->buffer, dest, tag, *message->comm);
    core::wait(message->comm->instance, transfer);
    return entry.finish(std::move(transfer.outcome));
  });
}

int receive(const char* call, void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
            MPI_Comm comm, int source_index, int dest_index, MPI_Status* status) {
  EntryPoint entry(call);
  return guarded(entry, [&]() -> int {
    auto message = check(entry, buf, count, datatype, source, tag, comm, source_index, dest_index, true);
    if (!message) return entry.fail(std::move(message).error());
    Transfer transfer(Kind::receive);
    p2p::post_receive_in(message->context, transfer, message->buffer, source, tag, *message->comm);
    core::wait(message->comm->instance, transfer);
    fill(status, transfer.completion);
    return entry.finish(std::move(transfer.outcome));
  });
}

int start(const char* call, const void* buf, MPI_Count count, MPI_Datatype datatype, int rank, int tag,
          MPI_Comm comm, int source_index, int dest_index, MPI_Request* request, bool receives) {
  EntryPoint entry(call);
  return guarded(entry, [&]() -> int {
    auto message = check(entry, buf, count, datatype, rank, tag, comm, source_index, dest_index, receives);
    if (!message) return entry.fail(std::move(message).error());
    if (request == nullptr) return entry.fail(null_pointer("request"));
    Transfer* transfer = p2p::create_transfer(receives ? Kind::receive : Kind::send);
    if (transfer == nullptr) return entry.fail(no_more_requests());
    *request = handle_of(*transfer);
    if (receives)
      p2p::post_receive_in(message->context, *transfer, message->buffer, rank, tag, *message->comm);
    else
      p2p::post_send_in(message->context, *transfer, message->buffer, rank, tag, *message->comm);
    return MPI_SUCCESS;
  });
}

}  // namespace
}  // namespace weft::api

using namespace weft::api;  // for the entry points below

extern "C" {

WEFT_EXPORT int PMPIX_Stream_comm_create_multiplex(MPI_Comm comm, int count, MPIX_Stream array_of_streams[],
                                                   MPI_Comm* newcomm) {
  EntryPoint entry("MPIX_Stream_comm_create_multiplex");
  return guarded(entry, [&]() -> int {
    weft::core::Communicator* object = to_communicator(comm);
    if (object == nullptr) return entry.fail(bad_handle(HandleKind::communicator, "comm", comm));
    entry.set_error_owner(*object);
    if (newcomm == nullptr) return entry.fail(null_pointer("newcomm"));
    if (array_of_streams == nullptr) return entry.fail(null_pointer("array_of_streams"));
    if (object->order != nullptr)  // its earlier calls come first
      if (weft::Status settled = weft::api::ordered::settle(*object, entry.call()); !settled.ok())
        return entry.fail(std::move(settled).error());
    return entry.finish(weft::api::create(*object, count, array_of_streams, newcomm));
  });
}
WEFT_ALIAS(MPIX_Stream_comm_create_multiplex,
           (MPI_Comm comm, int count, MPIX_Stream array_of_streams[], MPI_Comm* newcomm));

#define WEFT_STREAM_CALLS(suffix, Count)                                                                     \
  WEFT_EXPORT int PMPIX_Stream_send##suffix(const void* buf, Count count, MPI_Datatype datatype, int dest,   \
                                            int tag, MPI_Comm comm, int source_stream_index,                 \
                                            int dest_stream_index) {                                         \
    return send("MPIX_Stream_send" #suffix, buf, count, datatype, dest, tag, comm, source_stream_index,      \
                dest_stream_index);                                                                          \
  }                                                                                                          \
  WEFT_ALIAS(MPIX_Stream_send##suffix,                                                                       \
             (const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,         \
              int source_stream_index, int dest_stream_index));                                              \
  WEFT_EXPORT int PMPIX_Stream_recv##suffix(void* buf, Count count, MPI_Datatype datatype, int source,       \
                                            int tag, MPI_Comm comm, int source_stream_index,                 \
                                            int dest_stream_index, MPI_Status* status) {                     \
    return receive("MPIX_Stream_recv" #suffix, buf, count, datatype, source, tag, comm, source_stream_index, \
                   dest_stream_index, status);                                                               \
  }                                                                                                          \
  WEFT_ALIAS(MPIX_Stream_recv##suffix,                                                                       \
             (void* buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,             \
              int source_stream_index, int dest_stream_index, MPI_Status* status));                          \
  WEFT_EXPORT int PMPIX_Stream_isend##suffix(const void* buf, Count count, MPI_Datatype datatype, int dest,  \
                                             int tag, MPI_Comm comm, int source_stream_index,                \
                                             int dest_stream_index, MPI_Request* request) {                  \
    return start("MPIX_Stream_isend" #suffix, buf, count, datatype, dest, tag, comm, source_stream_index,    \
                 dest_stream_index, request, false);                                                         \
  }                                                                                                          \
  WEFT_ALIAS(MPIX_Stream_isend##suffix,                                                                      \
             (const void* buf, Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,         \
              int source_stream_index, int dest_stream_index, MPI_Request* request));                        \
  WEFT_EXPORT int PMPIX_Stream_irecv##suffix(void* buf, Count count, MPI_Datatype datatype, int source,      \
                                             int tag, MPI_Comm comm, int source_stream_index,                \
                                             int dest_stream_index, MPI_Request* request) {                  \
    return start("MPIX_Stream_irecv" #suffix, buf, count, datatype, source, tag, comm, source_stream_index,  \
                 dest_stream_index, request, true);                                                          \
  }                                                                                                          \
  WEFT_ALIAS(MPIX_Stream_irecv##suffix,                                                                      \
             (void* buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,             \
              int source_stream_index, int dest_stream_index, MPI_Request* request))
WEFT_STREAM_CALLS(, int);
WEFT_STREAM_CALLS(_c, MPI_Count);

}  // extern "C"
