// SPDX-License-Identifier: BSD-3-Clause
// Protocol: how the payload of a message moves. Each protocol is one constant struct, which describes itself;
// protocol/table.cpp lists all. A new protocol touches its file, its folder's protocols.hpp, the table and,
// for messages of its own, message/header.hpp. Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/counters.hpp"
#include "base/events.hpp"
#include "device/memory.hpp"
#include "p2p/engine/choice.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::transport::shm {
class Shm;
}

namespace weft::p2p {

class Engine;
struct BounceChunk;
struct CopyOffer;
struct Data;
struct ReadyToSend;

/// Properties of a matched message that select the receiver's protocol.
struct MessageInfo {
  device::MemoryKind to = device::MemoryKind::host;  ///< the receive buffer
  bool remote = false;                               ///< the sender is on another host
  bool rkey = false;                                 ///< remote: the sender's buffer is registered
  bool device = false;                               ///< the CPU must not read the payload
  bool contiguous = false;                           ///< in the sender's memory
  bool region = false;                               ///< an allocation that the receiver can map
  bool bounce = false;                               ///< the region is a bounce buffer
  bool eager_pack = false;                           ///< bounce: packed as one piece at the send
  bool strided = false;                              ///< the payload lies in the region with strides
  uint64_t bytes = 0;
  transport::shm::Shm* shm = nullptr;  ///< null: a prediction, for which all host memory is readable
  uint32_t source = 0;
  /// Returns whether this process reads host memory of the sender (process_vm_readv). Reports a slow path for
  /// host messages if not.
  [[nodiscard]] bool sender_readable() const;
};

/// The part of an RTS that a protocol has appended.
struct RtsPart {
  size_t size;                ///< bytes
  uint64_t registration = 0;  ///< id of the registered buffer whose rkey was appended; 0: none
};

/// Counts the messages that this process has received by a protocol.
struct Received {
  counters::Counter messages, bytes;
};

/// The hooks are null where a protocol has nothing to do.
struct Protocol {
  const char* name;
  const char* text;  ///< how the payload moves, as `weft explain` prints it

  // Receiver.
  /// Returns whether the protocol can move the message.
  bool (*applicable)(const MessageInfo& message) = nullptr;
  /// Number of times that the payload is copied, at least. Among applicable protocols, the one with the
  /// lowest cost is tried first; of equal ones, the first in the table.
  unsigned copies = 0;
  /// Returns the number of times that the payload is copied; null: always `copies`.
  unsigned (*cost)(const MessageInfo& message) = nullptr;
  /// Starts a matched receive. Returns false if that is not possible now: the next protocol is tried.
  bool (*init)(Engine& engine, Transfer& t, const ReadyToSend& rts) = nullptr;
  Received* received = nullptr;

  // Sender.
  /// Sends a message from device memory without RTS. Returns false if nothing was done.
  bool (*send)(Engine& engine, Transfer& t) = nullptr;
  /// Appends to the RTS how the receiver reaches the payload; nullopt: it does by another protocol, or
  /// `outcome` is set.
  std::optional<RtsPart> (*append_rts)(Engine& engine, Transfer& t, ReadyToSend& rts,
                                       std::byte* out) = nullptr;
  /// Called once the RTS has been posted.
  void (*rts_posted)(Engine& engine, Transfer& t) = nullptr;
  /// The receiver has chosen this protocol (CTS). Returns false if the send does not allow it.
  bool (*accept)(Engine& engine, Transfer& t) = nullptr;
  /// The receiver needs no more of a message whose RTS it has answered (FIN). Null: the send is complete.
  void (*finished)(Engine& engine, Transfer& t, bool all_consumed) = nullptr;

  // Both sides.
  /// Polls a request between Requests::start_polling() and its completion. Returns false if nothing
  /// progressed.
  bool (*progress)(Engine& engine, Transfer& t) = nullptr;
  /// Ends a request with `error`. Returns false if its peer or the network still writes into its buffer: then
  /// the request ends with the error later. Null: nobody else writes.
  bool (*stop)(Engine& engine, Transfer& t, Error& error) = nullptr;
  /// Returns everything that the request holds, after copies in flight have ended.
  void (*abort)(Engine& engine, Transfer& t) = nullptr;
  void (*on_data)(Engine& engine, Transfer& t, const Data& data, const std::byte* payload) = nullptr;
  void (*on_chunk_ready)(Engine& engine, Transfer& t, const BounceChunk& chunk) = nullptr;
  void (*on_chunk_done)(Engine& engine, Transfer& t, const BounceChunk& chunk) = nullptr;

  // One protocol of the table each.
  /// Copies an eager payload, valid during the call only, to device memory, and completes the receive.
  void (*upload_eager)(Engine& engine, Transfer& t, const std::byte* payload, size_t size) = nullptr;
  /// The receiver of a send offers that this process copies parts of the payload. Returns false if the offer
  /// does not fit the send.
  bool (*help)(Engine& engine, Transfer& t, const CopyOffer& offer) = nullptr;
};

[[nodiscard]] inline unsigned cost_of(const Protocol& protocol, const MessageInfo& message) {
  return protocol.cost != nullptr ? protocol.cost(message) : protocol.copies;
}

extern events::Event protocol_chosen;  ///< raised by Rendezvous; protocol/table.cpp knows the names

/// Returns the state of a request, which is of type `State` by its protocol.
template <class State>
[[nodiscard]] State& state_of(Transfer& t) {
  WEFT_ASSERT(t.protocol_state != nullptr);  // R3
  return static_cast<State&>(*t.protocol_state);
}

}  // namespace weft::p2p
