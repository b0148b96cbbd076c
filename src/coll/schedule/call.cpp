// SPDX-License-Identifier: BSD-3-Clause
// Call: blocks, parts and layouts of operands.
#include "coll/schedule/call.hpp"

#include <algorithm>

#include "datatype/predefined.hpp"

namespace weft::coll {
namespace {

constexpr uintptr_t kByteHandle = 0x247;  // MPI_BYTE in the ABI
constexpr int64_t kAlignment = 64;
const device::Memory kHost;

}  // namespace

const char* name(Collective what) {
  static constexpr const char* kNames[kCollectives] = {"barrier",
                                                       "bcast",
                                                       "reduce",
                                                       "allreduce",
                                                       "gather",
                                                       "gatherv",
                                                       "scatter",
                                                       "scatterv",
                                                       "allgather",
                                                       "allgatherv",
                                                       "alltoall",
                                                       "alltoallv",
                                                       "alltoallw",
                                                       "reduce_scatter_block",
                                                       "reduce_scatter",
                                                       "scan",
                                                       "exscan",
                                                       "neighbor_allgather",
                                                       "neighbor_allgatherv",
                                                       "neighbor_alltoall",
                                                       "neighbor_alltoallv",
                                                       "neighbor_alltoallw"};
  return kNames[static_cast<int>(what)];
}

p2p::Buffer Operand::part(int64_t first, int64_t n) const {
  return {advance(address, first * type->extent()), n, type, classified ? &memory : nullptr};
}

void Operand::query_driver() {
  if (types != nullptr || type == nullptr || (counts && address == nullptr)) return;
  memory = device::classify(advance(address, type->true_lb()));
  classified = true;
}

const device::Memory& Call::memory_at(const void* address) const {
  const auto within = [&](const void* begin, size_t bytes) {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(begin) < bytes;
  };
  if (within(scratch, scratch_bytes)) return gpu;
  const auto extent = static_cast<size_t>(recv.type->extent());
  if (!in_place && within(send.address, static_cast<size_t>(send.count) * extent)) return send.memory;
  return recv.memory;
}

p2p::Buffer packed(void* address, uint64_t n) {
  static const datatype::Datatype* const byte = datatype::predefined(kByteHandle);
  return {address, static_cast<int64_t>(n), byte, &kHost};
}

p2p::Buffer host_buffer(void* address, int64_t count, const datatype::Datatype& type) {
  return {address, count, &type, &kHost};
}

TypedLayout::TypedLayout(const datatype::Datatype& type, int64_t count) {
  if (count <= 0) return;
  const int64_t last = (count - 1) * type.extent();
  const int64_t low = std::min<int64_t>(0, last) + type.true_lb();
  const int64_t high = std::max<int64_t>(0, last) + type.true_ub();
  bytes = static_cast<size_t>((high - low + kAlignment - 1) / kAlignment * kAlignment);
  origin = -low;
}

}  // namespace weft::coll
