// SPDX-License-Identifier: BSD-3-Clause
// PipelinedSend: device memory moves to the receiver chunk by chunk through a bounce location: GPU memory
// that the receiver has mapped (bounce.hpp), pinned memory (staging.hpp), memory registered with the network
// (rma.cpp). The GPU fills chunks while the receiver takes earlier ones.
// Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <deque>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "p2p/memory/device_copy.hpp"
#include "p2p/memory/limit.hpp"
#include "p2p/message/header.hpp"
#include "p2p/message/transfer.hpp"

namespace weft::p2p {

class Engine;

/// The sender of one message, and its chunks in the bounce location, which derives from it.
struct PipelinedSend : ProtocolState {
  struct Chunk {
    uint64_t number = 0;  ///< names the chunk in messages
    uint64_t offset = 0;  ///< of the chunk's first byte in the message
    size_t size = 0;
    device::Ticket filled{};
    bool announced = false;  ///< the receiver was notified of the chunk, and will return it
  };
  /// Memory of the location for the next chunk.
  struct Slot {
    uint64_t number = 0;
    size_t size = 0;  ///< bytes; 0: no memory is free now
    View memory{};
    device::StreamRole stream = device::StreamRole::out;
  };
  enum class Handover : uint8_t {
    no_capacity,  ///< the transport has none now
    announced,    ///< the receiver reads the chunk and returns it
    partly,       ///< a part of the payload was sent
    sent,         ///< the payload was sent: the chunk is free
  };

  /// `concurrent`: limits the sends that hold chunks; null: none.
  explicit PipelinedSend(Limit* concurrent = nullptr) : limit(concurrent) {}
  /// Hands filled chunks over and fills further ones. Returns false if nothing progressed.
  bool stream(Engine& engine, Transfer& t);
  /// Returns the announced chunk of this number; null: none.
  [[nodiscard]] Chunk* announced(uint64_t number);
  /// The receiver needs an announced chunk no more.
  void returned(Transfer& t, Chunk& chunk);
  /// Waits until no chunk is being filled, then frees all.
  void abort();

  std::deque<Chunk> chunks;  ///< in use, in the order of their offsets
  uint64_t next = 0;         ///< first byte not yet copied to a chunk

 protected:
  /// Reserves memory for at most `bytes` bytes.
  [[nodiscard]] virtual Result<Slot> reserve(const Transfer& t, uint64_t bytes) = 0;
  /// Frees the memory of a chunk of `size` bytes.
  virtual void release(uint64_t number, size_t size) = 0;
  /// Announces a filled chunk, or sends its payload.
  [[nodiscard]] virtual Result<Handover> hand_over(Engine& engine, Transfer& t, Chunk& chunk) = 0;
  /// Called while no chunk can be reserved and none is in use. Returns false if nothing progressed.
  virtual bool send_without_chunk(Engine&, Transfer&) { return false; }
  /// Notifies the receiver, which would wait forever.
  virtual void post_failure(Engine& engine, const Transfer& t) const = 0;

  /// Returns the announcement of a chunk; the location adds how it is reached.
  [[nodiscard]] static BounceChunk announcement(const Transfer& t, const Chunk& chunk);
  /// The failed send sends no more bytes: it ends when the receiver has returned all announced chunks.
  void give_up(Transfer& t);

 private:
  [[nodiscard]] Status fill(Transfer& t, bool& progressed);
  bool fail(Engine& engine, Transfer& t, Error error);

  Limit* limit;
  Limit::Use use;  ///< of `limit`
};

}  // namespace weft::p2p
