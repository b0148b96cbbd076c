// SPDX-License-Identifier: BSD-3-Clause
// Messages of a collective on device buffers, and the location of its operands. Threading: under the instance
// lock.
#pragma once
#include <cstdint>
#include <optional>

#include "coll/schedule/call.hpp"
#include "device/collective.hpp"

namespace weft::coll::gpu {

/// Location of a rank's operands, as published in its vote.
enum class Location : uint8_t {
  nothing,  ///< no data in this call
  host,     ///< accessible by the CPU
  device,   ///< GPU memory of one context, of a layout that kernels move
  other     ///< anything else: schedules of messages handle it
};

/// The operation of a reduction on its datatype, and whether a kernel exists for it.
[[nodiscard]] device::kernel::Reduction kernel_reduction(const Call& call);
[[nodiscard]] bool has_kernel(const Call& call);
/// How the blocks of operands lie in memory, as published in a vote; a later one needs more of a kernel.
enum class Layouts : uint8_t {
  contiguous,   ///< each message is a contiguous block
  strided,      ///< several blocks in a message, or strided blocks
  sent_tables,  ///< a table of runs describes a block that this rank sends
  tables        ///< a table of runs describes a block that this rank receives
};
/// Location of this rank's operands; `memory`: of one of them, if in GPU memory.
struct Operands {
  Location location = Location::nothing;
  Layouts layouts = Layouts::contiguous;
  device::Memory memory;
};
[[nodiscard]] Operands locate_operands(const Call& call);
/// Receives the blocks of the messages of a call that moves data.
class BlockSink {
 public:
  virtual void send(int to, const p2p::Buffer& block) = 0;
  virtual void receive(int from, const p2p::Buffer& block) = 0;

 protected:
  ~BlockSink() = default;
};
/// Visits the blocks of all messages. If a message has several blocks, which lie along the edges of a
/// topology, the k-th block at the sender is the k-th block at the receiver.
void visit_blocks(const Call& call, BlockSink& sink);
/// In a message of several blocks, each block begins at a multiple of so many bytes.
inline constexpr uint64_t kBlockAlignment = 16;

/// Bytes that this rank sends to, and expects from, each rank.
struct Amounts {
  uint64_t sent[device::kernel::Collective::kRanks], expected[device::kernel::Collective::kRanks];
};
[[nodiscard]] Amounts amounts_of(const Call& call);
/// Returns whether all messages have one size (Call::bytes), or there is a single vector.
[[nodiscard]] bool regular(const Call& call);
/// The messages of the call; with `parts`, a part of the vector for each rank.
[[nodiscard]] device::kernel::Collective messages_of(const Call& call, bool parts);
/// The messages of a call that moves data, whose addresses are unused since blocks of any layout have their
/// own.
[[nodiscard]] device::kernel::Collective block_messages_of(const Call& call);
[[nodiscard]] uint64_t largest_message(const Call& call, const Amounts& amounts);
/// Bytes of in-place output that need staging, since a block would overwrite data that another block has yet
/// to send; 0: none.
[[nodiscard]] uint64_t in_place_staging_bytes(const Call& call);
using Shape = device::kernel::Regular::Shape;
/// The shape of a regular call; with `parts`, of a vector that is divided among the ranks. nullopt:
/// irregular.
[[nodiscard]] std::optional<Shape> shape_of(const Call& call, bool parts = false);
/// The shape of a call with blocks of different sizes, if these should have one size; nullopt: none.
[[nodiscard]] std::optional<Shape> shape_of_even(Collective what);
[[nodiscard]] device::kernel::Regular regular_form(const Call& call, Shape shape);

}  // namespace weft::coll::gpu
