// SPDX-License-Identifier: BSD-3-Clause
// Keys and active messages of remote memory access. Messages are used where no other path reaches the
// target's memory, and for atomics that no mapping can serve. Native byte order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "transport/am/handlers.hpp"
#include "transport/cuda_ipc/ipc.hpp"
#include "transport/network.hpp"
#include "transport/rma/atomic.hpp"
#include "transport/rma/id_table.hpp"
#include "transport/rma/segment.hpp"

namespace weft::transport::rma {

/// Lets one peer attach registered memory; copied verbatim into the caller's own messages.
struct Key {
  /// `managed`: memory of this host that its driver migrates.
  enum class Kind : uint32_t { message, segment, process, managed, device, network };
  struct SegmentPart {
    SegmentName name;
    uint64_t offset;  ///< of the memory in the segment
    uint64_t pool;    ///< 1: a SegmentPool, which stays mapped
  };
  struct DevicePart {
    cuda_ipc::Region region;
    cuda_ipc::Probe probe;
  };
  struct NetworkPart {
    uint64_t size;
    std::byte rkey[kMaxRkey];
  };
  Kind kind;
  uint32_t on_device;  ///< 1: the CPU cannot access the memory
  Id region;
  uint64_t address, length;       ///< in the owner
  uint64_t proof_address, proof;  ///< a word of known content in the owner
  union {
    SegmentPart segment;
    DevicePart device;
    NetworkPart network;
  };
};
static_assert(std::is_trivially_copyable_v<Key>);

enum class Message : am::HandlerId { put = am::kRmaHandlers, get, atomic, data, reply };

struct PutMessage {  ///< one fragment; its bytes follow
  static constexpr uint8_t kLast = 1;
  Message handler;
  uint8_t flags;
  uint16_t unused;
  uint32_t length;
  Id region, operation;
  uint64_t offset;
};
struct GetMessage {
  Message handler;
  uint8_t unused[7];
  Id region, operation;
  uint64_t offset, length;
};
struct AtomicMessage {
  Message handler;
  AtomicOp op;
  AtomicType type;
  uint8_t unused[5];
  Id region, operation;
  uint64_t offset, operand, compare;
};
/// One fragment of the result of a get; its bytes follow.
struct DataMessage {
  Message handler;
  uint8_t unused[3];
  uint32_t length;
  Id operation;
  uint64_t position;
};
/// End of a put or an atomic, or of any operation that failed.
struct ReplyMessage {
  enum Outcome : uint8_t { done, stale_region, out_of_range, copy_failed };
  Message handler;
  Outcome outcome;
  uint8_t unused[6];
  Id operation;
  uint64_t value;  ///< of an atomic: the value before
};

}  // namespace weft::transport::rma
