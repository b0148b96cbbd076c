// SPDX-License-Identifier: BSD-3-Clause
#include "api/ordered.hpp"

#include <algorithm>
#include <string>

#include "api/handles.hpp"
#include "api/requests.hpp"
#include "api/status.hpp"
#include "api/stream.hpp"
#include "base/log.hpp"
#include "device/memory.hpp"
#include "stream/order/order.hpp"
#include "stream/queue.hpp"

namespace weft::api::ordered {
namespace {

using core::Communicator;
using stream::order::Call;
using stream::order::Order;
using stream::order::RequestRef;
using OrderedRequest = stream::order::Request;
using KernelRequest = stream::Request;

log::SlowPath host_completions("stream.host_completions",
                               "the host waits until the stream has executed a nonblocking operation");

/// Whether the program may access the memory without regard to the stream.
bool host_memory(const Order& order, const void* address) {
  if (address == nullptr || address == MPI_IN_PLACE) return false;
  const device::Memory memory = device::classify_in_stream(address);
  switch (memory.kind) {
    case device::MemoryKind::host:
      return true;
    case device::MemoryKind::host_pinned:
      return !order.pinned_in_order;
    case device::MemoryKind::cuda_device:
    case device::MemoryKind::cuda_managed:
      return false;
  }
  return true;
}

/// Whether the buffers of a call, or data of a type with absolute addresses, are such memory.
bool any_in_host_memory(const Order& order, const Site& site) {
  constexpr datatype::Count kLeastAddress = 1 << 16;
  bool bottom = false;
  for (const void* address : site.buffers) {
    if (host_memory(order, address)) return true;
    bottom = bottom || address == MPI_BOTTOM;
  }
  return bottom && std::any_of(site.types.begin(), site.types.end(), [&](const datatype::Datatype* type) {
           return type->true_lb() >= kLeastAddress &&
                  host_memory(order, reinterpret_cast<const void*>(static_cast<uintptr_t>(type->true_lb())));
         });
}

/// Waits until the operation is not in flight, while the stream waits.
void await(const OrderedRequest& request) {
  core::wait_until(request.comm->instance, [&] { return !request.running(); }, {&request});
}

/// The start of an operation.
class Start final : public Call {
 public:
  Start(OrderedRequest& request, std::unique_ptr<Maker> maker)
      : request_(request), maker_(std::move(maker)), counts_(request.capture == 0) {}
  Status run() override {
    await(*request_);  // of an earlier launch of the graph
    MPI_Request made = MPI_REQUEST_NULL;
    Status started = maker_->make(&made);
    request_->begin(started.ok() ? reinterpret_cast<core::Request*>(made) : nullptr, std::move(started),
                    counts_);
    return {};
  }
  void skip(const Error& error) override { request_->skip(error.copy(), counts_); }

