// SPDX-License-Identifier: BSD-3-Clause
// Device side of exchanges of blocks by pairs of ranks (pair_blocks.hpp): one thread block's part of the
// messages between two ranks.
#pragma once
#include "device/kernel/ll_device.cuh"
#include "device/kernel/pair_blocks.hpp"
#include "device/kernel/runs_device.cuh"
#include "device/kernel/simple_device.cuh"

namespace weft::device::kernel {

/// Out of line, since the code for all sizes of words is long.
static __device__ __noinline__ void move_block(const enqueue::RunsSide to, const enqueue::RunsSide from,
                                               uint32_t n, uint32_t word) {
  enqueue::move_words(to, from, n, word);
}

class PairExchange {
 public:
  /// Thread block `k` of those for the messages to and from rank `peer`.
  __device__ PairExchange(const PairBlocks& blocks, uint32_t peer, uint32_t k, const PairCall& call)
      : s_(blocks),
        peer_(peer),
        k_(k),
        call_(call),
        split_(blocks.split(peer)),
        sent_(blocks.message_bytes(blocks.from, peer)),
        received_(blocks.message_bytes(blocks.to, peer)) {}

  /// Runs from a resume state: the round whose chunk the block waits for, 0 with LL. Returns the new resume
  /// state, or Collective::kEnded.
  __device__ uint64_t run(uint64_t resume, bool resumed) {
    if (peer_ == s_.rank) {
      copy_own();
      return Collective::kEnded;
    }
    if (split_.chunk_bytes != 0) return exchange_chunks(static_cast<uint32_t>(resume), resumed);
    if (!resumed) put_packets();
    return __syncthreads_or(get_packets()) != 0 ? 0 : Collective::kEnded;
  }

 private:
  /// Calls function(block, first) for the blocks of the message to or from the peer; `first`: byte of the
  /// message at which it begins.
  template <class Function>
  __device__ __forceinline__ void for_blocks(const uint8_t* list, Function&& function) const {
    uint64_t first = 0;
    for (uint32_t i = list[peer_]; i < list[peer_ + 1]; ++i) {
      function(i, first);
      first = s_.behind(first, i);
    }
  }
  /// Calls function(layout, address, at, rest, packet) for the packets of this thread; the packet holds up to
  /// 8 of `rest` bytes at byte `at` of the block. All packets are divided among the thread blocks alike on
  /// both ranks, so a thread block waits for its counterpart only.
  template <class Function>
  __device__ __forceinline__ void for_packets(const uint8_t* list, uint64_t bytes,
                                              Function&& function) const {
    const Range mine = share((bytes + 7) / 8, k_, split_.blocks);
    for_blocks(list, [&](uint32_t i, uint64_t first) {
      const uint64_t in_block = s_.bytes(i), begin = first / 8, end = (first + in_block + 7) / 8;
      const uint64_t past = end < mine.first + mine.count ? end : mine.first + mine.count;
      const enqueue::Runs runs = s_.runs(i);
      for (uint64_t p = (begin > mine.first ? begin : mine.first) + threadIdx.x; p < past; p += blockDim.x) {
        const uint64_t at = 8 * p - first;
        function(runs, s_.blocks[i].address, at, in_block - at, p);
      }
    });
  }

  __device__ void put_packets() const {
    const uint64_t packets = s_.packets(peer_, s_.rank, call_);
    for_packets(s_.from, sent_,
                [&](const enqueue::Runs& runs, uint64_t address, uint64_t at, uint64_t rest, uint64_t p) {
                  const uint64_t data = enqueue::gather(runs, address, at, rest);
                  store_packet(packets + 16 * p, static_cast<uint32_t>(data),
                               static_cast<uint32_t>(data >> 32), call_.flag);
                });
  }
  /// Returns whether packets are late.
  __device__ bool get_packets() const {
    const uint64_t packets = s_.packets(s_.rank, peer_, call_);
    Timeout timeout(s_.timeout_ns);
    bool late = false;
    for_packets(s_.to, received_,
                [&](const enqueue::Runs& runs, uint64_t address, uint64_t at, uint64_t rest, uint64_t p) {
                  uint4 packet = load_words(packets + 16 * p);
                  while (!late && !present(packet, call_.flag)) {
                    late = timeout.expired();
                    packet = load_words(packets + 16 * p);
                  }
                  if (!late)
                    enqueue::scatter(runs, address, at, rest,
                                     static_cast<uint64_t>(packet.z) << 32 | packet.x);
                });
    return late;
  }

