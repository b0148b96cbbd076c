// SPDX-License-Identifier: BSD-3-Clause
// Completion of multiple requests (MPI 5.0 section 3.7.5): all, any, some.
#include <mpi.h>

#include <algorithm>
#include <string>
#include <utility>

#include "api/impl.hpp"
#include "api/ordered.hpp"
#include "api/requests.hpp"
#include "api/status.hpp"
#include "api/stream.hpp"

namespace weft::api::impl {
namespace {

MPI_Status* status_at(MPI_Status* statuses, int i) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + i;
}

/// Completing the first entry would free the request of the second one.
Error listed_twice(int entry, const MPI_Request* handles) {
  const auto first = std::find(handles, handles + entry, handles[entry]) - handles;
  return mpi_error(MPI_ERR_REQUEST, "array_of_requests[" + std::to_string(entry) +
                                        "] is the request of array_of_requests[" + std::to_string(first) +
                                        "]: a list names each active request once");
}

/// Whether a handle is that of a send which was complete when its call returned. These need no checks.
bool is_completed_send(MPI_Request handle) {
  return static_cast<const void*>(handle) == g_handles.completed_send;
}

enum class Completes { one, many };  // entries of a list by one call

/// Whether some active request of a list is in stream order. Precondition: count_active().
bool any_ordered(int count, const MPI_Request* handles) {
  return std::any_of(handles, handles + count, [](MPI_Request handle) {
    return handle != MPI_REQUEST_NULL && !is_completed_send(handle) &&
           ordered::in_stream(*reinterpret_cast<core::Request*>(handle));
  });
}

/// Before the host completes requests of a list: refuses captured operations. A list that mixes
/// requests with and without stream order is completed by the host, too.
Status allow_host(int count, const MPI_Request* handles, Status (*allow)(core::Request&)) {
  for (int i = 0; i < count; ++i) {
    if (handles[i] == MPI_REQUEST_NULL || is_completed_send(handles[i])) continue;
    auto& request = *reinterpret_cast<core::Request*>(handles[i]);
    WEFT_TRY(with_error_communicator(request.comm, allow(request)));
  }
  return {};
}

/// Returns the number of active requests, or an error before any wait: for an invalid handle, or, if a call
/// completes many entries, for a second entry of a request that completion frees.
Result<int> count_active(int count, const MPI_Request* handles, Completes completes = Completes::one) {
  static uint64_t lists = 0;  // under the instance lock
  const uint64_t list = ++lists;
  int active = 0;
  for (int i = 0; i < count; ++i) {
    if (handles[i] == MPI_REQUEST_NULL) continue;
    if (is_completed_send(handles[i])) {
      ++active;
      continue;
    }
    core::Request* request = to_request(handles[i]);
    if (request == nullptr || request->detached)
      return bad_handle_at(HandleKind::request, "array_of_requests", static_cast<size_t>(i), handles[i]);
    if (request->kind == core::Request::Kind::enqueued && !reject_enqueued(*request).ok()) [[unlikely]]
      return with_error_communicator(request->comm, enqueued_request()).error();
    if (completes == Completes::many && std::exchange(request->listed, list) == list && !request->persistent)
        [[unlikely]]
      return listed_twice(i, handles);
    active += request->active ? 1 : 0;
  }
  return active;
}

/// The request if it is active and complete, else null. Precondition: count_active() validated the handle.
core::Request* completed(MPI_Request handle) {
  if (handle == MPI_REQUEST_NULL) return nullptr;
  auto* request = reinterpret_cast<core::Request*>(handle);
  return request->active && request->complete() ? request : nullptr;
}
bool pending(MPI_Request handle) {
  if (handle == MPI_REQUEST_NULL || is_completed_send(handle)) return false;
  auto* request = reinterpret_cast<core::Request*>(handle);
  return request->active && !request->complete();
}

/// Completes a request and writes its error code to the status; returns false if the operation failed.
bool complete_request_into(MPI_Request* handle, core::Request& request, MPI_Status* status,
                           std::string& first_error) {
  if (status == MPI_STATUS_IGNORE && completes_trivially(request)) [[likely]] {
    *handle = MPI_REQUEST_NULL;
    request.destroy();
    return true;
  }
  const Status outcome = complete_request(handle, request, status);
  if (status != MPI_STATUS_IGNORE) {
    status->MPI_ERROR = MPI_SUCCESS;
    if (!outcome) status->MPI_ERROR = code_with_message(code_of(outcome.error()), outcome.error().message());
  }
  if (!outcome && first_error.empty()) first_error = outcome.error().message();
  return outcome.ok();
}

Error in_status(const std::string& first_error) {
  return mpi_error(MPI_ERR_IN_STATUS, "an operation of the list failed: " + first_error);
}

/// Completes an entry of a list; returns false if its operation has not finished. `failed` is set if it
/// failed.
bool complete_entry(int i, MPI_Request* handles, MPI_Status* status, bool& failed, std::string& first_error) {
  core::Request* request = completed(handles[i]);
  if (request == nullptr) return false;
  failed |= !complete_request_into(&handles[i], *request, status, first_error);
  return true;
}

/// Completes all requests of a list whose operations have finished.
Status complete_all(int count, MPI_Request* handles, MPI_Status* statuses) {
  std::string first_error;
  bool failed = false;
  for (int i = 0; i < count; ++i) {
    MPI_Status* status = status_at(statuses, i);
    if (status == MPI_STATUS_IGNORE && is_completed_send(handles[i])) {
      handles[i] = MPI_REQUEST_NULL;
      continue;
    }
    if (complete_entry(i, handles, status, failed, first_error)) continue;
    fill_empty(status);
    if (status != MPI_STATUS_IGNORE) status->MPI_ERROR = MPI_SUCCESS;
  }
  if (failed) return in_status(first_error);
  return {};
}

/// Completes the finished requests; `outcount` and `indices` as in MPI_Waitsome.
Status complete_some(int count, MPI_Request* handles, int* outcount, int* indices, MPI_Status* statuses) {
  std::string first_error;
  bool failed = false;
  int found = 0;
  for (int i = 0; i < count; ++i)
    if (complete_entry(i, handles, status_at(statuses, found), failed, first_error)) indices[found++] = i;
  *outcount = found;
  if (failed) return in_status(first_error);
  return {};
}

int find_completed(int count, const MPI_Request* handles) {
  for (int i = 0; i < count; ++i)
    if (completed(handles[i]) != nullptr) return i;
  return -1;
}

/// The first request that is not complete, as the target of a wait.
core::WaitTarget first_pending(int count, const MPI_Request* handles) {
  for (int i = 0; i < count; ++i)
    if (pending(handles[i])) return {.request = reinterpret_cast<core::Request*>(handles[i])};
  return {};
}

void poll_once(int count, const MPI_Request* handles) {
  g_instance->poll_once(first_pending(count, handles));
}

/// Waits until a request of the list is complete; returns its index. Precondition: one is active.
int wait_for_any(int count, const MPI_Request* handles) {
  const bool in_stream = g_instance->threaded && any_ordered(count, handles);
  int index = -1;
  const auto found = [&] {
    index = find_completed(count, handles);
    if (in_stream && index < 0) expect_by_poll({handles, static_cast<size_t>(count)});
    return index >= 0;
  };
  core::wait_until(*g_instance, found, first_pending(count, handles));
  return index;
}

/// Fills the status of a complete, null or inactive request without changing the request.
Status read_status(MPI_Request handle, MPI_Status* status) {
  core::Request* request = completed(handle);
  if (request == nullptr) return fill_empty(status), Status{};
  WEFT_TRY(request->query());
  fill(status, request->completion);
  return {};
}

Status no_active(int* index, int* flag, MPI_Status* status) {
  *index = MPI_UNDEFINED;
  if (flag != nullptr) *flag = 1;
  fill_empty(status);
  return {};
}

}  // namespace

