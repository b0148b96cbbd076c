// SPDX-License-Identifier: BSD-3-Clause
#include "coll/host/host.hpp"

#include "base/config.hpp"
#include "coll/host/run.hpp"
#include "coll/host/slot_channel.hpp"

namespace weft::coll::host {
namespace {

config::Size max_bytes{
    "coll.shared_max_bytes", 16 << 20, 0, 1 << 30,
    "Largest vector or block in bytes of a shared-memory collective; larger ones use messages."};
// The limits of ADR 0045.
constexpr uint64_t kMaxTotalBytes = 1 << 20;    // of all blocks of a rank
constexpr uint64_t kMaxBytesOfMany = 64 << 10;  // see many_copies()
constexpr uint64_t kMaxBytesOfPair = 32 << 10;  // see pair_messages()
constexpr int kFewRanks = 8;

config::Size copy_max{
    "coll.shared_copy_max_bytes", 64 << 10, 0, 1 << 30,
    "Largest data in bytes that a rank of alltoall, or the root of scatter, copies into shared memory. With "
    "more than two ranks, the ranks read larger blocks directly from its memory (process_vm_readv) where "
    "they can."};

/// Only the two ranks of a block have its size, so its sender decides whether it is a message.
bool has_sized_blocks(const Call& call) {
  return call.what == Collective::alltoallv || call.what == Collective::alltoallw || among_neighbors(call);
}

/// A rank publishes a block for each of several others.
bool publishes_blocks(const Call& call) {
  return (call.what == Collective::alltoall || call.what == Collective::scatter) && call.size > 2;
}

/// One rank copies or combines much more than each of the others, or has many ranks to wait for.
bool many_copies(const Call& call) {
  return publishes_blocks(call) || (call.what == Collective::reduce && call.size > 2) ||
         call.size > kFewRanks;
}

/// Two processes copy each large message together, once (ADR 0047).
bool pair_messages(const Call& call) {
  return (call.what == Collective::bcast || call.what == Collective::allgather ||
          call.what == Collective::alltoall) &&
         call.size == 2 && call.bytes > kMaxBytesOfPair;
}

/// True if the ranks read each other's memory; equal on all ranks.
bool use_single_copy(const Call& call, const SlotChannel& channel) {
  return publishes_blocks(call) && call.bytes * static_cast<uint64_t>(call.size - 1) > copy_max &&
         channel.single_copy();
}

}  // namespace

bool eligible(const Call& call) {
  if (call.size < 2 || call.inter()) return false;
  if (has_sized_blocks(call)) return !call.in_place;
  if (call.bytes > max_bytes) return false;
  if ((call.bytes > kMaxBytesOfMany && many_copies(call)) || pair_messages(call)) return false;
  switch (call.what) {
    case Collective::barrier:
    case Collective::bcast:
      return true;
    case Collective::reduce:
    case Collective::allreduce:
      return !call.op->user && call.recv.type->contiguous();
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_block:
      return call.bytes <= SlotChannel::kPageBytes && !call.op->user && call.recv.type->contiguous();
    case Collective::gather:
    case Collective::scatter:
    case Collective::allgather:
    case Collective::alltoall:
      return call.bytes * static_cast<uint64_t>(call.size) <= kMaxTotalBytes;
    default:
      return false;
  }
}

Status run(const Call& call, SlotChannel& channel) {
  return Run(call, channel, use_single_copy(call, channel))();
}

}  // namespace weft::coll::host
