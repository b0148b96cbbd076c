// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/send_buffers.hpp"

#include <algorithm>
#include <string>

namespace weft::p2p {

SendBuffer* SendBuffers::find(const void* owner) {
  const auto found = attached_.find(owner);
  return found == attached_.end() ? nullptr : &found->second;
}

/// The communicator's buffer; else its session's, or the process's if it has no session.
SendBuffer* SendBuffers::of(const core::Communicator& comm) {
  if (SendBuffer* own = find(&comm)) return own;
  return find(comm.session());
}

uint64_t SendBuffers::oldest(const void* owner) {
  SendBuffer* buffer = find(owner);
  if (buffer == nullptr) return UINT64_MAX;
  buffer->reap();
  return buffer->copies.empty() ? UINT64_MAX : buffer->copies.front()->number;
}

Status SendBuffers::attach(const void* owner, void* address, int64_t size) {
  if (const SendBuffer* other = find(owner))
    return Error(Errc::buffer,
                 (other->automatic() ? std::string("MPI_BUFFER_AUTOMATIC")
                                     : "a buffer of " + std::to_string(other->size) + " bytes") +
                     " is attached already: detach it first");
  attached_.emplace(owner, SendBuffer{address, size, 0, {}});
  return {};
}

void SendBuffers::erase(const void* owner) { attached_.erase(owner); }

bool SendBuffers::idle() {
  return std::all_of(attached_.begin(), attached_.end(),
                     [this](const auto& entry) { return oldest(entry.first) == UINT64_MAX; });
}

}  // namespace weft::p2p
