// SPDX-License-Identifier: BSD-3-Clause
// Connection holds the state of a peer; SendBuffer and Operation hold the state of an operation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/generations.hpp"
#include "transport/last_messages.hpp"
#include "transport/network.hpp"
#include "transport/secret.hpp"
#include "transport/ucx/api.hpp"

namespace weft::transport::ucx {

class Ucx;

/// Active message ids; their headers follow. Each begins with the secret of the receiver.
inline constexpr unsigned kMessageId = 1, kGetRequestId = 2, kGetReplyId = 3, kRtsId = 4, kPutRequestId = 5,
                          kPutReplyId = 6, kAnswerId = 7;

/// A byte follows a disconnect notice if the sender awaits an answer, or has left the job: bits of Notice.
/// `source`: the sender's rank in its job. `job`: 0 for a sender of the same job, else its JobId::tag().
struct MessageHeader {
  static constexpr uint32_t kUser = 0, kDisconnect = 1;
  Secret secret;
  uint32_t source;
  uint32_t kind;      ///< job << 1, | kDisconnect
  uint64_t sequence;  ///< with generation; UCX does not guarantee the order of active messages
  [[nodiscard]] uint32_t job() const { return kind >> 1; }
};
enum Notice : uint8_t { kAwaitsAnswer = 1, kLeft = 2 };
/// Answer to a disconnect notice: the source has received the messages before this number.
struct AnswerHeader {
  Secret secret;
  uint64_t source;
  uint64_t received;
};
/// A message that carries an rkey, sent as the header of a rendezvous of the buffer; the message follows.
struct RtsHeader {
  MessageHeader message;
  uint64_t buffer_id;
};
/// Requests a part of a registered buffer from its owner, or brings data for it.
struct RmaRequest {
  Secret secret;
  uint32_t source, job;
  uint64_t operation, buffer_id, offset, length;
};
/// Reply to a get request, followed by the data if `good` is 1; 0: the buffer is not registered. And reply to
/// a put: `good` tells whether the data are in place.
struct RmaReply {
  Secret secret;
  uint64_t operation, good;
};

/// A received rendezvous, kept until a get of the whole buffer.
struct PendingRts {
  void* descriptor;  ///< of UCX
  size_t size;
};

/// A message received before its predecessors.
struct OutOfOrderMessage {
  uint32_t kind;
  std::vector<std::byte> data;
};

struct Connection {
  enum class State { unconnected, open, failing, lost };
  Ucx* owner = nullptr;
  Peer peer = 0;
  State state = State::unconnected;
  api::Endpoint endpoint = nullptr;
  Secret secret = 0;                 ///< of the peer; valid with an endpoint
  uint64_t sent = 0, delivered = 0;  ///< sequence numbers of the next messages
  LastMessages last_messages;
  Generations::Source source{};                          ///< of another job, from its first message on
  std::map<uint64_t, OutOfOrderMessage> out_of_order;    ///< by sequence number
  std::unordered_map<uint64_t, PendingRts> pending_rts;  ///< by the peer's buffer id
  bool disconnected = false;       ///< sent a disconnect notice: the end of the connection is no failure
  bool made_after_notice = false;  ///< the endpoint was: its end is a failure until another notice
  bool left = false;               ///< has left the job: no endpoint is made any more, except for an answer
  bool disconnect_sent = false;
  bool rendezvous_completed = false;  ///< a rendezvous to the peer has succeeded
  uint32_t operations = 0;            ///< in operations_
  uint32_t send_buffers = 0;          ///< in use for this peer
  void* flush = nullptr;              ///< request of the endpoint's flush, on behalf of Ucx::remove
  size_t outstanding_bytes = 0;       ///< of committed messages still held by UCX
  std::string reason;                 ///< of the failure
  uint64_t deadline = 0;              ///< ns; operations held by UCX, or a notice, are given up after it
};

/// Buffer of an outgoing message, released when UCX has completed the send.
struct SendBuffer {
  Ucx* owner;
  Connection* connection;
  size_t capacity;  ///< bytes of data()
  bool uses_gpu;    ///< the payload is GPU memory
  bool is_rendezvous;
  bool counts_as_outstanding;  ///< included in outstanding_bytes
  union {
    MessageHeader message;
    AnswerHeader answer;
    RmaRequest rma_request;
    RmaReply rma_reply;
  };
  alignas(16) std::byte data[1];
};

/// A get or put in flight.
struct Operation {
  Ucx* owner;
  Connection* connection;
  uint64_t id;
  Buffer local;
  Completion* done;
  bool receiving = false;  ///< UCX writes to `local`
};

/// A put of a peer that UCX receives into a registered buffer.
struct IncomingPut {
  Ucx* owner;
  uint64_t id, put;  ///< here, and at the peer
  uint64_t buffer_id;
  Peer source;
  bool uses_gpu;
};

}  // namespace weft::transport::ucx
