// SPDX-License-Identifier: BSD-3-Clause
// Transfer: one send or receive, from posting to completion.
// Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "base/assert.hpp"
#include "base/slab.hpp"
#include "core/communicator.hpp"
#include "core/request.hpp"
#include "core/request_table.hpp"
#include "datatype/datatype.hpp"
#include "device/memory.hpp"
#include "p2p/match/queue.hpp"

namespace weft::p2p {

inline constexpr int kAnySource = -1, kAnyTag = -2, kProcNull = -3;  // MPI 5.0 ABI values
inline constexpr int64_t kAutomatic = -1;  ///< size of MPI_BUFFER_AUTOMATIC: unbounded

/// Returns whether copy engines and kernels move this memory: device memory, and managed memory, which the
/// CPU could touch only slowly.
[[nodiscard]] inline bool device_side(device::MemoryKind kind) {
  return kind == device::MemoryKind::cuda_device || kind == device::MemoryKind::cuda_managed;
}

enum class SendMode : uint8_t { standard, synchronous, buffered, ready };

/// `count` elements of `type` at `address`. `memory`: the classification of the address, if known.
struct Buffer {
  void* address;
  int64_t count;
  const datatype::Datatype* type;
  const device::Memory* memory = nullptr;
};

/// Returns the buffer argument of an MPI call; sends do not write to it.
inline Buffer buffer_of(const void* address, int64_t count, const datatype::Datatype& type) {
  return {const_cast<void*>(address), count, &type};
}

/// memcpy() inlined for the sizes of one basic element.
inline void copy_small(void* to, const void* from, size_t n) {
  if (n == 8)
    std::memcpy(to, from, 8);
  else if (n == 4)
    std::memcpy(to, from, 4);
  else if (n != 0)
    std::memcpy(to, from, n);
}

/// Request of all sends that completed before their calls returned: nothing of it ever changes.
class CompletedSend final : public core::Request {
 public:
  Status cancel() override { return {}; }
  static CompletedSend& shared();

 private:
  CompletedSend() : Request(Kind::send) { complete_.store(true, std::memory_order_relaxed); }
};

struct PersistentBuffer;  ///< protocol/regions.hpp
struct DeletePersistentBuffer {
  void operator()(PersistentBuffer* buffer) const;
};

struct Protocol;  ///< protocol/protocol.hpp

/// State of a request in its protocol, which alone knows the type.
struct ProtocolState {
  ProtocolState() = default;
  ProtocolState(const ProtocolState&) = delete;
  ProtocolState& operator=(const ProtocolState&) = delete;
  virtual ~ProtocolState() = default;
};

class Transfer : public core::Request, public match::Node {
 public:
  /// enter() has the table of transitions. A message about a request is dropped unless the request is in the
  /// state that awaits it.
  enum class State : uint8_t {
    idle,
    queued,     ///< send: eager, no capacity in the transport
    rts_sent,   ///< send: the RTS or eager_sync message has been sent or is pending
    streaming,  ///< send: the CTS has arrived, or an eagerly packed message is being released
    putting,    ///< send: RTR claimed
    posted,     ///< receive: unmatched
    matched,    ///< receive: this process moves the payload, or waits for staging memory
    receiving,  ///< receive: the CTS has been sent, the sender moves the payload
    done
  };
  /// Bit of a state in a set of states.
  [[nodiscard]] static constexpr unsigned bit(State s) { return 1u << static_cast<unsigned>(s); }
  void enter(State next) {
    WEFT_ASSERT((transitions(state) & bit(next)) != 0);  // R1
    state = next;
  }

  /// Value of `advertised`, so that matching a message needs no branch for it.
  static constexpr uint8_t kInterrupted = UINT8_MAX;

  explicit Transfer(Kind request_kind) : Request(request_kind) {}
  ~Transfer() override {
    WEFT_ASSERT(id == core::kNoRequest && protocol == nullptr && !polled && !queued);  // R2
    if (classification_slot != nullptr) [[unlikely]]
      uncache_classification();
  }

