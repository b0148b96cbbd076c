// SPDX-License-Identifier: BSD-3-Clause
// Executes prepared collectives. MPI_Reduce_local needs no schedule.
#include "api/collective_run.hpp"

#include <utility>

#include "api/check.hpp"
#include "api/collective_check.hpp"
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

}  // namespace

Status run(prepare::Collective&& prepared) {
  if (!prepared.status.ok()) [[unlikely]]
    return std::move(prepared.status);
  if (reporting()) [[unlikely]]
    WEFT_TRY(compare_collective(prepared.call));
  return coll::run(prepared.call);
}

Status start(prepare::Collective&& prepared, MPI_Request* request) {
  WEFT_TRY(std::move(prepared.status));
  trace::annotate({.bytes = prepared.call.bytes, .communicator = prepared.call.comm->number()});
  return return_request(coll::start(prepared.call), request);
}

Status init_persistent(prepare::Collective&& prepared, MPI_Request* request) {
  WEFT_TRY(std::move(prepared.status));
  return return_request(coll::make_persistent(prepared.call), request);
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