Status Waitall(int count, MPI_Request* handles, MPI_Status* statuses) {
  auto active = count_active(count, handles, Completes::many);
  if (!active) return std::move(active).error();
  if (g_instance->threaded && any_ordered(count, handles)) [[unlikely]] {
    if (statuses == MPI_STATUSES_IGNORE) {
      auto left = ordered::wait_in_stream("MPI_Waitall", {handles, static_cast<size_t>(count)}, {});
      if (!left) return std::move(left).error();
      if (*left) return {};
    }
    WEFT_TRY(allow_host(count, handles, ordered::allow_host_wait));
    WEFT_TRY(ordered::finish_on_host({handles, static_cast<size_t>(count)}));
  }
  for (int i = 0; i < count; ++i)
    if (pending(handles[i])) core::wait(*g_instance, *reinterpret_cast<core::Request*>(handles[i]));
  return complete_all(count, handles, statuses);
}

Status Testall(int count, MPI_Request* handles, int* flag, MPI_Status* statuses) {
  *flag = 0;
  auto active = count_active(count, handles, Completes::many);
  if (!active) return std::move(active).error();
  if (g_instance->threaded) WEFT_TRY(allow_host(count, handles, ordered::allow_host_test));
  if (*active != 0) poll_once(count, handles);
  for (int i = 0; i < count; ++i)
    if (pending(handles[i])) return {};
  *flag = 1;
  return complete_all(count, handles, statuses);
}

