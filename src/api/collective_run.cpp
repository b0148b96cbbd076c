// SPDX-License-Identifier: BSD-3-Clause
// Executes prepared collectives. MPI_Reduce_local needs no schedule.
#include "api/collective_run.hpp"

#include <utility>

#include "api/check.hpp"
#include "api/collective_check.hpp"
#include "api/gpu_check.hpp"
#include "api/handles.hpp"
#include "api/impl.hpp"
#include "base/trace.hpp"
#include "coll/schedule/collective.hpp"
#include "coll/schedule/copy.hpp"

namespace weft::api {
namespace {

Status return_request(Result<core::Request*> made, MPI_Request* request) {
  static const bool registered = (register_request_slab(coll::check_request), true);
  static_cast<void>(registered);
  if (!made) return std::move(made).error();
  *request = handle_of(**made);
  return {};
}

/// A blocking call with the checks of WEFT_CHECK=gpu, and those of WEFT_CHECK=on.
[[gnu::cold]] Status run_checked(const coll::Call& call) {
  if (reporting()) WEFT_TRY(compare_collective(call));
  Status buffers = check_buffers(call);
  WEFT_TRY(coll::run(call));
  return buffers ? check_outputs(call) : std::move(buffers);
}

/// Starts a call with the check of WEFT_CHECK=gpu. The request returns its error, too.
[[gnu::cold]] Status start_checked(const coll::Call& call, MPI_Request* request) {
  trace::annotate({.bytes = call.bytes, .communicator = call.comm->number()});
  Status buffers = checking_gpu() ? check_buffers(call) : Status();
  auto made = coll::start(call);
  if (made && checking_gpu()) coll::set_call_check(**made, call_check(), std::move(buffers));
  return return_request(std::move(made), request);
}

}  // namespace

Status run(prepare::Collective&& prepared) {
  if (!prepared.status.ok()) [[unlikely]]
    return std::move(prepared.status);
  if (checking_gpu()) [[unlikely]]
    return run_checked(prepared.call);
  return coll::run(prepared.call);
}

Status start(prepare::Collective&& prepared, MPI_Request* request) {
  WEFT_TRY(std::move(prepared.status));
  if (trace::enabled()) [[unlikely]]
    return start_checked(prepared.call, request);
  return return_request(coll::start(prepared.call), request);
}

Status init_persistent(prepare::Collective&& prepared, MPI_Request* request) {
  WEFT_TRY(std::move(prepared.status));
  auto made = coll::make_persistent(prepared.call);
  if (made && checking_gpu()) coll::set_call_check(**made, call_check(), {});
  return return_request(std::move(made), request);
}

namespace impl {

Status Reduce_local(const void* inbuf, void* inoutbuf, MPI_Count count, datatype::Datatype& datatype,
                    core::Op& op) {
  if (inbuf == MPI_IN_PLACE || inoutbuf == MPI_IN_PLACE)
    return Error(Errc::buffer, "MPI_IN_PLACE is not allowed in MPI_Reduce_local: pass both buffers");
  if (inbuf == inoutbuf && count * datatype.size() > 0)
    return Error(Errc::buffer,
                 "inbuf and inoutbuf of MPI_Reduce_local are the same buffer: pass two buffers");
  if (reporting()) [[unlikely]]
    prepare::report_extension(op, datatype);
  if (!op.allows(datatype)) return prepare::not_allowed(op, datatype);
  return coll::reduce_local({const_cast<void*>(inbuf), count, &datatype}, {inoutbuf, count, &datatype}, op);
}

}  // namespace impl
}  // namespace weft::api
