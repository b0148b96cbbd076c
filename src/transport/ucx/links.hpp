// SPDX-License-Identifier: BSD-3-Clause
// What the UCX network keeps of each peer, and of what is on its way: messages out, fetches in.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/network.hpp"
#include "transport/ucx/api.hpp"

namespace weft::transport::ucx {

class Ucx;

/// Active message ids, and what their headers are.
inline constexpr unsigned kMessageId = 1, kPullId = 2, kDataId = 3, kAnnounceId = 4;

struct MessageHead {
  static constexpr uint32_t kPlain = 0, kGoodbye = 1;
  uint32_t source, kind;
  uint64_t sequence;  ///< UCX does not promise that messages arrive in order
};
/// A message that announces a buffer, as the header of the rendezvous that moves it; the message follows.
struct AnnounceHead {
  MessageHead message;
  uint64_t exposed;
};
/// Asks the owner of a buffer for a part of it.
struct PullHead {
  uint32_t source, unused;
  uint64_t fetch, exposed, offset, length;
};
/// The answer; the data, or none where the buffer is not exposed.
struct DataHead {
  uint64_t fetch, good;
};

/// The rendezvous of an announced buffer, kept for the fetch of all of it.
struct Announced {
  void* descriptor;  ///< UCX's
  size_t size;
};

/// A message that came before its turn.
struct Early {
  uint32_t kind;
  std::vector<std::byte> data;
};

struct Link {
  enum class State { fresh, open, failing, lost };
  Ucx* owner = nullptr;
  Peer peer = 0;
  State state = State::fresh;
  api::Endpoint endpoint = nullptr;
  uint64_t sent = 0, delivered = 0;                   ///< messages: sequence numbers
  std::map<uint64_t, Early> early;                    ///< by sequence number
  std::unordered_map<uint64_t, Announced> announced;  ///< by the peer's name of the buffer
  bool left = false;                                  ///< said goodbye: the end of the connection is none
  bool told_goodbye = false;
  bool acquainted = false;  ///< a rendezvous to the peer has ended well
  uint32_t fetches = 0;
  size_t out = 0;         ///< bytes of messages on their way out
  std::string reason;     ///< of failing
  uint64_t deadline = 0;  ///< of failing, ns: what UCX has not ended by then is given up
};

/// A message on its way out: given back when UCX has it no more.
struct Slot {
  Ucx* owner;
  Link* link;
  size_t room;   ///< bytes of data()
  bool gpu;      ///< sends GPU memory
  bool bulk;     ///< a rendezvous
  bool counted;  ///< a message: among the bytes on their way out
  union {
    MessageHead message;
    PullHead pull;
    DataHead data_head;
  };
  alignas(16) std::byte data[1];
};

struct Fetch {
  Ucx* owner;
  Link* link;
  uint64_t id;
  Buffer local;
  Completion* done;
  bool receiving = false;  ///< UCX writes to the buffer
};

}  // namespace weft::transport::ucx