  Status start() override;
  Status cancel() override;
  void destroy() override;
  [[nodiscard]] core::Operands operands() const override {
    using wait_table::What;
    if (comm == nullptr || context != comm->context(core::Channel::user)) return {};  // of a collective
    return {kind == Kind::send ? What::send : What::receive, rank, tag, count, bytes};
  }
  static Slab<Transfer>& slab();

  State state = State::idle;
  SendMode mode = SendMode::standard;
  bool owned = false;           ///< lives in slab(); holds references to its communicator and type
  uint8_t advertised = 0;       ///< receive: 1 + RTR slot in which it is advertised; 0: not advertised;
                                ///< kInterrupted: posted, but interrupt() was called
  bool polled = false;          ///< listed in Requests::polled_
  bool contiguous = false;      ///< the payload is `bytes` bytes at `address`
  core::ContextId context = 0;  ///< of the match key
  int rank = kProcNull;         ///< destination or source argument
  int tag = 0;
  uint32_t peer = 0;  ///< process id, once known
  void* address = nullptr;
  int64_t shift = 0;  ///< from the application's buffer to `address`, in bytes: see merge_runs()
  int64_t count = 0;
  const datatype::Datatype* type = nullptr;
  uint64_t bytes = 0;                         ///< size of the send, capacity of the receive
  uint64_t transferred = 0;                   ///< bytes sent or received so far
  uint64_t expected = 0;                      ///< receive: size of the matched message
  core::RequestId id = core::kNoRequest;      ///< in flight with `peer`: in the engine's request table
  core::RequestId remote = core::kNoRequest;  ///< id of the peer's transfer, echoed to it
  device::Memory memory;
  /// In ClassificationCache, while `memory` classifies other buffers of the same allocation; else null.
  Transfer** classification_slot = nullptr;
  const Protocol* protocol =
      nullptr;  ///< holds `protocol_state`, and aborts the request; null: none holds any
  std::unique_ptr<ProtocolState> protocol_state;
  /// Of a persistent request on device memory.
  std::unique_ptr<PersistentBuffer, DeletePersistentBuffer> persistent_buffer;

  /// Sets communicator and datatype; a transfer in the slab holds references to them.
  void bind(core::Communicator& communicator, const datatype::Datatype& datatype) {
    if (owned && comm != &communicator) {
      communicator.retain();
      if (comm != nullptr) comm->release();
    }
    if (owned && type != &datatype) {
      const_cast<datatype::Datatype&>(datatype).retain();
      if (type != nullptr) const_cast<datatype::Datatype*>(type)->release();
    }
    comm = &communicator;
    type = &datatype;
  }
  /// Its memory classifies no other buffers any more.
  void uncache_classification() { *std::exchange(classification_slot, nullptr) = nullptr; }
  void use(const Protocol& next, std::unique_ptr<ProtocolState> state = nullptr) {
    protocol = &next;
    protocol_state = std::move(state);
  }
  /// Copy bytes [offset, offset + n) of the packed stream; for host-accessible buffers only.
  void pack(uint64_t offset, std::byte* out, size_t n) const;
  void unpack(uint64_t offset, const std::byte* in, size_t n);
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(address); }
  [[nodiscard]] bool in_collective() const {
    return comm != nullptr && comm->context(core::Channel::collective) == context;
  }

 private:
  /// The states that may follow `from`, as bits.
  [[nodiscard]] static constexpr unsigned transitions(State from) {
    using enum State;
    switch (from) {
      case idle:
      case done:  // a persistent request starts again
        return bit(queued) | bit(rts_sent) | bit(putting) | bit(posted) | bit(matched) | bit(done);
      case queued:
        return bit(rts_sent) | bit(done);
      case rts_sent:
        return bit(streaming) | bit(done);
      case streaming:
      case putting:
        return bit(done);
      case posted:
        return bit(matched) | bit(done);
      case matched:
        return bit(receiving) | bit(done);
      case receiving:  // matched: the payload has arrived, its uploads are in flight
        return bit(matched) | bit(done);
    }
    return 0;
  }
};

[[nodiscard]] inline bool device_side(const Transfer& t) { return device_side(t.memory.kind); }

}  // namespace weft::p2p
