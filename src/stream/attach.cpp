// SPDX-License-Identifier: BSD-3-Clause
// How communicators get their queues and lose them.
#include <algorithm>
#include <vector>

#include "base/log.hpp"
#include "coll/circle.hpp"
#include "stream/multiplex.hpp"
#include "stream/queue.hpp"

namespace weft::stream {
namespace {

/// A communicator of streams that are none of a GPU.
struct Remembered final : core::StreamState {
  explicit Remembered(core::Ref<Stream> given) : stream(std::move(given)) {}
  core::Ref<Stream> stream;
};

/// All queues, for the end of MPI.
std::vector<Queue*>& queues() {
  static auto& instance = *new std::vector<Queue*>;
  return instance;
}

/// Either all ranks have a GPU stream or none.
Status agree(core::Communicator& comm, bool has_gpu) {
  std::vector<uint8_t> all(static_cast<size_t>(comm.size()));
  all[static_cast<size_t>(comm.rank())] = has_gpu ? 1 : 0;
  WEFT_TRY(coll::Circle(comm, comm.next_collective_tag()).gather_all(all.data(), 1));
  const auto other = std::find(all.begin(), all.end(), has_gpu ? 0 : 1);
  if (other == all.end()) return {};
  return Error(Errc::arg, "stream is " + std::string(has_gpu ? "a GPU stream" : "no GPU stream") +
                              ", that of rank " + std::to_string(other - all.begin()) + " is " +
                              (has_gpu ? "not" : "one") + ": all ranks have to give the same kind");
}

}  // namespace

Status attach(core::Communicator& comm, core::Ref<Stream> stream) {
  const bool has_gpu = stream && stream->gpu.has_value();
  WEFT_TRY(agree(comm, has_gpu));
  if (!has_gpu) {
    if (stream) comm.stream = std::make_unique<Remembered>(std::move(stream));
    return {};
  }
  auto mailbox = Mailbox::create(comm, *stream->gpu);
  if (!mailbox) return std::move(mailbox).error();
  auto queue = std::make_unique<Queue>(comm, std::move(stream), std::move(*mailbox));
  queues().push_back(queue.get());
  comm.stream = std::move(queue);
  return {};
}

Status detach(core::Communicator& comm) {
  auto* queue = dynamic_cast<Queue*>(comm.stream.get());
  if (queue != nullptr) {
    WEFT_TRY(queue->close());
    std::erase(queues(), queue);
  }
  comm.stream.reset();
  return {};
}

Result<Queue*> queue_of(const core::Communicator& comm) {
  auto* queue = dynamic_cast<Queue*>(comm.stream.get());
  if (queue != nullptr) [[likely]]
    return queue;
  if (Multiplex::of(comm) != nullptr)
    return Error(Errc::comm,
                 "comm has several streams: enqueued operations need one of MPIX_Stream_comm_create");
  return Error(Errc::comm, comm.stream == nullptr
                               ? "comm has no stream: enqueued operations need one of MPIX_Stream_comm_create"
                               : "the stream of comm is none of a GPU: nothing can be enqueued");
}

Stream* stream_of(const core::Communicator& comm) {
  if (auto* queue = dynamic_cast<Queue*>(comm.stream.get())) return &queue->stream();
  if (auto* remembered = dynamic_cast<Remembered*>(comm.stream.get())) return remembered->stream.get();
  return nullptr;
}

void settle_all() {
  for (Queue* queue : queues())
    if (const Status settled = queue->settle(); !settled.ok())
      log::write(log::Level::warn, "enqueued operations at the end of MPI: %s",
                 settled.error().message().c_str());
}

void abandon_all() {
  for (Queue* queue : queues()) queue->abandon();
  queues().clear();
}

}  // namespace weft::stream
