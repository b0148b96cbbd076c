// SPDX-License-Identifier: BSD-3-Clause
// Ordered: calls on communicators in stream order, and on the windows made from them. The generated entry
// points hand over the call of the implementation with copies of its arguments; the executor runs it when the
// stream has reached it (stream/order/). Threading: under the instance lock.
#pragma once
#include <mpi.h>

#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/counts.hpp"
#include "base/result.hpp"
#include "core/communicator.hpp"
#include "core/reference.hpp"
#include "core/request.hpp"
#include "datatype/datatype.hpp"
#include "stream/order/record.hpp"
#include "stream/request.hpp"

namespace weft::api::ordered {

/// A call to enqueue.
struct Site {
  core::Communicator& comm;
  const char* name;                                             ///< of the function
  std::initializer_list<const void*> buffers;                   ///< buffer arguments
  std::initializer_list<const datatype::Datatype*> types = {};  ///< their types, for absolute addresses
  bool answers = false;  ///< the program reads results in host memory when the call returns
};

/// Whether ordinary calls on the communicator are enqueued. If they were before and are not now, waits for
/// those; then true if one has failed: the functions below return its error.
[[nodiscard, gnu::cold]] bool enqueues(core::Communicator& comm);
/// The check of the entry points.
[[nodiscard]] inline bool in_order(core::Communicator& comm) {
  return comm.order != nullptr && enqueues(comm);
}
/// Whether kernels execute ordinary calls on the communicator (kernels.hpp).
[[nodiscard]] bool by_kernels(const core::Communicator& comm);
/// The error of a call that needs a message which no kernel can send or receive.
[[nodiscard]] Error refused_by_kernels(const char* name);
/// Whether functions MPIX_*_enqueue on the communicator are executed by the host.
[[nodiscard]] bool enqueues_extensions(const core::Communicator& comm);

/// Before a call that the host executes: waits for the stream, or for the calls that were enqueued before.
[[nodiscard, gnu::cold]] Status settle(core::Communicator& comm, const char* name);

[[nodiscard, gnu::cold]] Status enqueue(const Site& site, std::unique_ptr<stream::order::Call> call);

template <class Run>
struct Closure final : stream::order::Call {
  explicit Closure(Run&& function) : run_(std::move(function)) {}
  Status run() override { return run_(); }
  Run run_;
};
/// Enqueues `function`, which returns a Status. Its copies of arguments live as long as the call.
template <class Run>
[[nodiscard]] Status run(const Site& site, Run function) {
  return enqueue(site, std::make_unique<Closure<Run>>(std::move(function)));
}

/// Starts or creates an ordinary request.
class Maker {
 public:
  virtual ~Maker() = default;
  [[nodiscard]] virtual Status make(MPI_Request* request) = 0;
};
[[nodiscard, gnu::cold]] Status enqueue_start(const Site& site, std::unique_ptr<Maker> maker,
                                              MPI_Request* request);
template <class Make>
struct MakerOf final : Maker {
  explicit MakerOf(Make&& function) : make_(std::move(function)) {}
  Status make(MPI_Request* request) override { return make_(request); }
  Make make_;
};
/// Enqueues the start of a nonblocking operation by `function(MPI_Request*)`, and makes its request.
template <class Make>
[[nodiscard]] Status start(const Site& site, MPI_Request* request, Make function) {
  return enqueue_start(site, std::make_unique<MakerOf<Make>>(std::move(function)), request);
}
/// Replaces a persistent request, just created, by a request whose operation the stream starts.
[[nodiscard, gnu::cold]] Status wrap_persistent(const Site& site, MPI_Request* request);

/// Whether a stream executes the operation of a request of an ordinary call.
[[nodiscard]] inline bool in_stream(core::Request& request) {
  return request.kind == core::Request::Kind::ordered || stream::Request::ordinary(request) != nullptr;
}
/// The host completes the active requests of a list that kernels execute.
[[nodiscard, gnu::cold]] Status finish_on_host(std::span<const MPI_Request> handles);
/// Makes the streams await the operations of the active requests of a list, which ends them for the program.
/// `extension`: for MPIX_Wait_enqueue; `statuses`: null, or filled by the host then. Returns false, without
/// any effect, if the host has to wait: a request is not ordered, or its buffer is in host memory.
struct WaitOptions {
  bool extension = false;
  MPI_Status* statuses = nullptr;
};
[[nodiscard, gnu::cold]] Result<bool> wait_in_stream(const char* name, std::span<MPI_Request> handles,
                                                     const WaitOptions& options);
/// Error if the operation of a request was captured, so that the host cannot complete it. Counts the wait of
/// the host.
[[nodiscard, gnu::cold]] Status allow_host_wait(core::Request& request);
/// The same for a test, which does not wait.
[[nodiscard, gnu::cold]] Status allow_host_test(core::Request& request);

/// The program has freed an active request: ends it if it was captured, and so never completes for the host.
[[gnu::cold]] void drop_captured(core::Request& request);

/// Copies of arguments.
class Counts {
 public:
  Counts(CountArray view, size_t n) : present_(!view.empty()), values_(view.copy(n)) {}
  [[nodiscard]] CountArray view() const { return present_ ? CountArray(values_.data()) : CountArray(); }

 private:
  bool present_;
  std::vector<MPI_Count> values_;
};
/// The program may free the types before the call runs.
class Types {
 public:
  Types(DatatypeArray view, size_t n);
  ~Types();
  Types(Types&&) = default;
  Types(const Types&) = delete;
  Types& operator=(const Types&) = delete;
  Types& operator=(Types&&) = delete;
  [[nodiscard]] DatatypeArray view() const {
    return handles_.empty() ? DatatypeArray() : DatatypeArray(handles_.data());
  }

 private:
  std::vector<MPI_Datatype> handles_;  // each with a handle of its own
};
template <class T>
[[nodiscard]] std::vector<T> copy(const T* values, size_t n) {
  return values == nullptr ? std::vector<T>() : std::vector<T>(values, values + n);
}
template <class T>
[[nodiscard]] core::Ref<T> keep(T& object) {
  return core::Ref<T>::share(&object);
}

}  // namespace weft::api::ordered