Status Waitany(int count, MPI_Request* handles, int* index, MPI_Status* status) {
  auto active = count_active(count, handles);
  if (!active) return std::move(active).error();
  if (g_instance->threaded) WEFT_TRY(allow_host(count, handles, ordered::allow_host_wait));
  if (*active == 0) return no_active(index, nullptr, status);
  *index = wait_for_any(count, handles);
  return complete_request(&handles[*index], *completed(handles[*index]), status);
}

Status Testany(int count, MPI_Request* handles, int* index, int* flag, MPI_Status* status) {
  *flag = 0;
  *index = MPI_UNDEFINED;
  auto active = count_active(count, handles);
  if (!active) return std::move(active).error();
  if (g_instance->threaded) WEFT_TRY(allow_host(count, handles, ordered::allow_host_test));
  if (*active == 0) return no_active(index, flag, status);
  poll_once(count, handles);
  const int found = find_completed(count, handles);
  if (found < 0) return {};
  *flag = 1;
  *index = found;
  return complete_request(&handles[found], *completed(handles[found]), status);
}

Status Waitsome(int incount, MPI_Request* handles, int* outcount, int* indices, MPI_Status* statuses) {
  auto active = count_active(incount, handles, Completes::many);
  if (!active) return std::move(active).error();
  if (g_instance->threaded) WEFT_TRY(allow_host(incount, handles, ordered::allow_host_wait));
  *outcount = MPI_UNDEFINED;
  if (*active == 0) return {};
  static_cast<void>(wait_for_any(incount, handles));
  return complete_some(incount, handles, outcount, indices, statuses);
}

Status Testsome(int incount, MPI_Request* handles, int* outcount, int* indices, MPI_Status* statuses) {
  auto active = count_active(incount, handles, Completes::many);
  if (!active) return std::move(active).error();
  if (g_instance->threaded) WEFT_TRY(allow_host(incount, handles, ordered::allow_host_test));
  *outcount = MPI_UNDEFINED;
  if (*active == 0) return {};
  poll_once(incount, handles);
  return complete_some(incount, handles, outcount, indices, statuses);
}

// MPI_Request_get_status_* do not free or deactivate requests (MPI 5.0 section 3.7.6).

Status Request_get_status_all(int count, const MPI_Request* handles, int* flag, MPI_Status* statuses) {
  *flag = 0;
  auto active = count_active(count, handles);
  if (!active) return std::move(active).error();
  if (g_instance->threaded) WEFT_TRY(allow_host(count, handles, ordered::allow_host_test));
  if (*active != 0) poll_once(count, handles);
  for (int i = 0; i < count; ++i)
    if (pending(handles[i])) return {};
  *flag = 1;
  for (int i = 0; i < count; ++i) WEFT_TRY(read_status(handles[i], status_at(statuses, i)));
  return {};
}

Status Request_get_status_any(int count, const MPI_Request* handles, int* index, int* flag,
                              MPI_Status* status) {
  *flag = 0;
  *index = MPI_UNDEFINED;
  auto active = count_active(count, handles);
  if (!active) return std::move(active).error();
  if (g_instance->threaded) WEFT_TRY(allow_host(count, handles, ordered::allow_host_test));
  if (*active == 0) return no_active(index, flag, status);
  poll_once(count, handles);
  const int found = find_completed(count, handles);
  if (found < 0) return {};
  *flag = 1;
  *index = found;
  return read_status(handles[found], status);
}

Status Request_get_status_some(int incount, const MPI_Request* handles, int* outcount, int* indices,
                               MPI_Status* statuses) {
  auto active = count_active(incount, handles);
  if (!active) return std::move(active).error();
  if (g_instance->threaded) WEFT_TRY(allow_host(incount, handles, ordered::allow_host_test));
  *outcount = MPI_UNDEFINED;
  if (*active == 0) return {};
  poll_once(incount, handles);
  *outcount = 0;
  for (int i = 0; i < incount; ++i) {
    if (completed(handles[i]) == nullptr) continue;
    WEFT_TRY(read_status(handles[i], status_at(statuses, *outcount)));
    indices[(*outcount)++] = i;
  }
  return {};
}

}  // namespace weft::api::impl
