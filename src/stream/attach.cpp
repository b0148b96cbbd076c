// SPDX-License-Identifier: BSD-3-Clause
// Attaching queues to communicators, and detaching them.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "coll/bootstrap/group.hpp"
#include "device/stream_words.hpp"
#include "stream/multiplex.hpp"
#include "stream/order/followers.hpp"
#include "stream/ordered.hpp"
#include "stream/queue.hpp"
#include "stream/streams.hpp"

namespace weft::stream {

using order::Order;

namespace {

log::SlowPath by_host("stream.by_host", "the host executes enqueued operations: some us each");

/// State of a communicator without a queue: its stream is no GPU stream, or the host executes its operations.
struct PlainStream final : core::StreamState {
  explicit PlainStream(core::Ref<Stream> given) : stream(std::move(given)) {}
  core::Ref<Stream> stream;
};

/// The stream that a rank passes, as bits.
enum Passed : uint8_t {
  gpu_stream = 1,
  default_stream = 2,  ///< no kernels can be put into it
  in_order = 4,        ///< ordinary calls are to be enqueued
  failed = 8,
  kernels_only = 16,  ///< the host must not execute enqueued operations
  promises = 32       ///< kernels can execute ordinary calls, too
};

Result<std::vector<uint8_t>> gather(core::Communicator& comm, unsigned mine) {
  std::vector<uint8_t> all(static_cast<size_t>(comm.size()));
  all[static_cast<size_t>(comm.rank())] = static_cast<uint8_t>(mine);
  WEFT_TRY(coll::BootstrapGroup(comm, comm.next_collective_tag()).allgather(all.data(), 1));
  return all;
}

bool any(const std::vector<uint8_t>& all, Passed bit) {
  return std::any_of(all.begin(), all.end(), [bit](uint8_t bits) { return (bits & bit) != 0; });
}

bool all_have(const std::vector<uint8_t>& all, unsigned wanted) {
  return std::all_of(all.begin(), all.end(), [wanted](uint8_t bits) { return (bits & wanted) == wanted; });
}

/// Checks that all ranks pass a GPU stream, or none does.
Status check_same(const std::vector<uint8_t>& all, bool has_gpu) {
  const auto other = std::find_if(all.begin(), all.end(),
                                  [&](uint8_t bits) { return ((bits & gpu_stream) != 0) != has_gpu; });
  if (other == all.end()) return {};
  return Error(Errc::arg, "stream is " + std::string(has_gpu ? "a GPU stream" : "no GPU stream") +
                              ", the stream of rank " + std::to_string(other - all.begin()) + " is " +
                              (has_gpu ? "not a GPU stream" : "a GPU stream") +
                              ": pass the same kind, or set the hint weft_stream_order of a stream");
}

/// Lets kernels leave when a communicator is revoked, also while the application waits for their stream.
void watch_revocations(core::Instance& instance) {
  Streams& streams = Streams::of(instance);
  if (std::exchange(streams.watches_revocations, true)) return;
  instance.failures.on_revoked([&instance](core::Communicator& comm) {
    if (instance.gpu_streams == nullptr) return;
    for (Queue* queue : Streams::of(instance).queues) queue->cancel_if_of(comm);
  });
}

/// Collective: the host executes the operations of all ranks, by ordinary matching.
Status attach_by_host(core::Communicator& comm, core::Ref<Stream> stream, Order::Functions functions) {
  Status mine = stream && stream->gpu ? set_stream(comm, stream.get(), functions) : Status();
  auto outcomes = gather(comm, mine.ok() ? 0 : failed);
  if (!outcomes) return std::move(outcomes).error();
  if (!mine.ok()) return mine;
  if (any(*outcomes, failed))
    return Error(Errc::unsupported, "the stream of another rank cannot be used: see its message");
  if (comm.order == nullptr) comm.order = std::make_shared<Order>(engine_of(comm.instance));
  if (stream) comm.stream = std::make_unique<PlainStream>(std::move(stream));
  return {};
}

}  // namespace

order::Engine& engine_of(core::Instance& instance) {
  auto& engine = Streams::of(instance).engine;
  if (engine == nullptr) engine = std::make_unique<order::Engine>(instance);
  return *engine;
}

Status set_stream(core::Communicator& comm, Stream* stream, Order::Functions functions) {
  order::OrderedStream* ordered = nullptr;
  if (stream != nullptr && stream->gpu) {
    auto found = engine_of(comm.instance).stream_of(stream->gpu->handle);
    if (!found) return std::move(found).error();
    ordered = *found;
  }
  if (comm.order == nullptr) {
    if (ordered == nullptr) return {};
    comm.order = std::make_shared<Order>(engine_of(comm.instance));
    order::renew_orders(comm);
  }
  Order& order = *Order::of(comm);
  if (order.kernels != nullptr) {  // without a stream, that of the communicator's creation
    WEFT_TRY(order.kernels->follow(ordered != nullptr ? &*stream->gpu : nullptr));
    if (ordered == nullptr) {
      auto own = engine_of(comm.instance).stream_of(order.kernels->stream().gpu->handle);
      if (!own) return std::move(own).error();
      ordered = *own;
    }
  }
  order.set_stream(ordered, functions);
  order.handle = core::Ref<core::Counted>::share(stream);
  const Stream* const hints =
      stream == nullptr && order.kernels != nullptr ? &order.kernels->stream() : stream;
  order.pinned_in_order = hints != nullptr && hints->pinned_in_order;
  return {};
}

Status attach(core::Communicator& comm, core::Ref<Stream> stream) {
  const bool has_gpu = stream && stream->gpu.has_value();
  unsigned mine = has_gpu ? gpu_stream : 0;
  if (has_gpu && device::is_default_stream(stream->gpu->handle)) mine |= default_stream;
  if (stream && stream->in_order) mine |= in_order;
  if (stream && stream->kernels_only) mine |= kernels_only;
  if (stream && stream->prefers_kernels) mine |= promises;
  auto all = gather(comm, mine);
  if (!all) return std::move(all).error();
  const bool needs_kernels = any(*all, kernels_only);
  const bool ordinary = all_have(*all, gpu_stream | in_order | promises);
  const auto unable = [&](const std::string& why) -> Status {
    if (needs_kernels)
      return Error(Errc::unsupported,
                   "the hint weft_stream_kernels of a stream is true, but no kernels can execute "
                   "the operations: " +
                       why);
    by_host.hit(why);
    return attach_by_host(comm, std::move(stream),
                          ordinary ? Order::Functions::all : Order::Functions::enqueue_only);
  };
  if (any(*all, in_order) && !ordinary) {
    if (needs_kernels)
      return unable("weft_stream_order is true, too, and not all ranks pass both hints and a GPU stream");
    return attach_by_host(comm, std::move(stream), Order::Functions::all);
  }
  WEFT_TRY(check_same(*all, has_gpu));
  if (!has_gpu) {
    if (stream) comm.stream = std::make_unique<PlainStream>(std::move(stream));
    return {};
  }
  if (any(*all, default_stream))
    return unable("a rank passes a default stream: create one (cudaStreamCreateWithFlags)");
  const bool must_run = needs_kernels || ordinary;
  if (must_run && comm.size() > static_cast<int>(device::kernel::Collective::kRanks))
    return unable("collectives support " + std::to_string(device::kernel::Collective::kRanks) + " ranks");
  auto mailbox = Mailbox::create(comm, *stream->gpu, must_run);
  if (!mailbox) {
    if (mailbox.error().code() != Errc::unsupported) return std::move(mailbox).error();
    return unable(mailbox.error().message());
  }
  if (ordinary) {  // the host executes the other calls
    if (Status words = attach_by_host(comm, stream, Order::Functions::all); !words.ok()) {
      WEFT_TRY((*mailbox)->close(comm));
      return words;
    }
  }
  if (Status whole = comm.instance.failures.check(comm); !whole.ok()) {  // since the last exchange
    (*mailbox)->close_alone(comm);
    return whole;
  }
  auto queue = std::make_unique<Queue>(comm, std::move(stream), std::move(*mailbox));
  Streams::of(comm.instance).queues.push_back(queue.get());
  watch_revocations(comm.instance);
  if (ordinary) Order::of(comm)->kernels = queue.get();
  comm.stream = std::move(queue);
  return {};
}

Status end_creation(core::Communicator& child, Status attached) {
  core::FailureDetector& failures = child.instance.failures;
  if (attached.ok()) attached = failures.check(child);
  if (!attached.ok() && attached.error().code() == Errc::revoked) failures.revoke_everywhere(child);
  child.part_of = nullptr;
  if (attached.ok()) {
    child.has_handle = true;
    return {};
  }
  WEFT_ASSERT(dynamic_cast<Queue*>(child.stream.get()) == nullptr);  // S8: attach() has checked last
  child.release();
  return attached;
}

Status detach(core::Communicator& comm) {
  auto* queue = dynamic_cast<Queue*>(comm.stream.get());
  if (queue != nullptr) {
    WEFT_TRY(queue->close());
    if (Order* const order = Order::of(comm); order != nullptr) order->kernels = nullptr;
    std::erase(Streams::of(comm.instance).queues, queue);
  }
  comm.stream.reset();
  return {};
}

Result<Queue*> queue_of(const core::Communicator& comm) {
  auto* queue = dynamic_cast<Queue*>(comm.stream.get());
  if (queue != nullptr) [[likely]]
    return queue;
  if (Multiplex::of(comm) != nullptr)
    return Error(
        Errc::comm,
        "comm has several streams: enqueued operations need a communicator of MPIX_Stream_comm_create");
  return Error(Errc::comm,
               comm.stream == nullptr
                   ? "comm has no stream: enqueued operations need a communicator of MPIX_Stream_comm_create"
                   : "the stream of comm is not a GPU stream: nothing can be enqueued");
}

Stream* stream_of(const core::Communicator& comm) {
  if (const Order* const order = Order::of(comm); order != nullptr && order->handle)
    return static_cast<Stream*>(order->handle.get());
  if (auto* queue = dynamic_cast<Queue*>(comm.stream.get())) return &queue->stream();
  if (auto* host_stream = dynamic_cast<PlainStream*>(comm.stream.get())) return host_stream->stream.get();
  return nullptr;
}

void wait_for_enqueued(core::Instance& instance) {
  order::Engine* const engine =
      instance.gpu_streams != nullptr ? Streams::of(instance).engine.get() : nullptr;
  if (engine != nullptr) core::wait_until(instance, [&] { return engine->pending == 0; });
}

void settle_all(core::Instance& instance) {
  wait_for_enqueued(instance);
  for (Queue* queue : Streams::of(instance).queues)
    if (const Status settled = queue->settle(); !settled.ok())
      log::write(log::Level::warn, "enqueued operations at MPI_Finalize: %s",
                 settled.error().message().c_str());
}

void end_threads(core::Instance& instance) {
  if (instance.gpu_streams != nullptr && Streams::of(instance).engine != nullptr)
    Streams::of(instance).engine->executor.end();
}

void abandon_all(core::Instance& instance) {
  for (Queue* queue : Streams::of(instance).queues) queue->abandon();
  instance.gpu_streams.reset();
}

}  // namespace weft::stream
