// SPDX-License-Identifier: BSD-3-Clause
// Point-to-point: sends, receives, probes. What api/ and coll/ call.
// A Transfer can be embedded anywhere (on the stack for blocking calls, in a schedule's step); errors never
// return from post_*: the transfer completes with `outcome` set.
// Threading: under the instance lock.
#pragma once
#include <cstdint>

#include "core/communicator.hpp"
#include "core/request.hpp"
#include "datatype/datatype.hpp"
#include "device/memory.hpp"
#include "p2p/transfer.hpp"

namespace weft::p2p {

inline constexpr int kAnySource = -1, kAnyTag = -2, kProcNull = -3;  // MPI 5.0 ABI values

enum class SendMode : uint8_t { standard, synchronous, buffered, ready };

/// `count` elements of `type` at `address`. `memory`: its classification when the caller knows it already.
struct Buffer {
  void* address;
  int64_t count;
  const datatype::Datatype* type;
  const device::Memory* memory = nullptr;
};

/// Starts a send. `dest` may be kProcNull. The buffer must stay until transfer.complete().
void post_send(Transfer& transfer, const Buffer& buffer, int dest, int tag, core::Communicator& comm,
               SendMode mode = SendMode::standard, core::Channel channel = core::Channel::user);
/// Starts a receive. `source` may be kAnySource or kProcNull, `tag` kAnyTag.
void post_receive(Transfer& transfer, const Buffer& buffer, int source, int tag, core::Communicator& comm,
                  core::Channel channel = core::Channel::user);

/// A Transfer from the slab, for MPI_Isend and friends: the handle is its address.
Transfer* create_transfer(core::Request::Kind kind);

}  // namespace weft::p2p
