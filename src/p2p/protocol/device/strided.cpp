// SPDX-License-Identifier: BSD-3-Clause
// Strided blocks of device memory, read by a kernel of the receiver directly from the sender's memory: one
// kernel instead of packing, reading and unpacking. For blocks that are small or have runs long enough for
// NVLink.
#include <algorithm>
#include <cstring>

#include "base/config.hpp"
#include "device/pack.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/engine/protocol.hpp"
#include "p2p/engine/regions.hpp"
#include "p2p/memory/device_copy.hpp"
#include "p2p/message/validate.hpp"
#include "p2p/protocol/device/bounce.hpp"
#include "p2p/protocol/device/choice.hpp"
#include "p2p/protocol/device/protocols.hpp"

namespace weft::p2p {
namespace {

Received received{{"p2p.strided_messages", counters::Unit::events,
                   "Messages received by a kernel that reads strided GPU memory of the sender"},
                  {"p2p.strided_bytes", counters::Unit::bytes,
                   "Bytes received by a kernel that reads strided GPU memory of the sender"}};

config::Size setting_overhead(
    "gpu.strided_overhead", size_t{3} << 20, 0, size_t{1} << 40,
    "Largest overhead in bytes that short runs may cause on NVLink for a strided GPU message to be "
    "read without packing; a quarter of the message is always accepted.");

constexpr uint64_t kSector = 32;  // minimum bytes per run across NVLink

/// The memory range of a block, relative to its first run.
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

/// Returns whether the block of an RTS has the bytes of the message and lies within the sender's allocation.
bool fits(const Strides& strides, const ReadyToSend& rts, const transport::cuda_ipc::Mapping& mapping) {
  if (strides.length <= 0 || strides.dimensions < 0 || strides.dimensions > device::Shape::kDimensions)
    return false;
  int64_t bytes = strides.length, low = 0, high = strides.length;
  for (int64_t i = 0; i < strides.dimensions; ++i) {
    int64_t reach = 0;
    if (strides.count[i] <= 0 || __builtin_mul_overflow(bytes, strides.count[i], &bytes) ||
        __builtin_mul_overflow(strides.count[i] - 1, strides.stride[i], &reach))
      return false;
    int64_t& bound = reach < 0 ? low : high;
    if (__builtin_add_overflow(bound, reach, &bound)) return false;
  }
  int64_t extent = 0;
  return static_cast<uint64_t>(bytes) == rts.bytes && !__builtin_sub_overflow(high, low, &extent) &&
         mapping.contains(rts.address + static_cast<uint64_t>(low), static_cast<uint64_t>(extent));
}

bool applicable(const MessageInfo& message) {
  return message.device && message.region && message.strided && device_side(message.to);
}

// Appends the region and strides of the block; nullopt: the data must be packed.
std::optional<RtsPart> append_rts(Engine& engine, Transfer& t, ReadyToSend& rts, std::byte* out) {
  if (engine.peers[t.peer].remote || rts_source(t.memory.kind, t.contiguous, false) != RtsSource::strided)
    return std::nullopt;
  const auto block = t.type->strided(t.count);
  if (t.bytes == 0 || !block || !prefers_strided_get(static_cast<uint64_t>(block->length), t.bytes) ||
      !device::can_pack(t.memory, t.memory))
    return std::nullopt;
  const Extent extent = extent_of(*block);
  const std::byte* const first = t.data() + block->displacement;
  const auto extent_bytes = static_cast<size_t>(extent.high - extent.low);
  t.memory = device::widened(t.memory, first + extent.low, extent_bytes);
  if (!t.memory.covers(first + extent.low, extent_bytes) || !mapping_pays(engine, t)) return std::nullopt;
  const auto size = engine.regions.append_export(t.memory, t.peer, rts, out);
  if (!size) return std::nullopt;
  rts.flags |= ReadyToSend::kStrided;
  rts.address = reinterpret_cast<uint64_t>(first);
  Strides strides{block->length, block->dimensions, {}, {}};
  std::copy(std::begin(block->count), std::end(block->count), strides.count);
  std::copy(std::begin(block->stride), std::end(block->stride), strides.stride);
  std::memcpy(out + *size, &strides, sizeof strides);
  return RtsPart{*size + sizeof strides};
}

// Reads the sender's block into the receive buffer.
bool init(Engine& engine, Transfer& t, const ReadyToSend& rts) {
  auto* const mapping = engine.regions.map(t, rts);
  if (mapping == nullptr) return false;
  Strides strides;
  std::memcpy(&strides, after_region(rts), sizeof strides);
  if (!fits(strides, rts, *mapping)) {
    engine.importer().release(mapping);
    drop_malformed();
    return false;
  }
  device::Shape from = device::contiguous_shape(mapping->at(rts.address));
  from.length = strides.length;
  from.dimensions = static_cast<int>(strides.dimensions);
  std::copy(std::begin(strides.count), std::end(strides.count), from.count);
  std::copy(std::begin(strides.stride), std::end(strides.stride), from.stride);
  // Alternating streams overlap the end of one kernel with the start of the next. Neither is the stream of
  // the copy engine, behind whose copies the kernel would wait.
  const auto stream = engine.copies.next_stream(device::StreamRole::local, device::StreamRole::out);
  auto ticket = copy::submit_shape(view_of(t), from, mapping->memory(), rts.bytes, stream);
  if (!ticket) {
    engine.importer().release(mapping);
    return false;
  }
  (void)engine.requests.enlist(t);
  engine.copies.track({std::move(*ticket), {&t, t.peer, rts.sender, mapping}, {}});
  return true;
}

}  // namespace

constinit const Protocol kStrided{.name = "strided",
                                  .text = "a kernel reads the sender's strided blocks in place",
                                  .applicable = applicable,
                                  .copies = 1,
                                  .init = init,
                                  .received = &received,
                                  .append_rts = append_rts};

bool prefers_strided_get(uint64_t length, uint64_t bytes) {
  const uint64_t nvlink_bytes = bytes / length * ((length + 2 * kSector - 1) / kSector * kSector);
  return nvlink_bytes <= bytes + std::max<uint64_t>(bytes / 4, setting_overhead);
}

}  // namespace weft::p2p
