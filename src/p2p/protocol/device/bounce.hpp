// SPDX-License-Identifier: BSD-3-Clause
// Sends and receives through bounce buffers in GPU memory (memory/bounce_pool.hpp).
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "device/copy.hpp"
#include "p2p/memory/bounce_pool.hpp"
#include "p2p/memory/limit.hpp"
#include "p2p/message/header.hpp"
#include "p2p/message/transfer.hpp"
#include "p2p/protocol/pipeline/pipeline.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::p2p {

class Engine;

/// A send through a bounce buffer.
struct BounceSend final : PipelinedSend {
  explicit BounceSend(BouncePool::Arena& source) : arena(&source) {}
  void release(uint64_t number, size_t size) override {
    arena->release(static_cast<uint32_t>(number), arena->chunks_for(size));
  }
  BouncePool::Arena* arena;
  uint64_t epoch = 0;  ///< of an eagerly packed message

 private:
  Result<Slot> reserve(const Transfer& t, uint64_t bytes) override;
  Result<Handover> hand_over(Engine& engine, Transfer& t, Chunk& chunk) override;
  void post_failure(Engine& engine, const Transfer& t) const override;
};

/// A receive through the sender's bounce buffer.
struct BounceReceive final : ProtocolState {
  struct Get {
    device::Ticket ticket;
    BounceChunk chunk;  ///< echoed to the sender
    Limit::Use use;     ///< BouncePool::gets
  };
  transport::cuda_ipc::Mapping* mapping = nullptr;  ///< of the sender's bounce buffer
  std::vector<Get> gets;                            ///< chunks being read
  uint32_t started = 0;                             ///< gets so far
  Limit::Use waiting_kernel;                        ///< eagerly packed: unpacked by the only get
};

/// Returns whether the receiver shall map the sender's allocation rather than read a bounce buffer. Accounts
/// for the message if not.
[[nodiscard]] bool mapping_pays(Engine& engine, const Transfer& t);
/// Reserves chunks for a message that is packed at the send and appends EagerPack to its RTS. Returns the
/// appended bytes; 0: the message is packed when the receiver requests it.
[[nodiscard]] size_t append_eager_pack(Transfer& t, ReadyToSend& rts, std::byte* out);
/// Maps the sender's bounce buffer of a receive. Returns false if that is not possible.
[[nodiscard]] bool map_bounce(Engine& engine, Transfer& t, const Protocol& protocol, const ReadyToSend& rts);
/// Completes a receive whose chunks have all been read.
void finish_bounce_receive(Engine& engine, Transfer& t);
/// Waits for copies and kernels of a request in flight, then returns its chunks or its mapping.
void abort_bounce(Engine& engine, Transfer& t);

}  // namespace weft::p2p
