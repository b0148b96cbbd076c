// SPDX-License-Identifier: BSD-3-Clause
// Transfer: one send or one receive, from posting to completion.
// Threading: under the instance lock.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/slab.hpp"
#include "core/communicator.hpp"
#include "core/request.hpp"
#include "datatype/datatype.hpp"
#include "device/memory.hpp"
#include "p2p/crossing.hpp"
#include "p2p/match/queue.hpp"
#include "p2p/scratch.hpp"
#include "p2p/staging.hpp"
#include "transport/cuda_ipc/ipc.hpp"

namespace weft::p2p {

class Engine;

inline constexpr int kAnySource = -1, kAnyTag = -2, kProcNull = -3;  // MPI 5.0 ABI values

enum class SendMode : uint8_t { standard, synchronous, buffered, ready };

/// `count` elements of `type` at `address`. `memory`: its classification when the caller knows it already.
struct Buffer {
  void* address;
  int64_t count;
  const datatype::Datatype* type;
  const device::Memory* memory = nullptr;
};

/// The buffer argument of an MPI call; sends do not write to it.
inline Buffer buffer_of(const void* address, int64_t count, const datatype::Datatype& type) {
  return {const_cast<void*>(address), count, &type};
}

/// memcpy, without the call for the sizes of one number.
inline void copy_small(void* to, const void* from, size_t n) {
  if (n == 8)
    std::memcpy(to, from, 8);
  else if (n == 4)
    std::memcpy(to, from, 4);
  else if (n != 0)
    std::memcpy(to, from, n);
}

/// The request of a send that was complete when its call returned.
class Sent final : public core::Request {
 public:
  Sent() : Request(Kind::send) { complete_.store(true, std::memory_order_relaxed); }
  Status cancel() override { return {}; }
  void destroy() override { slab().destroy(this); }
  static Slab<Sent>& slab();
};

/// What a persistent request on device memory keeps from one start to the next: its buffer stays classified,
/// and what the first start found holds until the caches say otherwise.
struct Resolved {
  transport::cuda_ipc::RegionName name{};           ///< our allocation
  uint64_t withdrawals = 0;                         ///< Exporter::withdrawals() when `name` was told
  bool told = false;                                ///< the peer knows `name`
  transport::cuda_ipc::Mapping* mapping = nullptr;  ///< of `theirs`, an allocation of `peer`
  transport::cuda_ipc::RegionName theirs{};
  uint64_t closures = 0;  ///< Importer::closures() when it was opened
  uint32_t peer = 0;
};

class Transfer : public core::Request, public match::Node {
 public:
  /// Where it stands. A send: idle -> queued (no room in the transport) -> announced (RTS out) -> streaming
  /// or done. A receive: idle -> posted -> matched -> done.
  enum class State : uint8_t { idle, queued, announced, streaming, posted, matched, done };

  explicit Transfer(Kind request_kind) : Request(request_kind) {}
  ~Transfer() override;

  Status start() override;
  Status cancel() override;
  void destroy() override;
  [[nodiscard]] Operands operands() const override { return {rank, tag, bytes}; }
  static Slab<Transfer>& slab();

  State state = State::idle;
  SendMode mode = SendMode::standard;
  bool owned = false;           ///< lives in slab(); holds references to its communicator and type
  bool witness = false;         ///< what its buffer is tells what others beside it are (Engine::start)
  uint8_t shown = 0;            ///< receive: 1 + its place among those that their senders see (put.cpp)
  bool contiguous = false;      ///< the data are `bytes` bytes at `address`
  core::ContextId context = 0;  ///< what it is matched in
  int rank = kProcNull;         ///< destination or source argument
  int tag = 0;
  uint32_t peer = 0;  ///< process, once known
  void* address = nullptr;
  int64_t shift = 0;  ///< from the buffer that the application gave to `address`: see join_run()
  int64_t count = 0;
  const datatype::Datatype* type = nullptr;
  uint64_t bytes = 0;     ///< size of the send, room of the receive
  uint64_t moved = 0;     ///< bytes streamed or arrived
  uint64_t expected = 0;  ///< receive: bytes that the matched message has
  uint64_t remote = 0;    ///< the other side's transfer
  device::Memory memory;
  std::unique_ptr<Staging> staging;                        ///< device memory moved through pinned chunks
  std::unique_ptr<ScratchSend> scratch;                    ///< device memory sent through GPU scratch
  std::unique_ptr<Crossing> crossing;                      ///< with a process of another host
  transport::cuda_ipc::Mapping* sender_scratch = nullptr;  ///< receive through scratch: held until complete
  uint32_t fetches = 0;                                    ///< chunks of scratch being fetched
  std::unique_ptr<Resolved> resolved;                      ///< persistent, device memory: see there

  /// Copies bytes [offset, offset + n) of the packed stream; host-accessible buffers only.
  void pack(uint64_t offset, std::byte* out, size_t n) const;
  void unpack(uint64_t offset, const std::byte* in, size_t n);
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(address); }

 private:
  friend class Engine;
  void hold(core::Communicator& communicator, const datatype::Datatype& datatype);
};

}  // namespace weft::p2p
