// SPDX-License-Identifier: BSD-3-Clause
// Completion of requests (MPI 5.0 sections 3.7 and 3.9): single requests, cancel, start.
#include <mpi.h>

#include "api/check.hpp"
#include "api/impl.hpp"
#include "api/ordered.hpp"
#include "api/requests.hpp"
#include "api/status.hpp"
#include "api/stream.hpp"
#include "p2p/p2p.hpp"

namespace weft::api {

Status complete_request(MPI_Request* handle, core::Request& request, MPI_Status* status) {
  if (completes_trivially(request)) [[likely]] {
    fill(status, request.completion);
    *handle = MPI_REQUEST_NULL;
    request.destroy();
    return {};
  }
  if (request.interrupted()) return with_error_communicator(request.comm, request.outcome.error().copy());
  Status outcome = request.query();
  if (outcome) outcome = std::move(request.outcome);
  fill(status, request.completion);
  outcome = with_error_communicator(request.comm, std::move(outcome));
  if (!outcome && io::Operation::check(&request) == HandleState::live)
    set_error_file(static_cast<io::File&>(*static_cast<io::Operation&>(request).file));
  if (request.persistent) {
    request.active = false;
  } else {
    *handle = MPI_REQUEST_NULL;
    Status concluded = request.conclude();
    if (outcome) outcome = std::move(concluded);
    request.destroy();
  }
  return outcome;
}

Result<core::Request*> active_request(MPI_Request handle) {
  if (handle == MPI_REQUEST_NULL) return static_cast<core::Request*>(nullptr);
  core::Request* request = to_request(handle);
  if (request == nullptr || request->detached) return bad_handle(HandleKind::request, "request", handle);
  WEFT_TRY(with_error_communicator(request->comm, reject_enqueued(*request)));
  return request->active ? request : nullptr;
}

namespace impl {
namespace {

/// The request of a handle that must not be null. `enqueued`: whether to accept it if it is of
/// MPIX_*_enqueue.
Result<core::Request*> nonnull_request(MPI_Request handle, Status (*enqueued)(core::Request&)) {
  core::Request* request = handle == MPI_REQUEST_NULL ? nullptr : to_request(handle);
  if (request == nullptr || request->detached) return bad_handle(HandleKind::request, "request", handle);
  WEFT_TRY(with_error_communicator(request->comm, enqueued(*request)));
  return request;
}

Status start(core::Request& request, const char* name) {
  if (!request.persistent)
    return Error(Errc::request, "request is not persistent: pass one from a *_init call");
  if (request.active)
    return Error(Errc::request, "request is already active: complete it before starting it again");
  // The host starts and completes a request that was made while the communicator had no stream.
  const bool partitioned = request.kind == core::Request::Kind::partitioned;
  if (!partitioned && !ordered::in_stream(request) && request.comm != nullptr &&
      ordered::in_order(*request.comm))
    WEFT_TRY(ordered::settle(*request.comm, name));
  return request.start();
}

Status start(MPI_Request handle, const char* name) {
  auto request = nonnull_request(handle, reject_enqueued);
  if (!request) return std::move(request).error();
  return with_error_communicator((*request)->comm, start(**request, name));
}

}  // namespace

Status Wait(MPI_Request* handle, MPI_Status* status) {
  auto request = active_request(*handle);
  if (!request) return std::move(request).error();
  if (*request == nullptr) return fill_empty(status), Status{};
  if (ordered::in_stream(**request)) [[unlikely]] {
    if (status == MPI_STATUS_IGNORE) {
      core::Communicator* const comm = (*request)->comm;
      auto left = ordered::wait_in_stream("MPI_Wait", {handle, 1}, {});
      if (!left) return with_error_communicator(comm, std::move(left).error());
      if (*left) return {};
    }
    WEFT_TRY(with_error_communicator((*request)->comm, ordered::allow_host_wait(**request)));
    WEFT_TRY(with_error_communicator((*request)->comm, ordered::finish_on_host({handle, 1})));
  }
  core::wait(*g_instance, **request);
  return complete_request(handle, **request, status);
}

Status Test(MPI_Request* handle, int* flag, MPI_Status* status) {
  *flag = 0;
  auto request = active_request(*handle);
  if (!request) return std::move(request).error();
  if (*request == nullptr) {
    *flag = 1;
    return fill_empty(status), Status{};
  }
  if (ordered::in_stream(**request)) [[unlikely]]
    WEFT_TRY(with_error_communicator((*request)->comm, ordered::allow_host_test(**request)));
  if (!(*request)->complete()) g_instance->poll_once({.request = *request});
  if (!(*request)->complete()) return {};
  *flag = 1;
  return complete_request(handle, **request, status);
}

Status Request_get_status(MPI_Request handle, int* flag, MPI_Status* status) {
  auto request = active_request(handle);
  if (!request) return std::move(request).error();
  *flag = 1;
  if (*request == nullptr) return fill_empty(status), Status{};
  if (ordered::in_stream(**request)) [[unlikely]]
    WEFT_TRY(with_error_communicator((*request)->comm, ordered::allow_host_test(**request)));
  if (!(*request)->complete()) g_instance->poll_once({.request = *request});
  *flag = (*request)->complete();
  if (*flag == 0) return {};
  WEFT_TRY((*request)->query());
  fill(status, (*request)->completion);
  return {};
}

Status Request_free(MPI_Request* handle) {
  auto request = nonnull_request(*handle, adopt_enqueued);
  if (!request) return std::move(request).error();
  const bool running = (*request)->active && (!(*request)->complete() || (*request)->interrupted());
  if (running && (*request)->kind == core::Request::Kind::partitioned)
    return Error(Errc::request, "request is an active partitioned operation: complete it before freeing it");
  *handle = MPI_REQUEST_NULL;
  if (running) {
    if ((*request)->interrupted()) (*request)->resume();
    (*request)->detached = true;  // destroyed when it completes
    if (ordered::in_stream(**request)) ordered::drop_captured(**request);
    return {};
  }
  Status concluded = (*request)->conclude();
  (*request)->destroy();
  return concluded;
}

Status Cancel(MPI_Request* handle) {
  auto request = nonnull_request(*handle, reject_enqueued);
  if (!request) return std::move(request).error();
  if (!(*request)->active)
    return Error(Errc::request, "request is inactive: only active requests can be cancelled");
  return (*request)->cancel();
}

Status Start(MPI_Request* handle) { return start(*handle, "MPI_Start"); }

Status Startall(int count, MPI_Request* handles) {
  const p2p::BatchScope together(*g_instance);
  for (int i = 0; i < count; ++i) WEFT_TRY(start(handles[i], "MPI_Startall"));
  return {};
}

}  // namespace impl
}  // namespace weft::api
