// SPDX-License-Identifier: BSD-3-Clause
// One-sided operations (MPI 5.0 section 12.3).
#include "api/check.hpp"
#include "api/data_check.hpp"
#include "api/gpu_check.hpp"
#include "api/impl.hpp"
#include "api/requests.hpp"
#include "rma/window.hpp"

namespace weft::api::impl {
namespace {

using datatype::Datatype;
using rma::Area;
using rma::Window;
using rma::WindowRequest;

/// Checks a buffer of one element.
Status check_buffer(const char* name, const void* address) {
  if (address == nullptr) [[unlikely]]
    return null_buffer(name);
  return {};
}

/// Runs an operation with a request, which is returned unless the operation fails at once.
template <class Run>
Status with_request(MPI_Request* handle, Run&& run) {
  static const bool registered = (register_request_slab(rma::check_request), true);
  (void)registered;
  WindowRequest* const request = WindowRequest::slab().create();
  if (request == nullptr) return no_more_requests();
  if (Status issued = run(request); !issued.ok()) {
    // A part of the operation may be in flight: it finishes the request.
    if (request->in_operation && !request->complete())
      request->detached = true;
    else
      request->destroy();
    return issued;
  }
  *handle = handle_of(*request);
  return {};
}

/// Runs an operation that reads `origin`; with WEFT_CHECK=gpu, returns the error of a buffer that changes.
template <class Run>
Status with_origin(const p2p::Buffer& origin, const Window& win, Run&& run) {
  if (!checking_gpu()) [[likely]]
    return run(origin);
  Status checked = check_input(origin, *win.comm);
  WEFT_TRY(run(origin));
  return checked;
}

}  // namespace

Status Put(const void* origin_addr, MPI_Count origin_count, Datatype& origin_datatype, int target_rank,
           MPI_Aint target_disp, MPI_Count target_count, Datatype& target_datatype, Window& win) {
  return with_origin(
      p2p::buffer_of(origin_addr, origin_count, origin_datatype), win, [&](const p2p::Buffer& origin) {
        return win.put(origin, {target_rank, target_disp, target_count, target_datatype}, nullptr);
      });
}

Status Get(void* origin_addr, MPI_Count origin_count, Datatype& origin_datatype, int target_rank,
           MPI_Aint target_disp, MPI_Count target_count, Datatype& target_datatype, Window& win) {
  return win.get(p2p::buffer_of(origin_addr, origin_count, origin_datatype),
                 {target_rank, target_disp, target_count, target_datatype}, nullptr);
}

Status Rput(const void* origin_addr, MPI_Count origin_count, Datatype& origin_datatype, int target_rank,
            MPI_Aint target_disp, MPI_Count target_count, Datatype& target_datatype, Window& win,
            MPI_Request* request) {
  return with_request(request, [&](WindowRequest* made) {
    return with_origin(
        p2p::buffer_of(origin_addr, origin_count, origin_datatype), win, [&](const p2p::Buffer& origin) {
          return win.put(origin, {target_rank, target_disp, target_count, target_datatype}, made);
        });
  });
}

Status Rget(void* origin_addr, MPI_Count origin_count, Datatype& origin_datatype, int target_rank,
            MPI_Aint target_disp, MPI_Count target_count, Datatype& target_datatype, Window& win,
            MPI_Request* request) {
  return with_request(request, [&](WindowRequest* made) {
    return win.get(p2p::buffer_of(origin_addr, origin_count, origin_datatype),
                   {target_rank, target_disp, target_count, target_datatype}, made);
  });
}

Status Accumulate(const void* origin_addr, MPI_Count origin_count, Datatype& origin_datatype, int target_rank,
                  MPI_Aint target_disp, MPI_Count target_count, Datatype& target_datatype, core::Op& op,
                  Window& win) {
  return with_origin(
      p2p::buffer_of(origin_addr, origin_count, origin_datatype), win, [&](const p2p::Buffer& origin) {
        return win.accumulate(origin, nullptr, {target_rank, target_disp, target_count, target_datatype}, op,
                              nullptr);
      });
}

Status Raccumulate(const void* origin_addr, MPI_Count origin_count, Datatype& origin_datatype,
                   int target_rank, MPI_Aint target_disp, MPI_Count target_count, Datatype& target_datatype,
                   core::Op& op, Window& win, MPI_Request* request) {
  return with_request(request, [&](WindowRequest* made) {
    return with_origin(
        p2p::buffer_of(origin_addr, origin_count, origin_datatype), win, [&](const p2p::Buffer& origin) {
          return win.accumulate(origin, nullptr, {target_rank, target_disp, target_count, target_datatype},
                                op, made);
        });
  });
}

Status Get_accumulate(const void* origin_addr, MPI_Count origin_count, Datatype& origin_datatype,
                      void* result_addr, MPI_Count result_count, Datatype& result_datatype, int target_rank,
                      MPI_Aint target_disp, MPI_Count target_count, Datatype& target_datatype, core::Op& op,
                      Window& win) {
  const p2p::Buffer result = p2p::buffer_of(result_addr, result_count, result_datatype);
  return with_origin(
      p2p::buffer_of(origin_addr, origin_count, origin_datatype), win, [&](const p2p::Buffer& origin) {
        return win.accumulate(origin, &result, {target_rank, target_disp, target_count, target_datatype}, op,
                              nullptr);
      });
}

Status Rget_accumulate(const void* origin_addr, MPI_Count origin_count, Datatype& origin_datatype,
                       void* result_addr, MPI_Count result_count, Datatype& result_datatype, int target_rank,
                       MPI_Aint target_disp, MPI_Count target_count, Datatype& target_datatype, core::Op& op,
                       Window& win, MPI_Request* request) {
  const p2p::Buffer result = p2p::buffer_of(result_addr, result_count, result_datatype);
  return with_request(request, [&](WindowRequest* made) {
    return with_origin(
        p2p::buffer_of(origin_addr, origin_count, origin_datatype), win, [&](const p2p::Buffer& origin) {
          return win.accumulate(origin, &result, {target_rank, target_disp, target_count, target_datatype},
                                op, made);
        });
  });
}

Status Fetch_and_op(const void* origin_addr, void* result_addr, Datatype& type, int target_rank,
                    MPI_Aint target_disp, core::Op& op, Window& win) {
  if (!type.predefined())
    return Error(Errc::type, "the datatype of MPI_Fetch_and_op must be a predefined type");
  if (op.kind != datatype::ReduceOp::no_op) WEFT_TRY(check_buffer("origin_addr", origin_addr));
  WEFT_TRY(check_buffer("result_addr", result_addr));
  const p2p::Buffer result = p2p::buffer_of(result_addr, 1, type);
  return win.accumulate(p2p::buffer_of(origin_addr, 1, type), &result, {target_rank, target_disp, 1, type},
                        op, nullptr);
}

Status Compare_and_swap(const void* origin_addr, const void* compare_addr, void* result_addr, Datatype& type,
                        int target_rank, MPI_Aint target_disp, Window& win) {
  WEFT_TRY(check_buffer("origin_addr", origin_addr));
  WEFT_TRY(check_buffer("compare_addr", compare_addr));
  WEFT_TRY(check_buffer("result_addr", result_addr));
  return win.compare_and_swap(origin_addr, compare_addr, result_addr, {target_rank, target_disp, 1, type});
}

}  // namespace weft::api::impl
