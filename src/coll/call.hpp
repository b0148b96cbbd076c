// SPDX-License-Identifier: BSD-3-Clause
// Call: the arguments of one collective operation, the parameters that its program is run with.
// Threading: under the instance lock.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/communicator.hpp"
#include "core/op.hpp"
#include "datatype/datatype.hpp"
#include "device/memory.hpp"
#include "p2p/p2p.hpp"

namespace weft::coll {

enum class Collective : uint8_t {
  barrier,
  bcast,
  reduce,
  allreduce,
  gather,
  gatherv,
  scatter,
  scatterv,
  allgather,
  allgatherv,
  alltoall,
  alltoallv,
  alltoallw,
  reduce_scatter_block,
  reduce_scatter,
  scan,
  exscan,
  neighbor_allgather,
  neighbor_allgatherv,
  neighbor_alltoall,
  neighbor_alltoallv,
  neighbor_alltoallw
};
inline constexpr int kCollectives = static_cast<int>(Collective::neighbor_alltoallw) + 1;
/// The root of a call on an intercommunicator, in the root's own group: itself. The others there have
/// p2p::kProcNull.
inline constexpr int kRoot = -4;                  // MPI_ROOT in the ABI
[[nodiscard]] const char* name(Collective what);  ///< "allreduce"

/// A view of an array of counts or displacements, as int or as 64-bit integers. Owned by the caller.
struct Numbers {
  const void* data = nullptr;
  bool wide = false;
  [[nodiscard]] int64_t operator[](int i) const {
    return wide ? static_cast<const int64_t*>(data)[i] : static_cast<const int*>(data)[i];
  }
  explicit operator bool() const { return data != nullptr; }
};

/// One side of the data of a call: a block for each rank or neighbor, or one vector. Blocks are `count`
/// elements each and lie one behind the other; with `counts` they have lengths of their own and lie at
/// `displacements` (in extents; in bytes with `types`).
struct Operand {
  void* address = nullptr;
  int64_t count = 0;
  int blocks = 0;  ///< entries of the arrays
  const datatype::Datatype* type = nullptr;
  Numbers counts, displacements;
  const datatype::Datatype* const* types = nullptr;
  device::Memory memory;
  bool classified = false;  ///< `memory` holds for the whole operand

  /// The block of rank i.
  [[nodiscard]] p2p::Buffer block(int i) const;
  /// Elements [first, first + n) of a vector.
  [[nodiscard]] p2p::Buffer part(int64_t first, int64_t n) const;
  /// All `count` elements of a vector.
  [[nodiscard]] p2p::Buffer whole() const { return part(0, count); }
  [[nodiscard]] bool on_device() const { return classified && memory.on_device(); }
  /// Asks the driver what the operand is. Left to the transfers when one answer does not hold for all blocks.
  void classify() {
    if (device::available()) [[unlikely]]
      ask_driver();
    else
      classified = true;  // host memory
  }
  void ask_driver();
};

/// Address arithmetic that is defined for MPI_BOTTOM too.
[[nodiscard]] inline void* advance(const void* address, int64_t bytes) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) + static_cast<uintptr_t>(bytes));
}

/// A collective operation. With in_place, `send` holds what MPI takes as input: for reductions it is a copy
/// of `recv`, for the others it is unused.
/// On an intercommunicator `rank` and `size` are the local group's, and `root` is kRoot, p2p::kProcNull or a
/// rank of the other group.
struct Call {
  Collective what = Collective::barrier;
  core::Communicator* comm = nullptr;
  int rank = 0;
  int size = 1;
  int root = 0;
  bool in_place = false;
  Operand send, recv;
  core::Op* op = nullptr;
  int64_t results = 0;  ///< reductions: elements that this rank gets; the input is send.count elements
  uint64_t bytes =
      0;  ///< what selection looks at, equal on all ranks: a block of gather, scatter, allgather,
          ///< alltoall; the sum of all blocks of v-forms and reduce_scatter; else the vector
  int tag = 0;
  int phase = 0;                 ///< of the program: see Round::next
  std::byte* scratch = nullptr;  ///< as much as the algorithm asked for
  size_t scratch_bytes = 0;
  bool on_gpu = false;  ///< a reduction whose operands and scratch are memory of one GPU, computed by kernels
  device::Memory gpu;   ///< that GPU's: the scratch, else an operand
  /// Not null: this rank cannot take part, and says why. It goes through all steps with empty messages and
  /// touches no operand, so that nobody waits for it, and who depends on it sees an error.
  const Error* failed = nullptr;

  [[nodiscard]] bool inter() const { return comm != nullptr && comm->inter(); }
  [[nodiscard]] bool reduction() const { return op != nullptr; }
  [[nodiscard]] bool commutative() const { return op->commutative; }
  /// Of operands and scratch, at an address in one of them, while on_gpu.
  [[nodiscard]] const device::Memory& memory_at(const void* address) const;
  /// Rank relative to the root.
  [[nodiscard]] int relative() const { return rank >= root ? rank - root : rank - root + size; }
  [[nodiscard]] int absolute(int relative_rank) const { return (relative_rank + root) % size; }
  /// A rank counted round the ring; any integer.
  [[nodiscard]] int wrap(int any) const { return (any % size + size) % size; }
};

/// Host memory of the library's own: `n` bytes, or elements of a type.
[[nodiscard]] p2p::Buffer packed(void* address, uint64_t n);
[[nodiscard]] p2p::Buffer host_buffer(void* address, int64_t count, const datatype::Datatype& type);

/// Bytes in a buffer's packed stream.
[[nodiscard]] inline int64_t stream_bytes(const p2p::Buffer& buffer) {
  return buffer.count * buffer.type->size();
}

/// Blocks with nothing in them are neither sent nor awaited in v- and w-forms and linear algorithms: both
/// sides see it, since their signatures are equal (MPI 5.0 section 6.5).
[[nodiscard]] inline bool empty(const p2p::Buffer& buffer) { return stream_bytes(buffer) == 0; }

/// Host memory laid out as elements of a type: how much there must be, and where element 0 lies in it.
struct Span {
  size_t bytes = 0;  ///< a multiple of 64
  ptrdiff_t origin = 0;
  Span(const datatype::Datatype& type, int64_t count);
};

}  // namespace weft::coll
