// SPDX-License-Identifier: BSD-3-Clause
// Device side of LL and LL128 collectives: one block's part of a call. `Protocol` is ProtoLL or ProtoLL128.
#pragma once
#include "device/kernel/ll128_device.cuh"
#include "device/kernel/ll_device.cuh"

namespace weft::device::kernel {

template <class Protocol>
__device__ inline void push_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  const ThreadShare share_of_thread(c.size);
  if (share_of_thread.peer >= c.size) return;
  const uint32_t to = after(c, 1 + share_of_thread.peer);  // this rank last
  const Collective::Message message = c.send[to];
  const Range mine = Protocol::share(vec16_count(message.bytes), block, blocks);
  Protocol::push(Protocol::slots(c.regions[to], 0, c.rank, c.size), {message, 0, mine, share_of_thread},
                 c.epoch);
}

template <class Protocol>
__device__ inline bool receive_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  const ThreadShare share_of_thread(c.size);
  if (share_of_thread.peer >= c.size) return true;
  const Collective::Message message = c.recv[share_of_thread.peer];
  const Range mine = Protocol::share(vec16_count(message.bytes), block, blocks);
  return Protocol::receive(Protocol::slots(c.regions[c.rank], 0, share_of_thread.peer, c.size),
                           {message, 0, mine, share_of_thread}, c);
}

template <class Protocol>
__device__ inline bool reduce_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  uint32_t sources = 0;
  Collective::Message out{};
  for (uint32_t j = 0; j < c.size; ++j)
    if (c.recv[j].bytes != 0) sources |= 1u << j, out = c.recv[j];
  return Protocol::reduce_messages(c, sources, out, Protocol::share(vec16_count(out.bytes), block, blocks));
}

template <class Protocol>
__device__ inline void push_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  const ThreadShare share_of_thread(c.size);
  if (share_of_thread.peer >= c.size || !member(c.sources, c.rank)) return;
  const uint32_t to = after(c, 1 + share_of_thread.peer);
  const Range whole = part(c, to), mine = Protocol::share(whole.count, block, blocks);
  Protocol::push(Protocol::slots(c.regions[to], 0, c.rank, c.size),
                 {c.send[0], whole.first, mine, share_of_thread}, c.epoch);
}

template <class Protocol>
__device__ inline bool receive_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  const ThreadShare share_of_thread(c.size);
  if (share_of_thread.peer >= c.size || !member(c.targets, c.rank)) return true;
  const Range whole = part(c, share_of_thread.peer), mine = Protocol::share(whole.count, block, blocks);
  return Protocol::receive(Protocol::slots(c.regions[c.rank], 1, share_of_thread.peer, c.size),
                           {{c.recv[0].address, c.send[0].bytes}, whole.first, mine, share_of_thread}, c);
}

/// One block's part of a call without parts. Returns false on timeout. A block writes only where it alone has
/// read (buffers may be in place), so the messages are pushed first.
template <class Protocol>
__device__ inline bool run_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  if (c.launch == 0) {
    push_messages<Protocol>(c, block, blocks);
    __syncthreads();
  }
  return c.form == Collective::exchange ? receive_messages<Protocol>(c, block, blocks)
                                        : reduce_messages<Protocol>(c, block, blocks);
}

/// One block's part of a two_shot call. Returns false on timeout.
template <class Protocol>
__device__ inline bool run_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  if (c.launch == 0) {
    push_parts<Protocol>(c, block, blocks);
    __syncthreads();
  }
  const bool reduced = Protocol::reduce_part(c, Protocol::share(part(c, c.rank).count, block, blocks));
  return receive_parts<Protocol>(c, block, blocks) && reduced;
}

template <class Protocol>
__device__ inline bool run(const Collective& c, uint32_t block, uint32_t blocks) {
  return c.form == Collective::two_shot ? run_parts<Protocol>(c, block, blocks)
                                        : run_messages<Protocol>(c, block, blocks);
}

}  // namespace weft::device::kernel
