// SPDX-License-Identifier: BSD-3-Clause
// Collectives with a root: bcast, reduce, gather, scatter. Whoever shows something goes on; it waits for
// readers when it has run out of room.
#include <cstring>

#include "coll/shared/run.hpp"

namespace weft::coll::shared {

void Run::bcast_direct(std::byte* data) {
  const uint32_t step = channel_.begin(1);
  if (root()) {
    put_address(step, data);
    channel_.await_done(step);
  } else {
    get_direct(call_.root, step, data, 0, call_.bytes);
  }
  channel_.done(step);
}

void Run::bcast() {
  Stream data;
  open(data, call_.recv.whole(), root());
  if (direct_) {
    bcast_direct(data.data());
    if (!root()) close(data);
    return;
  }
  const Slices slices{call_.bytes, Channel::kPageBytes};
  const uint32_t first = channel_.begin(slices.steps());
  for (uint32_t i = 0; i < slices.steps(); ++i) {
    std::byte* at = data.data() + slices.first(i);
    root() ? put(first + i, at, slices.bytes(i)) : get(call_.root, first + i, at, slices.bytes(i));
    channel_.passed(first + i, slices.bytes(i));
  }
  if (!root()) close(data);
}

/// The root reads the terms from the last rank's to the first's, as many bytes at a time as half its pages
/// hold.
void Run::reduce_direct() {
  constexpr size_t kHalf = Channel::kAhead * Channel::kPageBytes;
  const uint32_t step = channel_.begin(1);
  if (!root()) {
    put_address(step, call_.send.address);
    channel_.await_done(call_.root, step);
    return channel_.done(step);
  }
  others([&](int rank) { static_cast<void>(channel_.await(rank, step)); });
  channel_.met(step);
  std::byte* term = channel_.pages();
  const Slices slices{call_.bytes, kHalf};
  for (uint32_t i = 0; i < slices.steps(); ++i) {
    const size_t n = slices.bytes(i), at = slices.first(i);
    std::byte* result = static_cast<std::byte*>(call_.recv.address) + at;
    std::byte* target = call_.in_place ? term + kHalf : result;
    for (int rank = call_.size - 1; rank >= 0; --rank) {
      const bool first = rank == call_.size - 1;
      std::byte* own = static_cast<std::byte*>(call_.send.address) + at;
      if (rank != call_.rank) get_direct(rank, step, first ? target : term, at, n);
      if (!outcome_.ok()) continue;
      if (first && rank == call_.rank) std::memcpy(target, own, n);
      if (!first) fold(rank == call_.rank ? own : term, target, static_cast<int64_t>(n / element()));
    }
    if (call_.in_place && outcome_.ok()) std::memcpy(result, target, n);
  }
  channel_.done(step);
}

// Terms are combined from the last rank's to the first's.
void Run::reduce() {
  if (direct_) return reduce_direct();
  const auto* mine = static_cast<const std::byte*>(call_.send.address);
  const Slices slices{call_.bytes, Channel::kPageBytes};
  const uint32_t first = channel_.begin(slices.steps());
  for (uint32_t i = 0; i < slices.steps(); ++i) {
    const uint32_t step = first + i;
    const size_t n = slices.bytes(i), at = slices.first(i);
    if (!root()) {
      put(step, mine + at, n);
      channel_.passed(step, n);
      continue;
    }
    std::byte* result = static_cast<std::byte*>(call_.recv.address) + at;
    std::byte* target = call_.in_place ? channel_.claim(step, n) : result;
    for (int rank = call_.size - 1; rank >= 0; --rank) {
      const std::byte* term = rank == call_.rank ? mine + at : take(rank, step, n).data;
      if (!outcome_.ok()) continue;
      rank == call_.size - 1 ? p2p::copy_small(target, term, n)
                             : fold(term, target, static_cast<int64_t>(n / element()));
    }
    if (call_.in_place && outcome_.ok()) p2p::copy_small(result, target, n);
    channel_.passed(step, n);
  }
}

void Run::gather_direct(std::byte* in, const std::byte* mine) {
  const uint32_t step = channel_.begin(1);
  if (root()) {
    others([&](int peer) {
      get_direct(peer, step, in + static_cast<uint64_t>(peer) * call_.bytes, 0, call_.bytes);
    });
  } else {
    put_address(step, mine);
    channel_.await_done(call_.root, step);
  }
  channel_.done(step);
}

void Run::gather() {
  const uint64_t block = call_.bytes;
  const auto rank = static_cast<uint64_t>(call_.rank);
  Stream in, out;
  if (root()) open(in, call_.recv.part(0, call_.size * call_.recv.count), call_.in_place);
  if (!root() || !call_.in_place) open(out, call_.send.whole(), true);
  if (root() && !call_.in_place) {
    if (out.bytes() != block)
      note(Error(Errc::truncate,
                 "the block of the root itself does not fit its place: make counts and types agree"));
    if (outcome_.ok()) p2p::copy_small(in.data() + rank * block, out.data(), block);
  }
  if (direct_) {
    gather_direct(in.data(), out.data());
    if (root()) close(in);
    return;
  }
  const Slices slices{block, Channel::kPageBytes};
  const uint32_t first = channel_.begin(slices.steps());
  for (uint32_t i = 0; i < slices.steps(); ++i) {
    const size_t n = slices.bytes(i);
    if (root())
      others([&](int peer) {
        get(peer, first + i, in.data() + static_cast<uint64_t>(peer) * block + slices.first(i), n);
      });
    else
      put(first + i, out.data() + slices.first(i), n);
    channel_.passed(first + i, n);
  }
  if (root()) close(in);
}

void Run::scatter_direct(std::byte* in, const std::byte* blocks) {
  const uint32_t step = channel_.begin(1);
  if (root()) {
    put_address(step, blocks);
    channel_.await_done(step);
  } else {
    get_direct(call_.root, step, in, static_cast<uint64_t>(call_.rank) * call_.bytes, call_.bytes);
  }
  channel_.done(step);
}

void Run::scatter() {
  const uint64_t block = call_.bytes;
  Stream in, out;
  if (root()) open(out, call_.send.part(0, call_.size * call_.send.count), true);
  if (!root() || !call_.in_place) open(in, call_.recv.whole(), false);
  if (root() && !call_.in_place) {
    if (in.bytes() != block)
      note(Error(Errc::truncate,
                 "the block of the root itself does not fit its place: make counts and types agree"));
    if (outcome_.ok())
      p2p::copy_small(in.data(), out.data() + static_cast<uint64_t>(call_.rank) * block, block);
  }
  if (direct_) {
    scatter_direct(in.data(), out.data());
    return close(in);
  }
  const Slices slices{block, slice_of(call_.size - 1)};
  const uint32_t first = channel_.begin(slices.steps());
  for (uint32_t i = 0; i < slices.steps(); ++i) {
    const size_t n = slices.bytes(i);
    if (root()) {
      write_blocks(first + i, out.data(), slices.first(i), n);
    } else {
      const Shown shown = take(call_.root, first + i, n * static_cast<size_t>(call_.size - 1));
      if (outcome_.ok())
        p2p::copy_small(in.data() + slices.first(i), shown.data + place(call_.rank, call_.root) * n, n);
    }
    channel_.passed(first + i, n * static_cast<size_t>(call_.size - 1));
  }
  close(in);
}

}  // namespace weft::coll::shared