 private:
  RequestRef request_;
  std::unique_ptr<Maker> maker_;
  const bool counts_;
};

/// Starts the operation of a persistent request.
struct Restart final : Maker {
  explicit Restart(core::Request& operation) : inner(operation) {}
  Status make(MPI_Request* request) override {
    *request = handle_of(inner);
    return inner.start();
  }
  core::Request& inner;
};

/// Before a call that the stream starts and the host executes.
Status allow_host_call(const Order& order) {
  return order.kernels != nullptr ? order.kernels->before_host_call(true) : Status();
}

Status restart(OrderedRequest& request) {
  Communicator& comm = *request.comm;
  Order& order = *Order::of(comm);
  WEFT_TRY(allow_host_call(order));
  device::Capture capture;
  if (order.enqueues_all()) {
    auto captured = order.capture();
    if (!captured) return std::move(captured).error();
    capture = *captured;
    if (capture && request.host_memory)
      return Error(
          Errc::unsupported,
          "the stream is captured, and a buffer is host memory, for which the host must wait: use GPU "
          "memory, or call it outside of the capture");
  } else {
    order.wait_for_calls(comm.instance);
  }
  request.capture = capture.id;
  request.issue();
  auto start = std::make_unique<Start>(request, std::make_unique<Restart>(*request.inner()));
  if (!order.enqueues_all()) return start->run();
  if (Status enqueued = order.enqueue(comm, request.name, std::move(start), capture); !enqueued.ok()) {
    request.retract();
    return enqueued;
  }
  return order.take_error();
}

void register_requests() {
  static const bool registered =
      (register_request_slab([](const void* handle) { return OrderedRequest::slab().check(handle); }), true);
  static_cast<void>(registered);
}

Result<OrderedRequest*> create_request(const Site& site, Order& order) {
  register_requests();
  OrderedRequest* const request = OrderedRequest::slab().create(site.comm, order.engine().executor);
  if (request == nullptr) return no_more_requests();
  request->name = site.name;
  request->host_memory = any_in_host_memory(order, site);
  return request;
}

/// Completes operations in the stream; the first error is that of the call.
class Wait final : public Call {
 public:
  void add(OrderedRequest& request, MPI_Status* status) { entries_.push_back({RequestRef(request), status}); }
  Status run() override {
    Status first;
    for (const Entry& entry : entries_) {
      await(*entry.request);
      fill(entry.status, entry.request->completion);
      if (first.ok()) first = entry.request->ended_with();
    }
    return first;
  }

 private:
  struct Entry {
    RequestRef request;
    MPI_Status* status;
  };
  std::vector<Entry> entries_;
};

bool is_active(MPI_Request handle) {
  return handle != MPI_REQUEST_NULL && reinterpret_cast<core::Request*>(handle)->active;
}
KernelRequest* kernel_request(MPI_Request handle) {
  return is_active(handle) ? KernelRequest::ordinary(*reinterpret_cast<core::Request*>(handle)) : nullptr;
}

/// Active requests of a list that the kernels of one communicator execute.
struct KernelGroup {
  stream::Queue* queue;
  std::vector<KernelRequest*> requests;
};
/// In the order of communicators that all ranks share, since one kernel runs after the other.
Result<std::vector<KernelGroup>> kernel_groups(std::span<const MPI_Request> handles) {
  std::vector<KernelGroup> groups;
  for (const MPI_Request handle : handles) {
    KernelRequest* const request = kernel_request(handle);
    if (request == nullptr) continue;
    auto queue = stream::queue_of(*request->comm);
    if (!queue) return std::move(queue).error();
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const KernelGroup& g) { return g.queue == *queue; });
    if (group == groups.end()) group = groups.insert(groups.end(), KernelGroup{*queue, {}});
    group->requests.push_back(request);
  }
  std::sort(groups.begin(), groups.end(), [](const KernelGroup& a, const KernelGroup& b) {
    return a.queue->comm().id < b.queue->comm().id;
  });
  return groups;
}

/// Active requests of a list with the same stream.
struct Group {
  Order* order;
  device::Capture capture;
  std::unique_ptr<Wait> wait = std::make_unique<Wait>();
  Communicator* comm = nullptr;
};

Error wrong_capture(const OrderedRequest& request) {
  return {Errc::request,
          std::string(request.name) +
              (request.capture != 0
                   ? " was captured: enqueue its wait within the same capture, with MPI_STATUS_IGNORE"
                   : " was enqueued before the capture: enqueue its wait before the capture begins")};
}

}  // namespace

bool enqueues(Communicator& comm) {
  Order& order = *Order::of(comm);
  if (order.enqueues_all()) return true;
  if (order.stream() != nullptr) return false;
  order.wait_for_calls(comm.instance);
  return order.failed();
}

bool by_kernels(const Communicator& comm) {
  const Order& order = *Order::of(comm);
  return order.kernels != nullptr && &order.kernels->comm() == &comm;
}

Error refused_by_kernels(const char* name) {
  return {Errc::unsupported,
          std::string(name) +
              ": kernels execute the messages of this communicator (weft_stream_kernels), and none buffers a "
              "send, replaces data without a wait or probes: use another communicator for it"};
}