  /// A chunk is received before the chunk of the round after the next one is pushed (D1).
  __device__ uint64_t exchange_chunks(uint32_t round, bool resumed) const {
    const uint64_t longest = sent_ > received_ ? sent_ : received_;
    for (; PairBlocks::chunk(split_, longest, round, 0).count != 0; ++round, resumed = false) {
      if (!resumed) {
        copy_chunk(s_.from, sent_, s_.slot(peer_, s_.rank, round, k_), round, true);
        __syncthreads();
      }
      bool late = false;
      if (threadIdx.x == 0) {
        const uint64_t mark = PairBlocks::mark(call_, round);
        if (!resumed) store_release(s_.flag(peer_, s_.rank, round, k_), mark);
        Timeout timeout(s_.timeout_ns);
        while (!late && load_acquire(s_.flag(s_.rank, peer_, round, k_)) < mark) late = timeout.expired();
      }
      if (__syncthreads_or(late)) return round;
      copy_chunk(s_.to, received_, s_.slot(s_.rank, peer_, round, k_), round, false);
      __syncthreads();
    }
    return Collective::kEnded;
  }
  /// Packs the chunk of a round of a message of `bytes` bytes, or unpacks it.
  __device__ void copy_chunk(const uint8_t* list, uint64_t bytes, uint64_t slot, uint32_t round,
                             bool packs) const {
    const Range r = PairBlocks::chunk(split_, bytes, round, k_);
    for_blocks(list, [&](uint32_t i, uint64_t first) {
      const Words words = words_in(i, first, r);
      if (words.count == 0) return;
      const uint32_t word = s_.form[i].word;
      const enqueue::RunsSide block{s_.blocks[i].address, s_.runs(i), words.first};
      const enqueue::RunsSide chunk{slot + (first + uint64_t{words.first} * word - r.first),
                                    enqueue::contiguous_runs(word), 0};
      move_block(packs ? chunk : block, packs ? block : chunk, words.count, word);
    });
  }

  /// The blocks of both lists are alike, and have the same words.
  __device__ void copy_own() const {
    const uint32_t skipped = s_.to[peer_] - s_.from[peer_];
    for_blocks(s_.from, [&](uint32_t i, uint64_t) {
      const Range mine = share(s_.blocks[i].words, k_, split_.blocks);
      const auto first = static_cast<uint32_t>(mine.first);
      move_block({s_.blocks[i + skipped].address, s_.runs(i + skipped), first},
                 {s_.blocks[i].address, s_.runs(i), first}, static_cast<uint32_t>(mine.count),
                 s_.form[i].word);
    });
  }

  struct Words {
    uint32_t first, count;
  };
  /// The words of a block, which begins at byte `first` of its message, in a range of the message.
  __device__ __forceinline__ Words words_in(uint32_t i, uint64_t first, const Range& r) const {
    const uint64_t past = first + s_.bytes(i), end = past < r.first + r.count ? past : r.first + r.count;
    const uint64_t begin = first > r.first ? first : r.first;
    if (begin >= end) return {0, 0};
    const uint32_t word = s_.form[i].word;
    return {static_cast<uint32_t>((begin - first) / word), static_cast<uint32_t>((end - begin) / word)};
  }

  const PairBlocks& s_;
  const uint32_t peer_, k_;
  const PairCall call_;
  const PairSplit split_;
  const uint64_t sent_, received_;  // bytes of the messages
};

}  // namespace weft::device::kernel
