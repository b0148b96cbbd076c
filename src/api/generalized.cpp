// SPDX-License-Identifier: BSD-3-Clause
// Generalized requests (MPI 5.0 section 13.2): the user completes them and provides the status.
#include <mpi.h>

#include <utility>

#include "api/impl.hpp"
#include "api/requests.hpp"
#include "api/status.hpp"

namespace weft::api {
namespace {

class Generalized final : public core::Request {
 public:
  Generalized(MPI_Grequest_query_function* query_fn, MPI_Grequest_free_function* free_fn,
              MPI_Grequest_cancel_function* cancel_fn, void* extra_state)
      : Request(Kind::generalized),
        query_(query_fn),
        free_(free_fn),
        cancel_(cancel_fn),
        extra_(extra_state) {}
  ~Generalized() override = default;

  static Slab<Generalized>& slab() {
    static auto& slab = *new Slab<Generalized>(size_t{1} << 16);
    return slab;
  }

  [[nodiscard]] core::Operands operands() const override { return {.what = wait_table::What::generalized}; }
  Status query() override {
    MPI_Status status{};
    fill_empty(&status);
    const int code =
        g_instance->unlocked([&] { return query_ != nullptr ? query_(extra_, &status) : MPI_SUCCESS; });
    completion = completion_of(status);
    if (code != MPI_SUCCESS) return mpi_error(code, "the query function of a generalized request failed");
    return {};
  }
  Status cancel() override {
    const int code = g_instance->unlocked(
        [&] { return cancel_ != nullptr ? cancel_(extra_, complete() ? 1 : 0) : MPI_SUCCESS; });
    if (code != MPI_SUCCESS) return mpi_error(code, "the cancel function of a generalized request failed");
    return {};
  }
  Status conclude() override {
    auto* const function = std::exchange(free_, nullptr);
    const int code =
        g_instance->unlocked([&] { return function != nullptr ? function(extra_) : MPI_SUCCESS; });
    if (code != MPI_SUCCESS) return mpi_error(code, "the free function of a generalized request failed");
    return {};
  }
  void destroy() override {
    (void)conclude();  // freed before completion: no caller left to return the error to
    slab().destroy(this);
  }

 private:
  MPI_Grequest_query_function* query_;
  MPI_Grequest_free_function* free_;
  MPI_Grequest_cancel_function* cancel_;
  void* extra_;
};

}  // namespace

namespace impl {

Status Grequest_start(MPI_Grequest_query_function* query_fn, MPI_Grequest_free_function* free_fn,
                      MPI_Grequest_cancel_function* cancel_fn, void* extra_state, MPI_Request* request) {
  static const bool registered =
      (register_request_slab([](const void* handle) { return Generalized::slab().check(handle); }), true);
  (void)registered;
  Generalized* made = Generalized::slab().create(query_fn, free_fn, cancel_fn, extra_state);
  if (made == nullptr) return no_more_requests();
  *request = handle_of(*made);
  return {};
}

Status Grequest_complete(MPI_Request request) {
  core::Request* found = request == MPI_REQUEST_NULL ? nullptr : to_request(request);
  if (found == nullptr || found->kind != core::Request::Kind::generalized)
    return bad_handle(HandleKind::request, "request", request);
  found->finish();
  return {};
}

}  // namespace impl
}  // namespace weft::api
