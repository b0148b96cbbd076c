// SPDX-License-Identifier: BSD-3-Clause
// Enqueued collectives: functions of weft.h, compatible with MPICH.
#include <mpi.h>
#include <weft.h>

#include <string>
#include <type_traits>

#include "api/check.hpp"
#include "api/collective_arguments.hpp"
#include "api/data_check.hpp"
#include "api/errors.hpp"
#include "api/extension.hpp"
#include "api/handles.hpp"
#include "api/objects.hpp"
#include "stream/queue.hpp"

namespace weft::api {
namespace {

using core::Communicator;
using datatype::Datatype;

/// Resolves and checks the arguments of a call one by one; keeps the first error.
class EnqueuedCall {
 public:
  EnqueuedCall(const char* call, MPI_Comm handle) : entry_(call), comm_(to_communicator(handle)) {
    if (comm_ == nullptr) {
      fail(bad_handle(HandleKind::communicator, "comm", handle));
      return;
    }
    entry_.set_error_owner(*comm_);
    auto queue = stream::queue_of(*comm_);
    if (queue)
      queue_ = *queue;
    else
      fail(std::move(queue).error());
  }
  Datatype* type(const char* name, MPI_Datatype handle, const char* count_name, MPI_Count count) {
    Datatype* found = to_datatype(handle);
    if (found == nullptr)
      fail(bad_handle(HandleKind::datatype, name, handle));
    else if (count < 0)
      fail(negative(Errc::count, count_name, count));
    else if (!found->committed())
      fail(uncommitted(name, *found));
    return found;
  }
  core::Op* op(MPI_Op handle) {
    core::Op* found = to_op(handle);
    if (found == nullptr) fail(bad_handle(HandleKind::op, "op", handle));
    return found;
  }
  void root(int root) {
    if (comm_ != nullptr && !is_valid_root(*comm_, root)) fail(bad_root("root", root, *comm_));
  }
  [[nodiscard]] bool ok() const { return status_.ok(); }
  [[nodiscard]] Communicator& comm() const { return *comm_; }
  int run(prepare::Collective&& prepared) {
    if (!prepared.status.ok()) return entry_.fail(std::move(prepared.status).error());
    if (prepared.call.scaled)
      return entry_.fail(Error(Errc::op, "op = " + prepared.call.op->name +
                                             " scales, which enqueued reductions do not: use MPI_SUM, and a "
                                             "kernel of the program"));
    return entry_.finish(queue_->collective(prepared.call));
  }
  /// Refuses data that cannot be at `buffer`, for example at a null address.
  void data(const char* name, const void* buffer, const char* count_name, MPI_Count count,
            const Datatype* type, MPI_Count blocks = 1) {
    if (ok() && !valid_data(buffer, times(count, blocks), *type))
      fail(bad_data(name, count_name, count, *type, blocks));
  }
  template <class Body>
  int guarded(Body&& body) {
    return api::guarded(entry_, body);
  }
  int fail_call() { return entry_.fail(std::move(status_).error()); }