bool enqueues_extensions(const Communicator& comm) {
  const Order* const order = Order::of(comm);
  return order != nullptr && order->stream() != nullptr && !by_kernels(comm);
}

Status settle(Communicator& comm, const char* name) {
  Order& order = *Order::of(comm);
  if (order.kernels != nullptr) WEFT_TRY(order.kernels->before_host_call(false));
  if (!order.enqueues_all()) {
    order.wait_for_calls(comm.instance);
    // A file or window may have another error handler: the next call on the communicator returns the error.
    return comm.has_handle ? order.take_error() : Status();
  }
  auto capture = order.capture();
  if (!capture) return std::move(capture).error();
  return order.run_and_wait(comm, name, nullptr, *capture, name);
}

Status enqueue(const Site& site, std::unique_ptr<Call> call) {
  Order& order = *Order::of(site.comm);
  if (order.stream() == nullptr) return order.take_error();
  WEFT_TRY(allow_host_call(order));
  auto capture = order.capture();
  if (!capture) return std::move(capture).error();
  if (site.answers)
    WEFT_TRY(order.run_and_wait(site.comm, site.name, std::move(call), *capture,
                                "it returns a result in host memory"));
  else if (any_in_host_memory(order, site))
    WEFT_TRY(order.run_and_wait(site.comm, site.name, std::move(call), *capture, "a buffer is host memory"));
  else
    WEFT_TRY(order.enqueue(site.comm, site.name, std::move(call), *capture));
  return order.take_error();
}

Status enqueue_start(const Site& site, std::unique_ptr<Maker> maker, MPI_Request* handle) {
  Order& order = *Order::of(site.comm);
  if (order.stream() == nullptr) return order.take_error();
  WEFT_TRY(allow_host_call(order));
  auto capture = order.capture();
  if (!capture) return std::move(capture).error();
  auto made = create_request(site, order);
  if (!made) return std::move(made).error();
  OrderedRequest& request = **made;
  if (*capture && request.host_memory) {
    request.destroy();
    return Error(Errc::unsupported,
                 "the stream is captured, and a buffer is host memory, for which the host must wait: use GPU "
                 "memory, or call it outside of the capture");
  }
  request.capture = capture->id;
  request.issue();
  Status enqueued =
      order.enqueue(site.comm, site.name, std::make_unique<Start>(request, std::move(maker)), *capture);
  if (!enqueued.ok()) {
    request.destroy();
    return enqueued;
  }
  *handle = handle_of(request);
  return order.take_error();
}

Status wrap_persistent(const Site& site, MPI_Request* handle) {
  if (Order& order = *Order::of(site.comm); order.stream() == nullptr) {
    reinterpret_cast<core::Request*>(*handle)->destroy();
    return order.take_error();
  }
  auto made = create_request(site, *Order::of(site.comm));
  if (!made) {
    reinterpret_cast<core::Request*>(*handle)->destroy();
    return std::move(made).error();
  }
  OrderedRequest& request = **made;
  request.adopt(*reinterpret_cast<core::Request*>(*handle));
  request.persistent = true;
  request.active = false;
  request.restart = restart;
  request.finish();
  *handle = handle_of(request);
  return {};
}

