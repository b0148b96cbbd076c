// SPDX-License-Identifier: BSD-3-Clause
// UnexpectedMessage: a message that arrived before its receive was posted, eager with its payload, or an RTS
// with its header. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/slab.hpp"
#include "core/communicator.hpp"
#include "core/request.hpp"
#include "p2p/match/queue.hpp"
#include "p2p/message/header.hpp"

namespace weft::p2p {

struct UnexpectedMessage : match::MatchEntry {
  core::Completion completion;  ///< source, tag and bytes for the receiver's status
  uint32_t peer = 0;
  Type type = Type::eager;
  uint16_t signature = 0;                     ///< as in Header
  core::RequestId sender = core::kNoRequest;  ///< of ready_to_send and eager_sync
  size_t size = 0;                            ///< stored bytes: payload (eager) or header (ready_to_send)
  bool matched = false;                       ///< dequeued by a matched probe
  core::Communicator* comm = nullptr;         ///< set by a matched probe
  alignas(8) std::byte inlined[384];
  std::unique_ptr<std::byte[]> heap;
  [[nodiscard]] const std::byte* data() const { return heap ? heap.get() : inlined; }
  static Slab<UnexpectedMessage>& slab();
};
static_assert(sizeof(UnexpectedMessage::inlined) >= kMaxControl);

}  // namespace weft::p2p
