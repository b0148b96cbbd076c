// SPDX-License-Identifier: BSD-3-Clause
// Partitioned communication (MPI 5.0 chapter 4). No info keys are defined.
#include "p2p/partitioned.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "api/check.hpp"
#include "api/errors.hpp"
#include "api/extension.hpp"
#include "api/handles.hpp"
#include "api/impl.hpp"

namespace weft::api::impl {
namespace {

using core::Communicator;
using datatype::Datatype;
using p2p::Partitioned;

Status init(bool sends, const void* buf, int partitions, MPI_Count count, Datatype& type, int rank, int tag,
            Communicator& comm, MPI_Request* request) {
  static const bool registered =
      (register_request_slab([](const void* handle) { return Partitioned::slab().check(handle); }), true);
  (void)registered;
  datatype::Checked math;
  const MPI_Count elements = math.mul(count, std::max(partitions, 1));
  (void)math.mul(elements, type.extent());  // the addresses of the partitions
  if (!datatype::packed_size(type, elements) || math.overflow())
    return Error(Errc::value_too_large, "the size of " + std::to_string(partitions) + " partitions of " +
                                            std::to_string(count) + " elements does not fit 64 bits");
  auto made = Partitioned::create(sends, p2p::buffer_of(buf, count, type), partitions, rank, tag, comm);
  if (!made) return std::move(made).error();
  *request = handle_of(**made);
  return {};
}

/// The request of a handle that must not be null.
Result<core::Request*> nonnull_request(MPI_Request handle) {
  core::Request* request = handle == MPI_REQUEST_NULL ? nullptr : to_request(handle);
  if (request == nullptr || request->detached) return bad_handle(HandleKind::request, "request", handle);
  return request;
}

/// `request` as a partitioned send or receive.
Result<Partitioned*> partitioned_request(core::Request& request, bool sends) {
  auto* found =
      request.kind == core::Request::Kind::partitioned ? static_cast<Partitioned*>(&request) : nullptr;
  if (found == nullptr || found->sends != sends)
    return Error(Errc::request, std::string("request is not a partitioned ") +
                                    (sends ? "send: pass one from MPI_Psend_init"
                                           : "receive: pass one from MPI_Precv_init"));
  return found;
}

/// Runs `work` on the partitioned request of a handle; errors go to its communicator.
template <class Work>
Status with_partitioned(MPI_Request handle, bool sends, Work&& work) {
  auto request = nonnull_request(handle);
  if (!request) return std::move(request).error();
  auto found = partitioned_request(**request, sends);
  return with_error_communicator((*request)->comm, found ? work(**found) : Status(std::move(found).error()));
}

/// with_partitioned() for a started send.
template <class Work>
Status with_started_send(MPI_Request handle, Work&& work) {
  return with_partitioned(handle, true, [&](Partitioned& request) -> Status {
    if (!request.active)
      return Error(Errc::request, "request is inactive: start it before marking partitions ready");
    return work(request);
  });
}

bool has_partition(const Partitioned& request, int partition) {
  return partition >= 0 && partition < request.partitions;
}

Status bad_partition(const Partitioned& request, const std::string& name, int partition) {
  return Error(Errc::arg, name + " = " + std::to_string(partition) + ": the request has partitions 0 to " +
                              std::to_string(request.partitions - 1));
}

}  // namespace

Status Psend_init(const void* buf, int partitions, MPI_Count count, Datatype& type, int dest, int tag,
                  Communicator& comm, core::Info* /*info*/, MPI_Request* request) {
  return init(true, buf, partitions, count, type, dest, tag, comm, request);
}

Status Precv_init(void* buf, int partitions, MPI_Count count, Datatype& type, int source, int tag,
                  Communicator& comm, core::Info* /*info*/, MPI_Request* request) {
  return init(false, buf, partitions, count, type, source, tag, comm, request);
}

Status Pready(int partition, MPI_Request handle) {
  return with_started_send(handle, [&](Partitioned& request) {
    if (!has_partition(request, partition)) return bad_partition(request, "partition", partition);
    return request.ready(partition);
  });
}

Status Pready_range(int low, int high, MPI_Request handle) {
  return with_started_send(handle, [&](Partitioned& request) -> Status {
    if (!has_partition(request, low)) return bad_partition(request, "partition_low", low);
    if (!has_partition(request, high)) return bad_partition(request, "partition_high", high);
    if (low > high)
      return Error(Errc::arg, "partition_low = " + std::to_string(low) +
                                  " is above partition_high = " + std::to_string(high));
    for (int i = low; i <= high; ++i) WEFT_TRY(request.ready(i));
    return {};
  });
}

Status Pready_list(int length, const int* partitions, MPI_Request handle) {
  return with_started_send(handle, [&](Partitioned& request) -> Status {
    for (int i = 0; i < length; ++i)
      if (!has_partition(request, partitions[i]))
        return bad_partition(request, "array_of_partitions[" + std::to_string(i) + "]", partitions[i]);
    for (int i = 0; i < length; ++i) WEFT_TRY(request.ready(partitions[i]));
    return {};
  });
}

static Status prequest_device_handle(MPI_Request handle, void** device_handle) {
  auto request = nonnull_request(handle);
  if (!request) return std::move(request).error();
  if ((*request)->kind != core::Request::Kind::partitioned)
    return with_error_communicator((*request)->comm, Error(Errc::request,
                                                           "request is not partitioned: pass one from "
                                                           "MPI_Psend_init or MPI_Precv_init"));
  auto made = static_cast<Partitioned&>(**request).device_handle();
  if (!made) return with_error_communicator((*request)->comm, std::move(made).error());
  *device_handle = *made;
  return {};
}

Status Parrived(MPI_Request handle, int partition, int* flag) {
  *flag = 1;  // result for null and inactive requests
  if (handle == MPI_REQUEST_NULL) return {};
  return with_partitioned(handle, false, [&](Partitioned& request) -> Status {
    if (!has_partition(request, partition)) return bad_partition(request, "partition", partition);
    if (!request.active || request.arrived(partition)) return {};
    g_instance->poll_once({.request = &request});
    *flag = request.arrived(partition);
    return {};
  });
}

}  // namespace weft::api::impl

extern "C" {

WEFT_EXPORT int PMPIX_Prequest_device_handle(MPI_Request request, void** handle) {
  using namespace weft::api;
  EntryPoint entry("MPIX_Prequest_device_handle");
  return guarded(entry, [&]() -> int {
    if (handle == nullptr) return entry.fail(null_pointer("handle"));
    return entry.finish(impl::prequest_device_handle(request, handle));
  });
}
WEFT_ALIAS(MPIX_Prequest_device_handle, (MPI_Request request, void** handle));

}  // extern "C"
