// SPDX-License-Identifier: BSD-3-Clause
// Device side of collectives by packets, and by lines: one block's part of a call.
#pragma once
#include "device/kernel/lines_device.cuh"
#include "device/kernel/packets_device.cuh"

namespace weft::device::kernel {

template <class Wire>
__device__ inline void push_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size) return;
  const uint32_t to = after(c, 1 + deal.peer);  // this rank last
  const Collective::Message message = c.send[to];
  const Range mine = Wire::share(granules(message.bytes), block, blocks);
  Wire::push(Wire::slots(c.areas[to], 0, c.rank, c.size), {message, 0, mine, deal}, c.epoch);
}

template <class Wire>
__device__ inline bool take_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size) return true;
  const Collective::Message message = c.recv[deal.peer];
  const Range mine = Wire::share(granules(message.bytes), block, blocks);
  return Wire::take(Wire::slots(c.areas[c.rank], 0, deal.peer, c.size), {message, 0, mine, deal}, c);
}

template <class Wire>
__device__ inline bool reduce_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  uint32_t sources = 0;
  Collective::Message out{};
  for (uint32_t j = 0; j < c.size; ++j)
    if (c.recv[j].bytes != 0) sources |= 1u << j, out = c.recv[j];
  return Wire::reduce_messages(c, sources, out, Wire::share(granules(out.bytes), block, blocks));
}

template <class Wire>
__device__ inline void push_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size || !member(c.sources, c.rank)) return;
  const uint32_t to = after(c, 1 + deal.peer);
  const Range whole = part(c, to), mine = Wire::share(whole.count, block, blocks);
  Wire::push(Wire::slots(c.areas[to], 0, c.rank, c.size), {c.send[0], whole.first, mine, deal}, c.epoch);
}

template <class Wire>
__device__ inline bool take_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  const Deal deal(c.size);
  if (deal.peer >= c.size || !member(c.targets, c.rank)) return true;
  const Range whole = part(c, deal.peer), mine = Wire::share(whole.count, block, blocks);
  return Wire::take(Wire::slots(c.areas[c.rank], 1, deal.peer, c.size),
                    {{c.recv[0].address, c.send[0].bytes}, whole.first, mine, deal}, c);
}

/// One block's part of a call without parts; true: done, false: it has waited too long. A block writes where
/// only itself has read (buffers may be in place), so what it sends has to be read first.
template <class Wire>
__device__ inline bool run_messages(const Collective& c, uint32_t block, uint32_t blocks) {
  if (c.launch == 0) {
    push_messages<Wire>(c, block, blocks);
    __syncthreads();
  }
  return c.form == Collective::exchange ? take_messages<Wire>(c, block, blocks)
                                        : reduce_messages<Wire>(c, block, blocks);
}

/// The same of a call in parts.
template <class Wire>
__device__ inline bool run_parts(const Collective& c, uint32_t block, uint32_t blocks) {
  if (c.launch == 0) {
    push_parts<Wire>(c, block, blocks);
    __syncthreads();
  }
  const bool given = Wire::reduce_part(c, Wire::share(part(c, c.rank).count, block, blocks));
  return take_parts<Wire>(c, block, blocks) && given;
}

template <class Wire>
__device__ inline bool run(const Collective& c, uint32_t block, uint32_t blocks) {
  return c.form == Collective::two_shot ? run_parts<Wire>(c, block, blocks)
                                        : run_messages<Wire>(c, block, blocks);
}

}  // namespace weft::device::kernel
