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
#include "api/impl.hpp"
#include "api/objects.hpp"
#include "api/ordered.hpp"
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
    if (ordered::enqueues_extensions(*comm_)) return;
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
  /// Enqueues the kernel of a call that `prepare()` describes, or `function`, which the host executes.
  template <class Prepare, class Function>
  int run(std::initializer_list<const void*> buffers, std::initializer_list<const Datatype*> types,
          Prepare&& prepare, Function function) {
    if (queue_ == nullptr)
      return entry_.finish(ordered::run({*comm_, entry_.call(), buffers, types}, std::move(function)));
    const auto prepared = prepare();
    if (!prepared.status.ok()) return entry_.fail(prepared.status.error().copy());
    if (prepared.call.scaled)
      return entry_.fail(Error(Errc::op, "op = " + prepared.call.op->name +
                                             " scales, which kernels in streams do not: use MPI_SUM, and a "
                                             "kernel of the program, or a communicator in stream order"));
    weft::Status earlier = queue_->before_host_call(false);  // started or freed before
    if (!earlier.ok()) return entry_.fail(std::move(earlier).error());
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
    Communicator& on = call_state.comm();
    return call_state.run(
        {sendbuf, recvbuf}, {type},
        [&] { return prepare::Allreduce(sendbuf, recvbuf, count, *type, *operation, on); },
        [=, &on, kept = ordered::keep(*type), op_kept = ordered::keep(*operation)]() -> Status {
          return impl::Allreduce(sendbuf, recvbuf, count, *kept, *op_kept, on);
        });
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
    Communicator& on = call_state.comm();
    return call_state.run(
        {sendbuf, recvbuf}, {type},
        [&] { return prepare::ReduceScatterBlock(sendbuf, recvbuf, recvcount, *type, *operation, on); },
        [=, &on, kept = ordered::keep(*type), op_kept = ordered::keep(*operation)]() -> Status {
          return impl::Reduce_scatter_block(sendbuf, recvbuf, recvcount, *kept, *op_kept, on);
        });
  });
}

int bcast(const char* call, void* buffer, MPI_Count count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  EnqueuedCall call_state(call, comm);
  return call_state.guarded([&]() -> int {
    Datatype* type = call_state.type("datatype", datatype, "count", count);
    call_state.root(root);
    call_state.data("buffer", buffer, "count", count, type);
    if (!call_state.ok()) return call_state.fail_call();
    Communicator& on = call_state.comm();
    return call_state.run(
        {buffer}, {type}, [&] { return prepare::Bcast(buffer, count, *type, root, on); },
        [=, &on, kept = ordered::keep(*type)]() -> Status {
          return impl::Bcast(buffer, count, *kept, root, on);
        });
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
    Communicator& on = call_state.comm();
    return call_state.run(
        {sendbuf, recvbuf}, {out, in},
        [&] { return Prepared(sendbuf, sendcount, *out, recvbuf, recvcount, *in, on); },
        [=, &on, out_kept = ordered::keep(*out), in_kept = ordered::keep(*in)]() -> Status {
          const auto function =
              std::is_same_v<Prepared, prepare::Alltoall> ? impl::Alltoall : impl::Allgather;
          return function(sendbuf, sendcount, *out_kept, recvbuf, recvcount, *in_kept, on);
        });
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

WEFT_EXPORT int PMPIX_Stream_comm_redirect(MPI_Comm comm, void* cuda_stream) {
  EntryPoint entry("MPIX_Stream_comm_redirect");
  return guarded(entry, [&]() -> int {
    weft::core::Communicator* object = to_communicator(comm);
    if (object == nullptr) return entry.fail(bad_handle(HandleKind::communicator, "comm", comm));
    entry.set_error_owner(*object);
    auto queue = weft::stream::queue_of(*object);
    if (!queue) return entry.fail(std::move(queue).error());
    return entry.finish((*queue)->redirect(cuda_stream));
  });
}
WEFT_ALIAS(MPIX_Stream_comm_redirect, (MPI_Comm comm, void* cuda_stream));

}  // extern "C"
