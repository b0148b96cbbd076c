// SPDX-License-Identifier: BSD-3-Clause
#include "io/task/events.hpp"

#include <algorithm>

#include "coll/dispatch/path.hpp"
#include "core/instance.hpp"
#include "transport/shm/shm.hpp"

namespace weft::io {

/// After a failure of a process of the communicator, or its revocation, nothing is exchanged inside a host:
/// the engine has ended the transfers of its collectives, and the others notice the failure themselves. Other
/// hosts get empty messages.
bool Messages::gives_up(int peer) {
  core::Instance& instance = comm_.instance;
  if (Status alive = instance.failures.check(comm_); !alive.ok()) {
    const bool revoked = alive.error().code() == Errc::revoked;
    if (failed_.ok()) failed_ = std::move(alive);
    return revoked || instance.same_host(comm_.process(peer));
  }
  return false;
}

void Messages::send(const p2p::Buffer& buffer, int dest) {
  if (gives_up(dest)) return;
  if (!failed_.ok()) return post_send(p2p::host_bytes(nullptr, 0), dest);
  post_send(buffer, dest);
}

void Messages::post_send(const p2p::Buffer& buffer, int dest) {
  p2p::post_send(transfers_.emplace_back(core::Request::Kind::send), buffer, dest, tag_, comm_,
                 p2p::SendMode::standard, core::Channel::collective);
}

void Messages::receive(const p2p::Buffer& buffer, int source) {
  if (gives_up(source)) return;
  p2p::post_receive(transfers_.emplace_back(core::Request::Kind::receive), buffer, source, tag_, comm_,
                    core::Channel::collective);
}

bool Messages::ready() {
  while (complete_ < transfers_.size() && transfers_[complete_].complete()) ++complete_;
  return complete_ == transfers_.size();
}

Status Messages::take() {
  WEFT_ASSERT(ready());
  Status first = std::move(failed_);
  failed_ = {};
  for (p2p::Transfer& transfer : transfers_)
    if (first.ok() && !transfer.outcome.ok()) first = std::move(transfer.outcome);
  transfers_.clear();
  complete_ = 0;
  return first;
}

void FileJob::submit(Pool& pool, core::Instance& instance, std::function<Status()> run, Runner runner) {
  WEFT_ASSERT(!running());
  state_ = std::make_shared<State>();
  // Wakes the rank if it sleeps until another rank notifies it.
  std::function<void()> notify;
  if (instance.oversubscribed && instance.shm != nullptr)
    notify = [shm = instance.shm] { shm->notify_self(); };
  pool.submit(
      state_->job, runner,
      [state = state_.get(), run = std::move(run)] {
        try {
          state->outcome = run();
        } catch (const std::bad_alloc&) {
          state->outcome = Error(Errc::no_mem, "out of memory in a file access: access less at once");
        }
      },
      std::move(notify));
}

Collective::Collective(const coll::Call& call, int tag) {
  auto made = coll::Operation::create(call, tag, coll::dispatch::choose(call));
  if (!made) {
    failed_ = std::move(made).error();
    return;
  }
  request_ = *made;
  request_->finish();  // inactive until start()
  failed_ = request_->start();
}

Collective::~Collective() {
  if (request_ == nullptr) return;
  if (request_->complete())
    request_->destroy();
  else
    request_->detached = true;
}

Status Collective::take() {
  if (!failed_.ok()) return std::move(failed_);
  return std::move(request_->outcome);
}

int64_t failure_code(const Status& own) {
  if (own.ok()) return 0;
  return static_cast<int64_t>(own.error().code()) << 32 | static_cast<uint32_t>(own.error().mpi_code());
}

Status agree(Status own, const std::vector<int64_t>& codes, const std::string& path) {
  const auto first = std::find_if(codes.begin(), codes.end(), [](int64_t code) { return code != 0; });
  if (first == codes.end() || *first == failure_code(own)) return own;
  const std::string rank = "rank " + std::to_string(first - codes.begin()) + " failed with " + path;
  return Error(
      static_cast<Errc>(*first >> 32),
      own.ok() ? rank + ": its own error has the reason" : own.error().message() + "; " + rank + ", too",
      static_cast<int>(*first));
}

}  // namespace weft::io
