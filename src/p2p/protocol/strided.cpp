// SPDX-License-Identifier: BSD-3-Clause
// Strided blocks of device memory, read by a kernel of the receiver where they lie: one kernel instead of
// packing, fetching and unpacking. For blocks whose runs are long enough for NVLink, or which are small.
#include <algorithm>
#include <cstring>

#include "base/config.hpp"
#include "device/pack.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/choice.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

config::Size setting_overhead("gpu.strided_overhead", size_t{3} << 20, 0, size_t{1} << 40,
                              "A strided GPU message is read where it lies when that moves at most so many "
                              "bytes more across NVLink than "
                              "it has, or a quarter; else it is packed first");

constexpr uint64_t kSector = 32;  // bytes that cross NVLink for each run, at least

/// The bytes that a block takes in memory, from its first run on.
struct Extent {
  int64_t low = 0, high = 0;
};
Extent extent_of(const datatype::Strided& block) {
  Extent extent{0, block.length};
  for (int i = 0; i < block.dimensions; ++i) {
    const int64_t reach = (block.count[i] - 1) * block.stride[i];
    (reach < 0 ? extent.low : extent.high) += reach;
  }
  return extent;
}

}  // namespace

bool reads_well(uint64_t length, uint64_t bytes) {
  const uint64_t crossing = bytes / length * ((length + 2 * kSector - 1) / kSector * kSector);
  return crossing <= bytes + std::max<uint64_t>(bytes / 4, setting_overhead);
}

// Sender: nullopt when the data have to be packed here first.
std::optional<size_t> Engine::append_strides(Transfer& t, uint32_t to, ReadyToSend& rts, std::byte* room) {
  const auto block = t.type->strided(t.count);
  if (t.bytes == 0 || !block || !reads_well(static_cast<uint64_t>(block->length), t.bytes) ||
      !device::can_pack(t.memory, t.memory))
    return std::nullopt;
  const Extent extent = extent_of(*block);
  const std::byte* const first = t.data() + block->displacement;
  const auto room_taken = static_cast<size_t>(extent.high - extent.low);
  t.memory = device::widened(t.memory, first + extent.low, room_taken);
  if (!t.memory.covers(first + extent.low, room_taken)) return std::nullopt;
  const auto size = append_export(t.memory, to, rts, room);
  if (!size) return std::nullopt;
  rts.flags |= ReadyToSend::kStrided;
  rts.address = reinterpret_cast<uint64_t>(first);
  Strides strides{block->length, block->dimensions, {}, {}};
  std::copy(std::begin(block->count), std::end(block->count), strides.count);
  std::copy(std::begin(block->stride), std::end(block->stride), strides.stride);
  std::memcpy(room + *size, &strides, sizeof strides);
  return *size + sizeof strides;
}

// Receiver: reads the sender's block and writes to the places of the receive. False: not possible for this
// message.
bool Engine::get_strided(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  auto* mapping = map_region(t, source, rts);
  if (mapping == nullptr) return false;
  Strides strides;
  std::memcpy(&strides, behind_region(rts), sizeof strides);
  device::Shape from = device::plain(mapping->at(rts.address));
  from.length = strides.length;
  from.dimensions = static_cast<int>(strides.dimensions);
  std::copy(std::begin(strides.count), std::end(strides.count), from.count);
  std::copy(std::begin(strides.stride), std::end(strides.stride), from.stride);
  // The end of one overlaps the start of the next, and neither waits behind a copy engine's copies.
  odd_copy_ = !copies_.empty() && !odd_copy_;
  const device::Lane lane = odd_copy_ ? device::Lane::out : device::Lane::local;
  auto ticket = submit_from(view_of(t), from, mapping->memory(), rts.bytes, lane);
  if (!ticket) {
    importer().release(mapping);
    return false;
  }
  copies_.push_back({std::move(*ticket), {&t, source, rts.sender, mapping, nullptr}, {}});
  return true;
}

}  // namespace weft::p2p