 private:
  void fail(Error error) {
    if (status_.ok()) status_ = Status(std::move(error));
  }
  EntryPoint entry_;
  Communicator* comm_;
  stream::Queue* queue_ = nullptr;
  Status status_;
};

int allreduce(const char* call, const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
              MPI_Op op, MPI_Comm comm) {
  EnqueuedCall call_state(call, comm);
  return call_state.guarded([&]() -> int {
    Datatype* type = call_state.type("datatype", datatype, "count", count);
    core::Op* operation = call_state.op(op);
    call_state.data("sendbuf", sendbuf, "count", count, type);
    call_state.data("recvbuf", recvbuf, "count", count, type);
    if (!call_state.ok()) return call_state.fail_call();
    return call_state.run(prepare::Allreduce(sendbuf, recvbuf, count, *type, *operation, call_state.comm()));
  });
}

int reduce_scatter_block(const char* call, const void* sendbuf, void* recvbuf, MPI_Count recvcount,
                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {
  EnqueuedCall call_state(call, comm);
  return call_state.guarded([&]() -> int {
    Datatype* type = call_state.type("datatype", datatype, "recvcount", recvcount);
    core::Op* operation = call_state.op(op);
    if (call_state.ok()) {
      const MPI_Count ranks = call_state.comm().size();
      call_state.data("sendbuf", sendbuf, "recvcount", recvcount, type, ranks);
      call_state.data("recvbuf", recvbuf, "recvcount", recvcount, type, sendbuf == MPI_IN_PLACE ? ranks : 1);
    }
    if (!call_state.ok()) return call_state.fail_call();
    return call_state.run(
        prepare::ReduceScatterBlock(sendbuf, recvbuf, recvcount, *type, *operation, call_state.comm()));
  });
}

int bcast(const char* call, void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  EnqueuedCall call_state(call, comm);
  return call_state.guarded([&]() -> int {
    Datatype* type = call_state.type("datatype", datatype, "count", count);
    call_state.root(root);
    call_state.data("buffer", buffer, "count", count, type);
    if (!call_state.ok()) return call_state.fail_call();
    return call_state.run(prepare::Bcast(buffer, count, *type, root, call_state.comm()));
  });
}

/// Allgather and alltoall. With MPI_IN_PLACE the send arguments are not significant.
template <class Prepared>
int exchange(const char* call, const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void* recvbuf,
             MPI_Count recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  EnqueuedCall call_state(call, comm);
  return call_state.guarded([&]() -> int {
    Datatype* in = call_state.type("recvtype", recvtype, "recvcount", recvcount);
    Datatype* out =
        sendbuf == MPI_IN_PLACE ? in : call_state.type("sendtype", sendtype, "sendcount", sendcount);
    if (call_state.ok()) {
      const MPI_Count ranks = call_state.comm().size();
      const MPI_Count sent = std::is_same_v<Prepared, prepare::Alltoall> ? ranks : 1;
      if (sendbuf != MPI_IN_PLACE) call_state.data("sendbuf", sendbuf, "sendcount", sendcount, out, sent);
      call_state.data("recvbuf", recvbuf, "recvcount", recvcount, in, ranks);
    }
    if (!call_state.ok()) return call_state.fail_call();
    return call_state.run(Prepared(sendbuf, sendcount, *out, recvbuf, recvcount, *in, call_state.comm()));
  });
}

}  // namespace
}  // namespace weft::api

using namespace weft::api;  // for the entry points below

extern "C" {

#define WEFT_ENQUEUE(suffix, Count)                                                                        \
  WEFT_EXPORT int PMPIX_Allreduce_enqueue##suffix(const void* sendbuf, void* recvbuf, Count count,         \
                                                  MPI_Datatype datatype, MPI_Op op, MPI_Comm comm) {       \
    return allreduce("MPIX_Allreduce_enqueue" #suffix, sendbuf, recvbuf, count, datatype, op, comm);       \
  }                                                                                                        \
  WEFT_ALIAS(MPIX_Allreduce_enqueue##suffix, (const void* sendbuf, void* recvbuf, Count count,             \
                                              MPI_Datatype datatype, MPI_Op op, MPI_Comm comm));           \
  WEFT_EXPORT int PMPIX_Reduce_scatter_block_enqueue##suffix(const void* sendbuf, void* recvbuf,           \
                                                             Count recvcount, MPI_Datatype datatype,       \
                                                             MPI_Op op, MPI_Comm comm) {                   \
    return reduce_scatter_block("MPIX_Reduce_scatter_block_enqueue" #suffix, sendbuf, recvbuf, recvcount,  \
                                datatype, op, comm);                                                       \
  }                                                                                                        \
  WEFT_ALIAS(MPIX_Reduce_scatter_block_enqueue##suffix,                                                    \
             (const void* sendbuf, void* recvbuf, Count recvcount, MPI_Datatype datatype, MPI_Op op,       \
              MPI_Comm comm));                                                                             \
  WEFT_EXPORT int PMPIX_Bcast_enqueue##suffix(void* buffer, Count count, MPI_Datatype datatype, int root,  \
                                              MPI_Comm comm) {                                             \
    return bcast("MPIX_Bcast_enqueue" #suffix, buffer, count, datatype, root, comm);                       \
  }                                                                                                        \
  WEFT_ALIAS(MPIX_Bcast_enqueue##suffix,                                                                   \
             (void* buffer, Count count, MPI_Datatype datatype, int root, MPI_Comm comm));                 \
  WEFT_EXPORT int PMPIX_Allgather_enqueue##suffix(const void* sendbuf, Count sendcount,                    \
                                                  MPI_Datatype sendtype, void* recvbuf, Count recvcount,   \
                                                  MPI_Datatype recvtype, MPI_Comm comm) {                  \
    return exchange<prepare::Allgather>("MPIX_Allgather_enqueue" #suffix, sendbuf, sendcount, sendtype,    \
                                        recvbuf, recvcount, recvtype, comm);                               \
  }                                                                                                        \
  WEFT_ALIAS(MPIX_Allgather_enqueue##suffix,                                                               \
             (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf, Count recvcount, \
              MPI_Datatype recvtype, MPI_Comm comm));                                                      \
  WEFT_EXPORT int PMPIX_Alltoall_enqueue##suffix(const void* sendbuf, Count sendcount,                     \
                                                 MPI_Datatype sendtype, void* recvbuf, Count recvcount,    \
                                                 MPI_Datatype recvtype, MPI_Comm comm) {                   \
    return exchange<prepare::Alltoall>("MPIX_Alltoall_enqueue" #suffix, sendbuf, sendcount, sendtype,      \
                                       recvbuf, recvcount, recvtype, comm);                                \
  }                                                                                                        \
  WEFT_ALIAS(MPIX_Alltoall_enqueue##suffix,                                                                \
             (const void* sendbuf, Count sendcount, MPI_Datatype sendtype, void* recvbuf, Count recvcount, \
              MPI_Datatype recvtype, MPI_Comm comm))
WEFT_ENQUEUE(, int);
WEFT_ENQUEUE(_c, MPI_Count);

}  // extern "C"
