// SPDX-License-Identifier: BSD-3-Clause
// Attaching queues to communicators, and detaching them.
#include <algorithm>
#include <vector>

#include "base/log.hpp"
#include "coll/bootstrap/group.hpp"
#include "stream/multiplex.hpp"
#include "stream/queue.hpp"
#include "stream/streams.hpp"

namespace weft::stream {
namespace {

/// State of a communicator whose streams are not GPU streams.
struct HostStream final : core::StreamState {
  explicit HostStream(core::Ref<Stream> given) : stream(std::move(given)) {}
  core::Ref<Stream> stream;
};

/// Checks that all ranks pass a GPU stream, or none does.
Status agree(core::Communicator& comm, bool has_gpu) {
  std::vector<uint8_t> all(static_cast<size_t>(comm.size()));
  all[static_cast<size_t>(comm.rank())] = has_gpu ? 1 : 0;
  WEFT_TRY(coll::BootstrapGroup(comm, comm.next_collective_tag()).allgather(all.data(), 1));
  const auto other = std::find(all.begin(), all.end(), has_gpu ? 0 : 1);
  if (other == all.end()) return {};
  return Error(Errc::arg, "stream is " + std::string(has_gpu ? "a GPU stream" : "no GPU stream") +
                              ", the stream of rank " + std::to_string(other - all.begin()) + " is " +
                              (has_gpu ? "not a GPU stream" : "a GPU stream") +
                              ": all ranks must pass the same kind");
}

}  // namespace

Status attach(core::Communicator& comm, core::Ref<Stream> stream) {
  const bool has_gpu = stream && stream->gpu.has_value();
  WEFT_TRY(agree(comm, has_gpu));
  if (!has_gpu) {
    if (stream) comm.stream = std::make_unique<HostStream>(std::move(stream));
    return {};
  }
  auto mailbox = Mailbox::create(comm, *stream->gpu);
  if (!mailbox) return std::move(mailbox).error();
  auto queue = std::make_unique<Queue>(comm, std::move(stream), std::move(*mailbox));
  Streams::of(comm.instance).queues.push_back(queue.get());
  comm.stream = std::move(queue);
  return {};
}

Status detach(core::Communicator& comm) {
  auto* queue = dynamic_cast<Queue*>(comm.stream.get());
  if (queue != nullptr) {
    WEFT_TRY(queue->close());
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
  if (auto* queue = dynamic_cast<Queue*>(comm.stream.get())) return &queue->stream();
  if (auto* host_stream = dynamic_cast<HostStream*>(comm.stream.get())) return host_stream->stream.get();
  return nullptr;
}

void settle_all(core::Instance& instance) {
  for (Queue* queue : Streams::of(instance).queues)
    if (const Status settled = queue->settle(); !settled.ok())
      log::write(log::Level::warn, "enqueued operations at MPI_Finalize: %s",
                 settled.error().message().c_str());
}

void abandon_all(core::Instance& instance) {
  for (Queue* queue : Streams::of(instance).queues) queue->abandon();
  instance.gpu_streams.reset();
}

}  // namespace weft::stream