Result<bool> wait_in_stream(const char* name, std::span<MPI_Request> handles, const WaitOptions& options) {
  const auto active = [](MPI_Request handle) {
    return is_active(handle) && kernel_request(handle) == nullptr;
  };
  const auto ordered = [](MPI_Request handle) {
    return OrderedRequest::of(*reinterpret_cast<core::Request*>(handle));
  };
  for (const MPI_Request handle : handles) {
    if (!active(handle)) continue;
    const OrderedRequest* const request = ordered(handle);
    if (request == nullptr || (request->host_memory && request->capture == 0)) return false;
    const Order* const order = Order::of(*request->comm);
    if (order == nullptr || !(options.extension ? order->stream() != nullptr : order->enqueues_all()))
      return false;
  }
  std::vector<Group> groups;
  for (size_t i = 0; i < handles.size(); ++i) {
    if (!active(handles[i])) continue;
    OrderedRequest& request = *ordered(handles[i]);
    Order& order = *Order::of(*request.comm);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& g) { return g.order->stream() == order.stream(); });
    if (group == groups.end()) {
      auto capture = order.capture();
      if (!capture) return std::move(capture).error();
      group = groups.insert(groups.end(), Group{&order, *capture});
      group->comm = request.comm;
    }
    if (request.capture != group->capture.id) return wrong_capture(request);
    group->wait->add(request, options.statuses == nullptr ? MPI_STATUS_IGNORE : options.statuses + i);
  }
  auto kernels = kernel_groups(handles);
  if (!kernels) return std::move(kernels).error();
  for (const KernelGroup& group : *kernels)
    for (const KernelRequest* request : group.requests) WEFT_TRY(group.queue->check_wait(*request));
  for (MPI_Request& handle : handles) {
    const KernelRequest* const request = kernel_request(handle);
    if (request != nullptr && !request->persistent) handle = MPI_REQUEST_NULL;
  }
  Status first;
  for (const KernelGroup& group : *kernels) {
    Communicator& comm = group.queue->comm();
    Status ended = group.queue->await(group.requests);
    if (ended.ok()) ended = Order::of(comm)->take_error();
    if (first.ok()) first = std::move(ended);
  }
  WEFT_TRY(std::move(first));
  for (Group& group : groups)
    WEFT_TRY(group.order->enqueue(*group.comm, name, std::move(group.wait), group.capture));
  for (MPI_Request& handle : handles) {
    if (!active(handle)) continue;
    OrderedRequest& request = *ordered(handle);
    if (!request.persistent) handle = MPI_REQUEST_NULL;
    request.leave_to_stream();
  }
  for (const Group& group : groups) WEFT_TRY(group.order->take_error());
  return true;
}

Status finish_on_host(std::span<const MPI_Request> handles) {
  auto kernels = kernel_groups(handles);
  if (!kernels) return std::move(kernels).error();
  for (const KernelGroup& group : *kernels) WEFT_TRY(group.queue->finish(group.requests));
  return {};
}

Status allow_host_test(core::Request& request) {
  if (KernelRequest* const kernel = KernelRequest::ordinary(request); kernel != nullptr && kernel->active) {
    auto queue = stream::queue_of(*request.comm);
    if (!queue) return std::move(queue).error();
    return (*queue)->expect(*kernel);
  }
  const OrderedRequest* const ordered = OrderedRequest::of(request);
  if (ordered == nullptr || !ordered->active || ordered->capture == 0) return {};
  return wrong_capture(*ordered);
}

Status allow_host_wait(core::Request& request) {
  WEFT_TRY(allow_host_test(request));
  if (in_stream(request) && request.active && !request.complete())
    host_completions.hit("the program needs an answer, or a buffer is host memory");
  return {};
}

void drop_captured(core::Request& request) {
  if (OrderedRequest* const ordered = OrderedRequest::of(request); ordered != nullptr)
    return ordered->drop_captured();
  auto& kernel = static_cast<KernelRequest&>(request);
  if (kernel.capture != 0) static_cast<void>(kernel.cancel());
}

Types::Types(DatatypeArray view, size_t n) {
  for (size_t i = 0; !view.empty() && i < n; ++i) {
    view[i].open_handle();
    handles_.push_back(handle_of(view[i]));
  }
}

Types::~Types() {
  for (const MPI_Datatype handle : handles_) to_datatype(handle)->close_handle();
}

}  // namespace weft::api::ordered

namespace weft::api {

void expect_by_poll(std::span<const MPI_Request> handles) {
  for (const MPI_Request handle : handles) {
    stream::Request* const request = ordered::kernel_request(handle);
    if (request == nullptr || request->complete()) continue;
    auto queue = stream::queue_of(*request->comm);
    if (queue) static_cast<void>((*queue)->expect(*request));  // checked before the wait
  }
}

}  // namespace weft::api
