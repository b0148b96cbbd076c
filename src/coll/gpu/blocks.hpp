// SPDX-License-Identifier: BSD-3-Clause
// Blocks of any layout: the kernel parameters of calls that move vectors, subarrays, indexed and struct
// types, or several blocks between two ranks (device/kernel/blocks.hpp). Threading: under the instance lock.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "coll/gpu/messages.hpp"
#include "coll/schedule/call.hpp"
#include "device/collective.hpp"

namespace weft::coll::gpu {

/// The blocks of a call that are not empty, as shapes, by peers.
struct BlockShapes {
  struct Entry {
    uint32_t peer;
    uint32_t word;          ///< bytes of the largest words; for a block of this rank to itself, of both sides
    uint64_t bytes, first;  ///< packed size; byte of the message at which the block begins
    device::Shape shape;
    uint64_t low, high;  ///< range of its addresses
  };
  std::vector<Entry> sent, received;
};
/// Returns the shape of a block, which has no location (Buffer::memory).
using DescribeBlock = std::function<Result<device::Shape>(const p2p::Buffer& block)>;
/// An error of `describe`; Errc::truncate: messages of this rank to itself have other blocks on both sides;
/// Errc::unsupported: there are more than `most` blocks.
[[nodiscard]] Result<BlockShapes> block_shapes(const Call& call, size_t most, const DescribeBlock& describe);
/// For kernels on the GPU of `near`, with tables of runs. Errc::unsupported with the reason, for layouts
/// beyond the limits of the kernel, or more than Blocks::kMost blocks.
[[nodiscard]] Result<BlockShapes> block_shapes(const Call& call, const device::Memory& near);

/// Bytes of the largest message that layouts may have: it has fewer than 2^31 words, also of one byte.
inline constexpr uint64_t kMostLayoutBytes = uint64_t{1} << 30;
/// Whether kernels may move blocks of any layout in this call if a rank has them; equal on all ranks.
[[nodiscard]] bool supports_layouts(const Call& call);
/// Whether weft_collective_blocks moves them, and not messages.
[[nodiscard]] bool moves_layouts_by_blocks(const Call& call);
/// Whether pairs of ranks divide the messages of such a call (pair_blocks.hpp). `largest` and `layouts`: of
/// all ranks.
[[nodiscard]] bool moves_layouts_by_pairs(const Call& call, uint64_t largest, Layouts layouts);
/// The layouts of a rank's blocks; nullopt: kernels cannot move them. Creates their tables of runs.
[[nodiscard]] std::optional<Layouts> movable_layouts(const Call& call, const device::Memory& near);

/// Returns the kernel parameter of a call whose messages are packed into chunks, without regions;
/// `collective` has its messages and chunks.
[[nodiscard]] Result<std::unique_ptr<device::kernel::Blocks>> packed_blocks(
    const Call& call, const device::kernel::Collective& collective, const device::Memory& near);
/// The same for a call whose blocks are stored at their destinations, `targets`, in the order of the sent
/// blocks. An error if a destination has another size.
[[nodiscard]] Result<std::unique_ptr<device::kernel::Blocks>> stored_blocks(
    const BlockShapes& shapes, const std::vector<BlockShapes::Entry>& targets,
    const device::kernel::Collective& collective);

}  // namespace weft::coll::gpu
