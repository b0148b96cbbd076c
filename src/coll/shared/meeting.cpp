// SPDX-License-Identifier: BSD-3-Clause
// Collectives in which all ranks meet: barrier, allgather, alltoall.
#include "coll/shared/run.hpp"

namespace weft::coll::shared {

void Run::barrier() { channel_.meet(); }

/// The others may read until they are done.
void Run::allgather_direct(std::byte* in, const std::byte* mine) {
  const uint32_t step = channel_.begin(1);
  put_address(step, mine);
  others([&](int peer) {
    get_direct(peer, step, in + static_cast<size_t>(peer) * call_.bytes, 0, call_.bytes);
  });
  channel_.done(step);
  channel_.await_done(step);
}

void Run::alltoall_direct(std::byte* in, const std::byte* blocks) {
  const uint32_t step = channel_.begin(1);
  put_address(step, blocks);
  others([&](int peer) {
    get_direct(peer, step, in + static_cast<size_t>(peer) * call_.bytes,
               static_cast<uint64_t>(call_.rank) * call_.bytes, call_.bytes);
  });
  channel_.done(step);
  channel_.await_done(step);
}

void Run::allgather() {
  const size_t block = call_.bytes;
  const auto rank = static_cast<size_t>(call_.rank);
  Stream in, out;
  open(in, call_.recv.part(0, call_.size * call_.recv.count), call_.in_place);
  std::byte* own = in.data() + rank * block;
  const std::byte* mine = own;
  if (!call_.in_place) {
    open(out, call_.send.whole(), true);
    mine = out.data();
    if (out.bytes() != block)
      note(Error(Errc::truncate,
                 "the block of this rank itself does not fit its place: make counts and types agree"));
    if (outcome_.ok()) p2p::copy_small(own, mine, block);
  }
  if (direct_) {
    allgather_direct(in.data(), mine);
    return close(in);
  }
  const Slices slices{block, Channel::kPageBytes};
  exchange(
      slices.steps(), [&](uint32_t step, uint32_t i) { put(step, mine + slices.first(i), slices.bytes(i)); },
      [&](uint32_t step, uint32_t i) {
        others([&](int peer) {
          get(peer, step, in.data() + static_cast<size_t>(peer) * block + slices.first(i), slices.bytes(i));
        });
      });
  close(in);
}

void Run::alltoall() {
  const uint64_t block = call_.bytes;
  const auto own = static_cast<uint64_t>(call_.rank) * block;
  Stream in, out;
  open(in, call_.recv.part(0, call_.size * call_.recv.count), call_.in_place);
  const std::byte* blocks = in.data();
  if (!call_.in_place) {
    open(out, call_.send.part(0, call_.size * call_.send.count), true);
    blocks = out.data();
    if (out.bytes() != in.bytes())
      note(Error(Errc::truncate, "the blocks sent and received differ in size: make counts and types agree"));
    if (outcome_.ok()) p2p::copy_small(in.data() + own, blocks + own, block);
  }
  if (direct_ && !call_.in_place) {
    alltoall_direct(in.data(), blocks);
    return close(in);
  }
  const Slices slices{block, slice_of(call_.size - 1)};
  exchange(
      slices.steps(),
      [&](uint32_t step, uint32_t i) { write_blocks(step, blocks, slices.first(i), slices.bytes(i)); },
      [&](uint32_t step, uint32_t i) {
        const size_t n = slices.bytes(i);
        others([&](int peer) {
          const Shown shown = take(peer, step, n * static_cast<size_t>(call_.size - 1));
          if (outcome_.ok())
            p2p::copy_small(in.data() + static_cast<uint64_t>(peer) * block + slices.first(i),
                            shown.data + place(call_.rank, peer) * n, n);
        });
      });
  close(in);
}

}  // namespace weft::coll::shared
