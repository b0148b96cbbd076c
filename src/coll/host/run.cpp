// SPDX-License-Identifier: BSD-3-Clause
// Run: operations that several collectives share, and the dispatch by collective.
#include "coll/host/run.hpp"

#include <cstring>
#include <string>

namespace weft::coll::host {
namespace {

/// Largest total bytes of all vectors that every rank reduces redundantly; larger vectors are partitioned.
constexpr size_t kReduceEverywhereMaxBytes = 4 << 10;

/// Published by a rank whose memory the others read.
struct PublishedAddress {
  uint64_t address, failed;
};

}  // namespace

Error Run::size_mismatch(int rank, size_t published, size_t expected) {
  return Error(Errc::truncate, "rank " + std::to_string(rank) + " provided " + std::to_string(published) +
                                   " bytes where " + std::to_string(expected) +
                                   " were expected: make collectives, counts and types of all ranks agree "
                                   "(WEFT_CHECK=on names what differs)");
}

void Run::publish_address(Step step, const void* address) {
  const PublishedAddress published{reinterpret_cast<uint64_t>(address), outcome_.ok() ? 0u : 1u};
  std::memcpy(channel_.claim(step, sizeof published), &published, sizeof published);
  channel_.publish(step, sizeof published);
}

void Run::read_remote(int rank, Step step, void* to, uint64_t offset, size_t n) {
  PublishedAddress published;
  std::memcpy(&published, channel_.wait_published(rank, step).data, sizeof published);
  if (channel_.broken()) return record_error(channel_.failure());
  if (published.failed != 0)
    record_error(
        Error(Errc::truncate, "rank " + std::to_string(rank) + " failed earlier and provides no data"));
  if (outcome_.ok()) record_error(channel_.read_remote(rank, to, published.address + offset, n));
}

Error Run::own_block_mismatch() {
  return {Errc::truncate,
          "this rank's own block differs in size on the send and receive side: make counts and types agree"};
}

void Run::repack_own_block(const p2p::Buffer& to, uint64_t to_offset, const p2p::Buffer& from,
                           uint64_t from_offset, uint64_t n) {
  alignas(64) std::byte packed[4096];
  for (uint64_t at = 0; at < n; at += sizeof packed) {
    const size_t part = std::min<uint64_t>(sizeof packed, n - at);
    pack(from, from_offset + at, packed, part);
    unpack(to, to_offset + at, packed, part);
  }
}

/// Publishes bytes [first, first + n) of all blocks but this rank's own.
void Run::publish_blocks(Step step, const p2p::Buffer& blocks, uint64_t first, uint64_t n) {
  const size_t published = outcome_.ok() ? n * static_cast<size_t>(call_.size - 1) : 0;
  std::byte* target = channel_.claim(step, published);
  if (published != 0)
    for_each_peer([&](int rank) {
      pack(blocks, static_cast<uint64_t>(rank) * call_.bytes + first,
           target + block_index(rank, call_.rank) * n, n);
    });
  channel_.publish(step, published);
}

/// Receives this rank's part of what publish_blocks() has published.
void Run::receive_block(int rank, Step step, const p2p::Buffer& to, uint64_t offset, size_t n) {
  const Published published = wait_for(rank, step, n * static_cast<size_t>(call_.size - 1));
  if (outcome_.ok()) [[likely]]
    unpack(to, offset, published.data + block_index(call_.rank, rank) * n, n);
  channel_.check_unchanged(rank, step, published.size);
}

Status Run::operator()() {
  if (channel_.check_ranks()) [[unlikely]]
    return channel_.failure();
  switch (call_.what) {
    case Collective::barrier:
      barrier();
      break;
    case Collective::bcast:
      bcast();
      break;
    case Collective::reduce:
      reduce();
      break;
    case Collective::allreduce:
      call_.bytes* static_cast<uint64_t>(call_.size) <= kReduceEverywhereMaxBytes ? allreduce_redundant()
                                                                                  : allreduce_partitioned();
      break;
    case Collective::reduce_scatter:
    case Collective::reduce_scatter_block:
      reduce_scatter();
      break;
    case Collective::allgather:
      allgather();
      break;
    case Collective::alltoall:
      alltoall();
      break;
    case Collective::gather:
      gather();
      break;
    case Collective::scatter:
      scatter();
      break;
    default:
      exchange_sized_blocks();
  }
  if (channel_.broken()) [[unlikely]]
    return channel_.failure();
  return std::move(outcome_);
}

}  // namespace weft::coll::host
